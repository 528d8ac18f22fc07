"""Claims of paper 000 §IV-§V about the white-box protocol, quoted and shown."""

from shmcast.multicast.protocols.core import Message, MessageId, Receive, Send, Timestamp
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    DeliverMsg,
    MulticastMsg,
    Phase,
)
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted, Uniform
from shmcast.multicast.sim.faults import Crash, Recover
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

DELTA = 1000
LEADER_0, LEADER_1 = 0, 3
CLIENT, OTHER_CLIENT = 6, 7
BOTH = (0, 1)


def two_groups(inputs: list[Submit], **more: object) -> Run:
    return simulate("wbcast", groups=2, replicas=3, clients=2, inputs=inputs, **more)  # type: ignore[arg-type]


def convoy(second_at: int) -> Run:
    """Fig. 2 for replicated groups: group 1's clock is ahead, so m's global timestamp comes from
    there, and m′ reaches the leader of group 0 without delay."""
    m_at = 20 * DELTA
    return two_groups(
        [
            Submit(0, CLIENT, (1,)),
            Submit(1, CLIENT, (1,)),
            Submit(m_at, CLIENT, BOTH),
            Submit(m_at + second_at, OTHER_CLIENT, BOTH),
        ],
        delay=Scripted(Constant(DELTA), (Rule(0, src=OTHER_CLIENT, dst=LEADER_0),)),
    )


def latency(run: Run, message: tuple[int, int]) -> dict[int, tuple[int, int]]:
    return {d.group: (d.first, d.last) for d in run.delays() if d.message == message}


def test_collision_free_latency_is_three_delays_and_four_at_followers() -> None:
    """Theorem 5, and "the maximum time to deliver a message at followers is 4δ in a
    collision-free run"."""
    run = two_groups([Submit(i * 20 * DELTA, CLIENT, BOTH) for i in range(5)])
    assert {(d.first, d.last) for d in run.delays()} == {(3 * DELTA, 4 * DELTA)}
    run.check()


def test_message_to_one_group_takes_three_delays_too() -> None:
    """ "When multicasting a local application message … exactly follows the flow of Paxos." """
    run = two_groups([Submit(0, CLIENT, (1,))])
    assert latency(run, (CLIENT, 1)) == {1: (3 * DELTA, 4 * DELTA)}


def test_failure_free_latency_is_five_delays_and_six_at_followers() -> None:
    """Theorem 5: C + D = 2δ + 3δ. m′ arrives just before ACCEPT(m) advances the clock."""
    run = convoy(second_at=2 * DELTA)
    assert latency(run, (CLIENT, 3)) == {0: (5 * DELTA, 6 * DELTA), 1: (3 * DELTA, 4 * DELTA)}
    run.check()


def test_message_after_the_clock_update_delays_nothing() -> None:
    """ "Its clock update latency is 2δ": one tick later the convoy is gone."""
    run = convoy(second_at=2 * DELTA + 1)
    assert latency(run, (CLIENT, 3)) == {0: (3 * DELTA, 4 * DELTA), 1: (3 * DELTA, 4 * DELTA)}


def test_five_delays_are_an_upper_bound() -> None:
    """Any delays up to δ, without failures."""
    worst = 0
    for seed in range(25):
        run = simulate(
            "wbcast",
            groups=3,
            replicas=3,
            clients=3,
            messages=30,
            seed=seed,
            delay=Uniform(0, DELTA),
            invariants=False,
            record="application",
        )
        worst = max(worst, *(d.first for d in run.delays()))
        assert worst <= 5 * DELTA, f"seed {seed}"
    assert worst > 3 * DELTA, "no run had a convoy: the load shows nothing"


def test_crash_of_a_leader_loses_no_message() -> None:
    """ "If the leader fails, one of the followers takes over." """
    inputs = [Submit(i * DELTA, CLIENT, BOTH) for i in range(20)]
    run = two_groups(inputs, faults=[Crash(LEADER_0, 7 * DELTA, effects=3)])
    assert run.trace.closed
    run.check()
    delivered = {e.msg for e in run.trace if e.kind == "deliver" and e.proc == 1}
    assert len(delivered) == 20


