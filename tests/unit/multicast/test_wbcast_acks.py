"""A follower that decides for itself: what it must have seen before it delivers."""

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Message,
    MessageId,
    Receive,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_acks import AckMember
from shmcast.multicast.protocols.wbcast_rejoin import Past
from shmcast.multicast.protocols.wbcast_session import Sessions
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    DeliverMsg,
    NewLeader,
    NewState,
    Phase,
    Snapshot,
)

TOPOLOGY = Topology.regular(groups=2, replicas=3, clients=1)
CLIENT = 6
LEADER, ME, PEER, OTHER_LEADER, OTHER_PEER = 0, 1, 2, 3, 4
M = Message(MessageId(CLIENT, 1), dest=(0, 1))
N = Message(MessageId(CLIENT, 2), dest=(0,))
FIRST, OTHER, SECOND = Ballot(1, LEADER), Ballot(1, OTHER_LEADER), Ballot(2, PEER)
ALIVE = (0, 0, 0)


def follower() -> AckMember:
    return AckMember(TOPOLOGY, ME, {})


def receive(machine: AckMember, message: Wire, sender: int) -> list[Effect]:
    """With what the machine sends itself in answer, which arrives at once."""
    return [
        *(effects := machine.handle(Receive(message, sender), 0)),
        *(
            more
            for effect in effects
            if (own := getattr(effect, "message", None)) is not None
            and machine.me in getattr(effect, "to", ())
            for more in receive(machine, own, machine.me)
        ),
    ]


def delivered(effects: list[Effect]) -> list[MessageId]:
    return [e.message.id for e in effects if isinstance(e, Deliver)]


def accept_n(time: int, ballot: Ballot = FIRST) -> Accept:
    return Accept(N, 0, ballot, Timestamp(time, 0))


def vote_n(ballot: Ballot = FIRST) -> AcceptAck:
    return AcceptAck(N.id, 0, (ballot,))


def test_follower_delivers_with_the_leaders_vote_and_its_own() -> None:
    machine = follower()
    assert not delivered(receive(machine, accept_n(1), LEADER))
    assert delivered(receive(machine, vote_n(), LEADER)) == [N.id]


def test_quorum_without_the_leader_is_not_enough() -> None:
    """Without its vote nobody knows what else it has proposed below."""
    machine = follower()
    receive(machine, accept_n(1), LEADER)
    assert not delivered(receive(machine, vote_n(), PEER))
    assert delivered(receive(machine, vote_n(), LEADER)) == [N.id]


def test_every_group_must_have_a_quorum() -> None:
    machine = follower()
    vector = (FIRST, OTHER)
    receive(machine, Accept(M, 0, FIRST, Timestamp(1, 0)), LEADER)
    receive(machine, Accept(M, 1, OTHER, Timestamp(5, 1)), OTHER_LEADER)
    assert not delivered(receive(machine, AcceptAck(M.id, 0, vector), LEADER))
    assert not delivered(receive(machine, AcceptAck(M.id, 1, vector), OTHER_LEADER))
    effects = receive(machine, AcceptAck(M.id, 1, vector), OTHER_PEER)
    assert [e for e in effects if isinstance(e, Deliver)] == [Deliver(M, Timestamp(5, 1))]


def test_proposal_that_another_group_has_not_answered_is_waited_for() -> None:
    machine = follower()
    receive(machine, Accept(M, 0, FIRST, Timestamp(1, 0)), LEADER)
    receive(machine, accept_n(2), LEADER)
    assert not delivered(receive(machine, vote_n(), LEADER))
    deliver = DeliverMsg(M, FIRST, Timestamp(1, 0), Timestamp(1, 1))
    assert delivered(receive(machine, deliver, LEADER)) == [M.id, N.id]


def test_vote_that_comes_before_the_proposal_counts() -> None:
    """From a member whose link is faster than the leader's."""
    topology = Topology.regular(groups=1, replicas=5, clients=1)
    machine = AckMember(topology, ME, {})
    n = Message(MessageId(5, 1), (0,))
    vote = AcceptAck(n.id, 0, (FIRST,))
    assert not delivered(receive(machine, vote, PEER))
    receive(machine, Accept(n, 0, FIRST, Timestamp(1, 0)), LEADER)
    assert delivered(receive(machine, vote, LEADER)) == [n.id]


def test_deliver_that_follows_is_stored_and_reported_but_not_delivered_again() -> None:
    machine = follower()
    receive(machine, accept_n(1), LEADER)
    receive(machine, vote_n(), LEADER)
    assert machine.garbage.handled < Timestamp(1, 0)
    deliver = DeliverMsg(N, FIRST, Timestamp(1, 0), Timestamp(1, 0))
    assert not delivered(receive(machine, deliver, LEADER))
    assert machine.garbage.handled == Timestamp(1, 0)


def test_late_vote_leaves_nothing_behind() -> None:
    machine = follower()
    receive(machine, accept_n(1), LEADER)
    receive(machine, DeliverMsg(N, FIRST, Timestamp(1, 0), Timestamp(1, 0)), LEADER)
    for sender in (LEADER, PEER):
        assert not delivered(receive(machine, vote_n(), sender))
    assert not machine.state.acks and not machine.state.pending


def test_follower_that_has_promised_a_ballot_delivers_nothing_in_the_old_one() -> None:
    machine = follower()
    receive(machine, accept_n(1), LEADER)
    receive(machine, NewLeader(SECOND, ALIVE), PEER)
    assert not delivered(receive(machine, vote_n(), LEADER))


def new_state(phase: Phase) -> NewState:
    """M is committed at 5, and waits for N, which was proposed at 3; or N is not there."""
    ts, low = Timestamp(5, 0), Timestamp(3, 0)
    has_n = phase is Phase.ACCEPTED
    held = Snapshot(
        {M.id: M, **({N.id: N} if has_n else {})},
        {M.id: Phase.COMMITTED, **({N.id: phase} if has_n else {})},
        {M.id: ts, **({N.id: low} if has_n else {})},
        {M.id: ts},
    )
    past = Past(Timestamp(0, 0), Timestamp(-1, -1), Sessions(), {})
    return NewState(SECOND, 5, held, ALIVE, past)


def test_new_state_alone_delivers_nothing() -> None:
    """A quorum may not have it yet; a ballot to come could know of a lower timestamp."""
    machine = follower()
    assert not delivered(receive(machine, new_state(Phase.START), PEER))
    assert machine.state.committed


def test_what_a_ballot_began_with_goes_first() -> None:
    machine = follower()
    receive(machine, new_state(Phase.ACCEPTED), PEER)
    late = Message(MessageId(CLIENT, 3), (0,))
    receive(machine, Accept(late, 0, SECOND, Timestamp(6, 0)), PEER)
    assert not delivered(receive(machine, AcceptAck(late.id, 0, (SECOND,)), PEER))
    receive(machine, accept_n(3, SECOND), PEER)
    assert delivered(receive(machine, vote_n(SECOND), PEER)) == [N.id, M.id, late.id]
