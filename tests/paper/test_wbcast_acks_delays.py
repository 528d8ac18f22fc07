"""Beyond paper 000: followers that deliver on ACCEPT_ACKs are as fast as their leader."""

from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted, Uniform
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

DELTA = 1000
LEADER_0 = 0
CLIENT, OTHER_CLIENT = 6, 7
BOTH = (0, 1)


def two_groups(inputs: list[Submit], **more: object) -> Run:
    return simulate("wbcast-acks", groups=2, replicas=3, clients=2, inputs=inputs, **more)  # type: ignore[arg-type]


def test_collision_free_latency_is_three_delays_at_every_member() -> None:
    run = two_groups([Submit(i * 20 * DELTA, CLIENT, BOTH) for i in range(5)])
    assert {(d.first, d.last) for d in run.delays()} == {(3 * DELTA, 3 * DELTA)}
    run.check()


def test_follower_needs_two_delays_if_its_vote_and_the_leaders_are_the_quorum() -> None:
    """A message to one group of three: the leader votes when it proposes, at δ, so its vote comes
    with its ACCEPT. The leader itself waits for a follower's vote, until 3δ."""
    run = two_groups([Submit(0, CLIENT, (1,))])
    delivered = {e.proc: e.real_t for e in run.trace if e.kind == "deliver"}
    assert delivered == {3: 3 * DELTA, 4: 2 * DELTA, 5: 2 * DELTA}


def test_message_to_one_group_of_five_takes_three_delays_at_every_member() -> None:
    run = simulate("wbcast-acks", groups=1, replicas=5, clients=1, inputs=[Submit(0, 5, (0,))])
    assert {(d.first, d.last) for d in run.delays()} == {(3 * DELTA, 3 * DELTA)}


def test_failure_free_latency_is_five_delays_at_every_member() -> None:
    """The convoy of test_paper_000_wbcast.py: m′ arrives just before ACCEPT(m) moves the clock."""
    m_at = 20 * DELTA
    run = two_groups(
        [
            Submit(0, CLIENT, (1,)),
            Submit(1, CLIENT, (1,)),
            Submit(m_at, CLIENT, BOTH),
            Submit(m_at + 2 * DELTA, OTHER_CLIENT, BOTH),
        ],
        delay=Scripted(Constant(DELTA), (Rule(0, src=OTHER_CLIENT, dst=LEADER_0),)),
    )
    delays = {d.group: (d.first, d.last) for d in run.delays() if d.message == (CLIENT, 3)}
    assert delays == {0: (5 * DELTA, 5 * DELTA), 1: (3 * DELTA, 3 * DELTA)}
    run.check()


def test_five_delays_are_an_upper_bound_at_every_member() -> None:
    worst = 0
    for seed in range(25):
        run = simulate(
            "wbcast-acks",
            groups=3,
            replicas=3,
            clients=3,
            messages=30,
            seed=seed,
            delay=Uniform(0, DELTA),
            invariants=False,
            record="application",
        )
        worst = max(worst, *(d.last for d in run.delays()))
        assert worst <= 5 * DELTA, f"seed {seed}"
    assert worst > 3 * DELTA, "no run had a convoy: the load shows nothing"


def test_votes_of_a_message_to_k_groups_of_n_are_kn_times_as_many_as_members() -> None:
    """What it costs: (kn)² ACCEPT_ACKs instead of kn · k."""
    run = two_groups([Submit(0, CLIENT, BOTH)])
    assert run.sent["AcceptAck"] == 36
    plain = simulate("wbcast", groups=2, replicas=3, clients=2, inputs=[Submit(0, CLIENT, BOTH)])
    assert plain.sent["AcceptAck"] == 12
