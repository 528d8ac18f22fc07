"""Claims of paper 000 §IV-§VI about fault-tolerant Skeen and FastCast, quoted and shown."""

import pytest

from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted, Uniform
from shmcast.multicast.sim.faults import Crash
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

DELTA = 1000
LEADER_0, CLIENT, OTHER_CLIENT = 0, 6, 7
BOTH = (0, 1)
COLLISION_FREE = {"ft-skeen": 6, "fastcast": 4}
FAILURE_FREE = {"ft-skeen": 12, "fastcast": 8}


def two_groups(protocol: str, inputs: list[Submit], **more: object) -> Run:
    return simulate(protocol, groups=2, replicas=3, clients=2, inputs=inputs, **more)  # type: ignore[arg-type]


def convoy(protocol: str, second_at: int) -> Run:
    """Group 1's clock is ahead, and m′ reaches the leader of group 0 without delay."""
    m_at = 40 * DELTA
    return two_groups(
        protocol,
        [
            Submit(0, CLIENT, (1,)),
            Submit(1, CLIENT, (1,)),
            Submit(m_at, CLIENT, BOTH),
            Submit(m_at + second_at, OTHER_CLIENT, BOTH),
        ],
        delay=Scripted(Constant(DELTA), (Rule(0, src=OTHER_CLIENT, dst=LEADER_0),)),
    )


@pytest.mark.parametrize("protocol", COLLISION_FREE)
def test_collision_free_latency_is_as_stated(protocol: str) -> None:
    """ "The collision-free latency of 6δ"; "FastCast's … 4δ". Followers hear one delay later."""
    delays = COLLISION_FREE[protocol]
    run = two_groups(protocol, [Submit(i * 40 * DELTA, CLIENT, BOTH) for i in range(4)])
    expected = (delays * DELTA, (delays + 1) * DELTA)
    assert {(d.first, d.last) for d in run.delays()} == {expected}
    run.check()


@pytest.mark.parametrize("protocol", FAILURE_FREE)
def test_failure_free_latency_is_as_stated(protocol: str) -> None:
    """ "A leader advances its clock past a message's global timestamp only after completing the
    corresponding consensus call": m′ comes just before that, and doubles the latency of m."""
    run = convoy(protocol, second_at=COLLISION_FREE[protocol] * DELTA)
    at_0 = next(d for d in run.delays() if d.message == (CLIENT, 3) and d.group == 0)
    assert at_0.first == FAILURE_FREE[protocol] * DELTA
    run.check()


@pytest.mark.parametrize("protocol", FAILURE_FREE)
def test_message_after_the_clock_update_delays_nothing(protocol: str) -> None:
    run = convoy(protocol, second_at=COLLISION_FREE[protocol] * DELTA + 1)
    at_0 = next(d for d in run.delays() if d.message == (CLIENT, 3) and d.group == 0)
    assert at_0.first == COLLISION_FREE[protocol] * DELTA


@pytest.mark.parametrize("protocol", FAILURE_FREE)
def test_failure_free_latency_is_an_upper_bound(protocol: str) -> None:
    for seed in range(15):
        run = simulate(
            protocol,
            groups=3,
            replicas=3,
            clients=3,
            messages=30,
            seed=seed,
            delay=Uniform(0, DELTA),
            invariants=False,
            record="application",
        )
        assert max(d.first for d in run.delays()) <= FAILURE_FREE[protocol] * DELTA, f"{seed}"


@pytest.mark.parametrize("protocol", FAILURE_FREE)
def test_crash_of_a_leader_loses_no_message(protocol: str) -> None:
    inputs = [Submit(i * DELTA, CLIENT, BOTH) for i in range(20)]
    run = two_groups(protocol, inputs, faults=[Crash(LEADER_0, 7 * DELTA, effects=3)])
    run.check()
    assert len({e.msg for e in run.trace if e.kind == "deliver" and e.proc == 1}) == 20