def test_message_of_a_sender_that_died_half_way_is_recovered() -> None:
    """ "The leader of g1 can again recover from this situation by resending the MULTICAST(m)
    message to all destination groups" (L32): the sender reached the first leader only."""
    crash_after_save_and_first_send = Crash(CLIENT, 0, effects=2)
    run = two_groups([Submit(0, CLIENT, BOTH)], faults=[crash_after_save_and_first_send])
    assert {e.proc for e in run.trace if e.kind == "deliver"} == {0, 1, 2, 3, 4, 5}
    run.check()


def test_crashed_leader_comes_back_while_messages_flow() -> None:
    """Beyond the paper: it rejoins as a new life and delivers what is ordered from then on."""
    inputs = [Submit(i * DELTA, CLIENT, BOTH) for i in range(60)]
    faults = [Crash(LEADER_0, 7_500), Recover(LEADER_0, 20_000)]
    run = two_groups(inputs, faults=faults)
    run.check()
    again = [e for e in run.trace if e.kind == "deliver" and e.participant == (LEADER_0, 1)]
    assert again
    others = [e.msg for e in run.trace if e.kind == "deliver" and e.proc == 1]
    assert [e.msg for e in again] == others[-len(again) :], "a gap in what it delivers"


def test_wbcast_is_genuine() -> None:
    run = simulate("wbcast", groups=5, replicas=3, clients=3, messages=60, dest_max=2, seed=3)
    assert not run.check("genuineness").undetermined


# Where the paper's own wording does not hold --------------------------------------------------


def test_invariant_15_to_the_letter_fails_if_another_group_is_late() -> None:
    """ "When a process … sends ACCEPT_ACK(m, g0, Bal), the LocalTS at this process is a subset of
    LocalTS at leader(Bal(g0)) when the leader sent the corresponding ACCEPT message." Here the
    follower waits for the ACCEPT of group 1 while its own leader goes on to n."""
    topology = Topology.regular(groups=2, replicas=3, clients=1)
    leader, follower = (Member(topology, p, {}) for p in (0, 1))
    client, other = topology.clients[0], Ballot(1, 3)
    m = Message(MessageId(client, 1), (0, 1))
    n = Message(MessageId(client, 2), (0,))
    accepts = []
    for message in (m, n):
        (accept, *_) = leader.handle(Receive(MulticastMsg(message), client), 0)
        assert isinstance(accept, Send)
        accepts.append((accept.message, set(leader.state.local_ts)))
    for accept, _ in accepts:
        follower.handle(Receive(accept, 0), 0)
    (ack, *_) = follower.handle(Receive(Accept(m, 1, other, Timestamp(1, 1)), 3), 0)
    assert isinstance(ack, Send) and isinstance(ack.message, AcceptAck) and ack.message.mid == m.id
    held_when_sent = accepts[0][1]
    assert set(follower.state.local_ts) - held_when_sent == {n.id}
    assert set(follower.state.local_ts) <= set(leader.state.local_ts), "the form that we check"


def test_invariant_16_to_the_letter_fails_while_a_message_waits() -> None:
    """ "If … Phase[m] = COMMITTED … then DELIVER(m, b, lts, gts) has been previously sent." L20
    commits n; L21 holds its DELIVER back, because m has a lower local timestamp."""
    topology = Topology.regular(groups=2, replicas=3, clients=1)
    leader = Member(topology, 0, {})
    client = topology.clients[0]
    m = Message(MessageId(client, 1), (0, 1))
    n = Message(MessageId(client, 2), (0,))
    leader.handle(Receive(MulticastMsg(m), client), 0)
    (accept, *_) = leader.handle(Receive(MulticastMsg(n), client), 0)
    assert isinstance(accept, Send)
    leader.handle(Receive(accept.message, 0), 0)
    ack = AcceptAck(n.id, 0, (Ballot(1, 0),))
    effects = [e for p in (0, 1) for e in leader.handle(Receive(ack, p), 0)]
    assert leader.state.phase[n.id] is Phase.COMMITTED
    assert not [e for e in effects if isinstance(e, Send) and isinstance(e.message, DeliverMsg)]
