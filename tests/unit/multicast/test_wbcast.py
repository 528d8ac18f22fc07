"""Fig. 4 of paper 000, line by line, and the rules of its neighbours."""

import pytest

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Message,
    MessageId,
    Multicast,
    Nominate,
    Receive,
    Reply,
    Restart,
    Save,
    Send,
    Suspect,
    Timer,
    Timestamp,
    Trust,
    Wire,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Status
from shmcast.multicast.protocols.wbcast_member import HELD_BYTES_MAX, Member
from shmcast.multicast.protocols.wbcast_rejoin import Missed, Past
from shmcast.multicast.protocols.wbcast_session import EPOCH_SHIFT, Client, Session, Sessions
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    Collect,
    DeliverMsg,
    Done,
    MulticastMsg,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Phase,
    Redirect,
    Rejoin,
    Report,
    Snapshot,
    Stable,
)

TOPOLOGY = Topology.regular(groups=2, replicas=3, clients=1)
CLIENT = 6
M = Message(MessageId(CLIENT, 1), dest=(0, 1))
N = Message(MessageId(CLIENT, 2), dest=(0,))
FIRST, OTHER = Ballot(1, 0), Ballot(1, 3)
ALIVE = (0, 0, 0)


def member(process: int) -> Member:
    return Member(TOPOLOGY, process, {})


def receive(machine: Member, message: Wire, sender: int) -> list[Effect]:
    return machine.handle(Receive(message, sender), 0)


def sent(effects: list[Effect]) -> list[tuple[Wire, tuple[int, ...]]]:
    return [(e.message, e.to) for e in effects if isinstance(e, Send)]


def committed(machine: Member, m: Message, time: int) -> list[Effect]:
    ts = Timestamp(time, 0)
    return receive(machine, DeliverMsg(m, machine.state.cballot, ts, ts), 0)


def test_resent_multicast_keeps_its_first_timestamp() -> None:
    """L5-L9: "the leader resends the ACCEPT message with the locally stored data"."""
    leader = member(0)
    leader.state.clock = 6
    first = sent(receive(leader, MulticastMsg(M), CLIENT))
    again = sent(receive(leader, MulticastMsg(M), CLIENT))
    assert first == again == [(Accept(M, 0, FIRST, Timestamp(7, 0)), (0, 1, 2, 3, 4, 5))]
    assert leader.state.clock == 7


def test_follower_names_the_leader_it_knows() -> None:
    """L4."""
    assert sent(receive(member(1), MulticastMsg(M), CLIENT)) == [(Redirect(M.id, 0, 0), (CLIENT,))]


def test_accept_of_every_group_is_acknowledged_to_every_leader() -> None:
    """L10-L16; the clock passes the maximum before anything is agreed."""
    follower = member(1)
    assert receive(follower, Accept(M, 0, FIRST, Timestamp(1, 0)), 0) == []
    effects = receive(follower, Accept(M, 1, OTHER, Timestamp(9, 1)), 3)
    assert sent(effects) == [(AcceptAck(M.id, 0, (FIRST, OTHER)), (0, 3))]
    assert follower.state.clock == 9
    assert follower.state.local_ts[M.id] == Timestamp(1, 0)


def test_accept_of_another_ballot_is_not_acknowledged() -> None:
    """L11."""
    follower = member(1)
    receive(follower, Accept(N, 0, Ballot(0, 2), Timestamp(1, 0)), 2)
    assert N.id not in follower.state.phase


def test_leader_commits_with_a_quorum_of_every_group() -> None:
    """L17-L23."""
    leader = member(0)
    receive(leader, MulticastMsg(M), CLIENT)
    receive(leader, Accept(M, 0, FIRST, Timestamp(1, 0)), 0)
    receive(leader, Accept(M, 1, OTHER, Timestamp(9, 1)), 3)
    bal = (FIRST, OTHER)
    for voter, g in ((0, 0), (1, 0), (3, 1)):
        assert receive(leader, AcceptAck(M.id, g, bal), voter) == []
    effects = receive(leader, AcceptAck(M.id, 1, bal), 5)
    ts = Timestamp(1, 0), Timestamp(9, 1)
    assert sent(effects) == [(DeliverMsg(M, FIRST, *ts), (0, 1, 2))]
    assert leader.state.phase[M.id] is Phase.COMMITTED


