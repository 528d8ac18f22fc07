"""Claims of paper 000 §III about Skeen's protocol, quoted and shown."""

from shmcast.multicast.checks.accounting import transmissions_about
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted, Uniform
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

DELTA = 1000
P1, P2, CLIENT, OTHER_CLIENT = 0, 1, 2, 3
BOTH = (0, 1)


def latencies(run: Run, message: tuple[int, int]) -> dict[int, int]:
    return {d.group: d.first for d in run.delays() if d.message == message}


def test_collision_free_latency_is_two_delays() -> None:
    """ "Skeen's protocol has the collision-free latency of 2δ (MULTICAST, PROPOSE)." """
    alone = [Submit(i * 10 * DELTA, CLIENT, BOTH) for i in range(5)]
    run = simulate("skeen", groups=2, clients=1, inputs=alone, delay=Constant(DELTA))
    assert {d.first for d in run.delays()} == {2 * DELTA}
    run.check()


def convoy() -> Run:
    """Fig. 2. Before m, group 2 has ordered two messages of its own, so that its clock is ahead
    and m's global timestamp comes from there."""
    m_at = 10 * DELTA
    return simulate(
        "skeen",
        groups=2,
        clients=2,
        inputs=[
            Submit(0, CLIENT, (1,)),
            Submit(1, CLIENT, (1,)),
            Submit(m_at, CLIENT, BOTH),
            Submit(m_at + 2 * DELTA, OTHER_CLIENT, BOTH),
        ],
        delay=Scripted(Constant(DELTA), (Rule(0, src=OTHER_CLIENT, dst=P1),)),
    )


def test_convoy_doubles_the_latency() -> None:
    """ "MULTICAST(m′) takes close to 0 to arrive at p1, but exactly δ to arrive at p2; then
    PROPOSE(m′) from p2 also takes exactly δ to arrive at p1. Thus, the failure-free latency of
    Skeen's protocol is in fact 4δ, i.e., double its collision-free latency." """
    run = convoy()
    m = (CLIENT, 3)
    assert latencies(run, m) == {0: 4 * DELTA, 1: 2 * DELTA}
    run.check()


def test_convoy_blocks_a_message_that_is_already_committed() -> None:
    """ "The delivery of m must now be delayed until m′ commits." """
    run = convoy()
    at_p1 = [e for e in run.trace if e.kind == "deliver" and e.proc == P1]
    assert [e.msg for e in at_p1] == [(CLIENT, 3), (OTHER_CLIENT, 1)]
    assert at_p1[0].real_t == at_p1[1].real_t == 14 * DELTA


def test_message_received_after_the_commit_delays_nothing() -> None:
    """ "Any application message the process receives afterwards will get a local timestamp at g0
    higher than GlobalTS[m′]." One tick after Fig. 2's worst case, the convoy is gone."""
    late = [
        Submit(0, CLIENT, (1,)),
        Submit(1, CLIENT, (1,)),
        Submit(10_000, CLIENT, BOTH),
        Submit(12_001, OTHER_CLIENT, BOTH),
    ]
    delay = Scripted(Constant(DELTA), (Rule(0, src=OTHER_CLIENT, dst=P1),))
    run = simulate("skeen", groups=2, clients=2, inputs=late, delay=delay)
    assert latencies(run, (CLIENT, 3)) == {0: 2 * DELTA, 1: 2 * DELTA}


def test_failure_free_latency_is_at_most_four_delays() -> None:
    """ "Its failure-free latency … 4δ": an upper bound over any delays up to δ."""
    worst = 0
    for seed in range(40):
        run = simulate(
            "skeen", groups=3, clients=3, messages=40, seed=seed, delay=Uniform(0, DELTA)
        )
        worst = max(worst, *(d.first for d in run.delays()))
        assert worst <= 4 * DELTA, f"seed {seed}"
    assert worst > 2 * DELTA, "no run had a convoy: the load shows nothing"


def test_ordering_a_message_takes_k_and_k_times_k_minus_1_messages() -> None:
    """Fig. 1 L7 and L12: one MULTICAST to each of k groups, one PROPOSE between each two."""
    for k in range(1, 6):
        run = simulate("skeen", groups=5, clients=1, inputs=[Submit(0, 5, tuple(range(k)))])
        assert transmissions_about(run.trace)[5, 1] == k + k * (k - 1)


def test_skeen_is_genuine() -> None:
    """Theorem 1: "a genuine implementation of atomic multicast among singleton groups"."""
    run = simulate("skeen", groups=6, clients=2, messages=200, dest_max=3, seed=5)
    assert not run.check("genuineness").undetermined


def test_skeen_does_not_promise_fifo() -> None:
    """A sender's later message to fewer groups can get the lower timestamp: §II asks for a total
    order only, and a user who wants FIFO must add it."""
    run = simulate("skeen", groups=3, clients=1, messages=100, seed=1, interval=100)
    assert "global-fifo" in run.report("global-fifo").violated
    run.check()