def test_votes_with_different_ballots_do_not_add_up() -> None:
    """L17: "with matching ballot vectors"."""
    leader = member(0)
    receive(leader, MulticastMsg(M), CLIENT)
    receive(leader, Accept(M, 0, FIRST, Timestamp(1, 0)), 0)
    receive(leader, Accept(M, 1, OTHER, Timestamp(9, 1)), 3)
    for voter, g in ((0, 0), (1, 0), (3, 1)):
        receive(leader, AcceptAck(M.id, g, (FIRST, OTHER)), voter)
    receive(leader, AcceptAck(M.id, 1, (FIRST, Ballot(2, 4))), 4)
    assert leader.state.phase[M.id] is Phase.ACCEPTED


def test_duplicate_deliver_is_stored_but_not_delivered() -> None:
    """L25, and our deviation from it."""
    follower = member(1)
    assert any(isinstance(e, Deliver) for e in committed(follower, N, 4))
    follower.state.phase[N.id] = Phase.ACCEPTED
    assert not any(isinstance(e, Deliver) for e in committed(follower, N, 4))
    assert follower.state.phase[N.id] is Phase.COMMITTED


def vote(
    b: Ballot, cballot: Ballot, phase: Phase, lts: int, lives: tuple[int, ...]
) -> NewLeaderAck:
    ts = Timestamp(lts, 0)
    had = Snapshot({N.id: N}, {N.id: phase}, {N.id: ts}, {})
    return NewLeaderAck(b, cballot, lts, had, lives)


def candidate() -> tuple[Member, Ballot]:
    """Process 1, nominated, after its own NEWLEADER."""
    machine = member(1)
    ((new_leader, _),) = sent(machine.handle(Nominate(0, 1), 0))
    assert isinstance(new_leader, NewLeader)
    receive(machine, new_leader, 1)
    return machine, new_leader.b


def test_accepted_messages_are_recovered_from_the_newest_ballot_only() -> None:
    """L45, L51: what a later ballot has replaced must not come back."""
    machine, b = candidate()
    empty = NewLeaderAck(b, Ballot(2, 2), 0, Snapshot(), ALIVE)
    receive(machine, empty, 1)
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 2)
    assert N.id not in machine.state.phase
    assert machine.state.clock == 5, "L54: the clock is the maximum of all votes"
    assert machine.state.cballot == b


def test_candidate_leads_only_after_a_quorum_is_in_sync() -> None:
    """L56, L63-L65."""
    machine, b = candidate()
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 1)
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 2)
    assert machine.state.status is Status.RECOVERING
    receive(machine, NewStateAck(b), 2)
    assert machine.state.status is Status.LEADER


def test_new_leader_resumes_accepted_messages_at_once() -> None:
    """L32: "the same mechanism can be used to resume … after a leader change"."""
    machine, b = candidate()
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 1)
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 2)
    effects = receive(machine, NewStateAck(b), 2)
    assert (MulticastMsg(N), (1,)) in sent(effects)


def test_candidate_without_quorum_tries_a_higher_ballot() -> None:
    machine, b = candidate()
    (message, _), *_ = sent(machine.handle(Timer("follow"), 99_000))
    assert isinstance(message, NewLeader) and message.b > b


def test_vote_of_a_life_that_is_over_does_not_count() -> None:
    """wbcast_rejoin.py: another voter knows that process 2 has come back without memory."""
    machine, b = candidate()
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 2)
    receive(machine, NewLeaderAck(b, FIRST, 0, Snapshot(), (0, 0, 1)), 0)
    assert machine.state.cballot == FIRST
    receive(machine, vote(b, FIRST, Phase.ACCEPTED, 5, ALIVE), 1)
    assert machine.state.cballot == b


def test_member_without_memory_joins_no_ballot_that_began_before_its_return() -> None:
    machine = member(2)
    assert (Rejoin(1, FIRST), (0, 1)) in sent(machine.handle(Restart(1, None), 0))
    assert receive(machine, NewLeader(Ballot(2, 1), ALIVE), 1) == [], "it does not vote"
    assert receive(machine, NewState(Ballot(2, 1), 0, Snapshot(), ALIVE), 1) == []
    assert not machine.joined


def test_leader_begins_a_ballot_for_a_member_that_came_back() -> None:
    leader = member(0)
    (message, to), *_ = sent(receive(leader, Rejoin(1, FIRST), 2))
    assert message == NewLeader(Ballot(2, 0), (0, 0, 1))
    assert to == (0, 1, 2)


def test_message_is_dropped_when_its_groups_need_it_no_more() -> None:
    """wbcast_gc.py: all of the own group, and a quorum of the others."""
    follower = member(1)
    committed(follower, M, 4)
    receive(follower, Collect(FIRST, Timestamp(4, 0)), 0)
    assert M.id in follower.state.phase, "group 1 may still have to vote for it"
    receive(follower, Stable(1, Timestamp(4, 0)), 3)
    assert M.id not in follower.state.phase


def test_leader_collects_when_the_last_member_has_reported() -> None:
    leader = member(0)
    committed(leader, N, 4)
    mark = Timestamp(4, 0)
    for process in (0, 1):
        assert sent(receive(leader, Report(FIRST, mark), process)) == []
    assert sent(receive(leader, Report(FIRST, mark), 2)) == [(Collect(FIRST, mark), (0, 1, 2))]


def test_retry_of_a_collected_message_is_answered_not_ordered() -> None:
    leader = member(0)
    committed(leader, N, 4)
    receive(leader, Collect(FIRST, Timestamp(4, 0)), 0)
    assert sent(receive(leader, MulticastMsg(N), CLIENT)) == [(Done(N.id, 0), (CLIENT,))]


def test_sender_tries_the_whole_group_after_a_timeout() -> None:
    client = Client(TOPOLOGY, retry_ticks=100)
    saved, first, _ = client.handle(Multicast(N), 0)
    assert saved == Save((N,)), "saved before it is sent"
    assert first == Send(MulticastMsg(N, 2), (0,))
    again, _ = client.handle(Timer("again"), 100)
    assert again == Send(MulticastMsg(N, 2), (0, 1, 2))


def test_sender_follows_a_redirect_once() -> None:
    client = Client(TOPOLOGY, retry_ticks=100)
    client.handle(Multicast(N), 0)
    redirect = Receive(Redirect(N.id, 0, 2), 0)
    assert client.handle(redirect, 1) == [Send(MulticastMsg(N, 2), (2,))]
    assert client.handle(redirect, 2) == []


def test_sender_rests_when_every_group_is_done() -> None:
    client = Client(TOPOLOGY, retry_ticks=100)
    client.handle(Multicast(M), 0)
    client.handle(Receive(Done(M.id, 0), 0), 1)
    assert client.sender.waiting
    client.handle(Receive(Done(M.id, 1), 3), 2)
    assert not client.sender.waiting
    assert client.sender.finished == 2


def test_session_keeps_what_its_sender_may_still_ask_about() -> None:
    sessions = Sessions()
    for seq in (1, 2, 5):
        sessions.add(MessageId(CLIENT, seq))
    sessions.finish(CLIENT, below=3)
    assert sessions.size == 1
    assert sessions.is_done(MessageId(CLIENT, 1))
    assert sessions.is_done(MessageId(CLIENT, 5))
    assert not sessions.is_done(MessageId(CLIENT, 4))


def test_state_of_every_reply_is_recovered() -> None:
    """L44-L53: not that of the first one only."""
    candidate = member(2)
    b = Ballot(2, 2)
    receive(candidate, NewLeader(b, ALIVE), 2)
    ts = Timestamp(4, 0)
    first = Snapshot()
    second = Snapshot({N.id: N}, {N.id: Phase.COMMITTED}, {N.id: ts}, {N.id: ts})
    receive(candidate, NewLeaderAck(b, FIRST, 0, first, ALIVE), 2)
    receive(candidate, NewLeaderAck(b, FIRST, 4, second, ALIVE), 1)
    assert candidate.state.global_ts == {N.id: ts}
    assert candidate.state.clock == 4


def test_suspected_member_is_not_waited_for_after_a_while() -> None:
    leader = member(0)
    committed(leader, N, 4)
    mark = Timestamp(4, 0)
    leader.handle(Suspect(2), 0)
    leader.handle(Receive(Report(FIRST, mark), 0), 10)
    assert leader.handle(Receive(Report(FIRST, mark), 1), leader.lag_ticks - 1) == []
    late = leader.handle(Receive(Report(FIRST, mark), 1), leader.lag_ticks)
    assert sent(late) == [(Collect(FIRST, mark), (0, 1, 2))]
    leader.handle(Trust(2), leader.lag_ticks)
    assert leader.handle(Receive(Report(FIRST, mark), 1), 2 * leader.lag_ticks) == []


def test_a_suspected_member_is_not_waited_for_when_what_is_kept_takes_too_much_room() -> None:
    """All that is kept travels to the next leader: 49 MB were more than a frame could hold."""
    leader = member(0)
    half = Message(MessageId(CLIENT, 2), dest=(0,), payload=bytes(HELD_BYTES_MAX))
    committed(leader, half, 3)
    mark = Timestamp(3, 0)
    leader.handle(Suspect(2), 0)
    assert receive(leader, Report(FIRST, mark), 0) == []
    assert receive(leader, Report(FIRST, mark), 1) == []
    leader.state.messages[M.id] = Message(M.id, M.dest, b"one byte too much")
    assert sent(receive(leader, Report(FIRST, mark), 1)) == [(Collect(FIRST, mark), (0, 1, 2))]


def test_collect_of_an_earlier_ballot_means_nothing() -> None:
    follower = member(1)
    committed(follower, N, 4)
    receive(follower, Collect(Ballot(0, 2), Timestamp(4, 0)), 2)
    assert N.id in follower.state.phase


def test_member_that_was_left_behind_begins_a_new_life() -> None:
    follower = member(1)
    dropped = Timestamp(9, 0)
    sessions = Sessions(finished={Session(CLIENT, 0): 2})
    past = Past(Timestamp(12, 0), dropped, sessions, {})
    b = Ballot(2, 0)
    effects = receive(follower, NewState(b, 12, Snapshot(), ALIVE, past), 0)
    assert Reply(Missed(dropped)) in effects
    assert follower.state.max_delivered_gts == dropped
    assert follower.is_forgotten(MessageId(CLIENT, 1)), "it knows what it has missed"


def test_accepted_message_that_a_voter_has_collected_stays_away() -> None:
    candidate = member(2)
    b, ts = Ballot(2, 2), Timestamp(4, 0)
    receive(candidate, NewLeader(b, ALIVE), 2)
    held = Snapshot({N.id: N}, {N.id: Phase.ACCEPTED}, {N.id: ts})
    past = Past(ts, ts, Sessions(delivered={Session(CLIENT, 0): {N.id.seq}}), {})
    receive(candidate, NewLeaderAck(b, FIRST, 0, held, ALIVE), 2)
    receive(candidate, NewLeaderAck(b, FIRST, 4, Snapshot(), ALIVE, past), 1)
    assert candidate.state.phase == {}


def test_leader_believes_that_messages_are_finished_when_what_said_so_is_delivered() -> None:
    """Before that, it may have been replaced, and not know what it has missed."""
    leader = member(0)
    n = Message(MessageId(CLIENT, 5), dest=(0,))
    accept = sent(receive(leader, MulticastMsg(n, finished=4), CLIENT))[0][0]
    assert not leader.sessions.is_done(MessageId(CLIENT, 3))
    receive(leader, accept, 0)
    effects = [e for p in (0, 1) for e in receive(leader, AcceptAck(n.id, 0, (FIRST,)), p)]
    ((deliver, _),) = sent(effects)
    assert isinstance(deliver, DeliverMsg) and deliver.finished == 4
    receive(leader, deliver, 0)
    assert leader.sessions.is_done(MessageId(CLIENT, 3))


@pytest.mark.parametrize(("epoch", "asked"), [(1, True), (0, False)])
def test_a_sender_without_memory_does_not_finish_what_its_earlier_life_left_open(
    epoch: int, asked: bool
) -> None:
    """Group 0 has M, group 1 has not. The sender comes back and goes on with higher numbers. In
    the same epoch that would say that M is finished: group 1 would never vote, group 0 never
    deliver again."""
    leader = member(3)
    next_seq = epoch << EPOCH_SHIFT | 10
    later = Message(MessageId(CLIENT, next_seq), dest=(1,))
    ts = Timestamp(1, 1)
    receive(leader, DeliverMsg(later, OTHER, ts, ts, finished=next_seq), 3)
    retried = sent(receive(leader, MulticastMsg(M), 0))
    assert any(isinstance(wire, Accept) for wire, _ in retried) is asked
