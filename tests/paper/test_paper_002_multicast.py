"""Claims of paper 002 about Baseline and Optimistic Atomic Multicast, quoted and shown."""

import pytest

from shmcast.multicast.checks.accounting import transmissions
from shmcast.multicast.checks.optimistic import mistakes
from shmcast.multicast.protocols.barrier_entries import Leave
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Call, Submit

DELTA = 1000
THREE_GROUPS = Topology.regular(groups=3, replicas=3)
G0_LEADER, G0_FOLLOWER, G1_LEADER, G2_LEADER = 0, 1, 3, 6
ALL = (0, 1, 2)


def alone(*dests: tuple[int, ...], sender: int = G0_FOLLOWER) -> list[Submit]:
    """One message at a time, far apart."""
    return [Submit(20 * DELTA * (i + 1), sender, dest) for i, dest in enumerate(dests)]


def latencies(run: Run, layer: str = "") -> set[int]:
    """At the first and at the last process of each group."""
    return {took for d in run.delays(layer) for took in (d.first, d.last)}


# Delays -----------------------------------------------------------------------------------------


def test_optimistic_delivery_takes_one_delay() -> None:
    """§1: "Messages can be delivered optimistically in a single communication step"."""
    run = simulate("optimistic", topology=THREE_GROUPS, inputs=alone((1, 2), (1,), (2,)))
    assert latencies(run, "optimistic") == {DELTA}


@pytest.mark.parametrize("sender", [G0_LEADER, G0_FOLLOWER])
@pytest.mark.parametrize("dest", [(1,), (1, 2), ALL])
def test_conservative_delivery_takes_three_delays(sender: int, dest: tuple[int, ...]) -> None:
    """§6: "the conservative delivery will have a latency of 3δ"."""
    run = simulate("optimistic", topology=THREE_GROUPS, inputs=alone(dest, dest, sender=sender))
    assert latencies(run) == {3 * DELTA}
    run.check()


def changed_timestamp() -> Run:
    """The leader of g0 proposes its own message while one with a lower timestamp travels."""
    return simulate(
        "optimistic",
        topology=THREE_GROUPS,
        inputs=[Submit(0, G0_FOLLOWER, (1,)), Submit(DELTA // 2, G0_LEADER, (2,))],
        options={"window": 0},
    )


def test_conservative_delivery_takes_four_delays_when_the_timestamp_changed() -> None:
    """§6: "If m's initial and final timestamps differ, a new barrier request will be necessary
    … leading to a 4δ conservative latency"."""
    run = changed_timestamp()
    late = [d for d in run.delays() if d.message == (G0_FOLLOWER, 1)]
    assert {(d.first, d.last) for d in late} == {(4 * DELTA, 4 * DELTA)}
    run.check()


def test_changed_timestamp_is_one_above_the_last_decided() -> None:
    """L26: m.ts ← m′.ts + 1."""
    shown = {
        e.msg: e.ts for e in changed_timestamp().trace if e.kind == "deliver" and e.layer == ""
    }
    assert shown == {(G0_LEADER, 1): (500, G0_LEADER), (G0_FOLLOWER, 1): (501, G0_FOLLOWER)}


def test_baseline_delivers_in_three_delays_where_barriers_keep_coming() -> None:
    """§1: "An atomic multicast protocol that delivers messages in three communication delays"."""
    run = simulate(
        "baseline-null",
        topology=THREE_GROUPS,
        inputs=alone((1, 2)),
        options={"null_ticks": 100},
        until=25 * DELTA,
    )
    assert latencies(run) == {3 * DELTA}


@pytest.mark.parametrize(("replicas", "delays"), [(3, 5), (5, 6)])
def test_baseline_with_requests_waits_for_two_decisions(replicas: int, delays: int) -> None:
    """§3.4: "as soon as process p in g knows the final timestamp of m, p requests a barrier": 3δ
    for m, then 3δ for the barrier. In a group of three a follower needs no third vote, and knows
    the decision one delay earlier."""
    topology = Topology.regular(3, replicas)
    run = simulate("baseline", topology=topology, inputs=alone((1, 2), ALL))
    assert latencies(run) == {delays * DELTA}


def test_null_messages_delay_a_delivery_by_up_to_their_period() -> None:
    """§3.4: "the delivery of m may be delayed by up to Δ"."""
    period = 5000
    took: set[int] = set()
    for shift in range(0, period, 500):
        run = simulate(
            "baseline-null",
            topology=THREE_GROUPS,
            inputs=[Submit(20 * DELTA + shift, G0_FOLLOWER, (1, 2))],
            options={"null_ticks": period},
            until=60 * DELTA,
        )
        took |= latencies(run)
    assert min(took) >= 3 * DELTA and max(took) <= 3 * DELTA + period
    assert max(took) > min(took) + period // 2


def test_requests_cost_more_messages_than_the_message_itself() -> None:
    """§3.4: "at the cost of having more messages exchanged between groups"."""
    run = simulate("baseline", topology=THREE_GROUPS, inputs=alone((1,)))
    sent = transmissions(run.trace)
    assert sent["WantBarrier"] > sent["Initial"]


# The wait window ----------------------------------------------------------------------------------


def two_senders_racing(window: int | None) -> Run:
    """m of g0 is slow to reach g2, m′ of g1 is not; m has the lower timestamp."""
    slow = Rule(4 * DELTA, src=0, dst=2, label="Initial")
    return simulate(
        "optimistic",
        topology=Topology.regular(3, 1),
        inputs=[Submit(0, 0, (2,)), Submit(10, 1, (2,))],
        delay=Scripted(Constant(DELTA), (slow,)),
        options={} if window is None else {"window": window},
    )


def test_message_after_its_window_is_a_mistake() -> None:
    """§4.2: "if … some message m is received by some process p after a message m′ has been
    already opt-delivered by p, where m.ts < m′.ts, then optimistic delivery violates atomic
    order". Conservative delivery does not."""
    run = two_senders_racing(window=DELTA)
    assert mistakes(run.trace).wrong == 1
    run.check()


def test_window_that_covers_the_delay_makes_no_mistake() -> None:
    """§4.2: "if our optimistic assumption holds … the order of optimistic delivery matches"."""
    run = two_senders_racing(window=4 * DELTA)
    assert mistakes(run.trace).wrong == 0
    assert latencies(run, "optimistic") == {4 * DELTA}


def test_window_covers_clocks_that_differ() -> None:
    """§4.2: "a negative skew means that … p can wait less": the estimate is delay plus skew, so
    exact estimates order exactly under any skew."""
    topology = Topology.regular(3, 1)
    clocks = {0: Clock(700), 1: Clock(-300), 2: Clock(0)}
    warm_up = [*alone(ALL, ALL, sender=0), Submit(70 * DELTA, 1, ALL), Submit(90 * DELTA, 2, ALL)]
    rush = [Submit(200 * DELTA + 137 * i, i % 3, ALL) for i in range(30)]
    run = simulate("optimistic", topology=topology, inputs=[*warm_up, *rush], clocks=clocks)
    assert mistakes(run.trace).wrong == 0
    run.check()


# Quasi-genuineness and reconfiguration -----------------------------------------------------------

PARTITIONS = {0: (0,), 1: (1,), 2: (0, 1)}  # §3.1: g1, g2 and the shared g3


def test_only_senders_to_a_destination_take_part() -> None:
    """§3.1: "This scheme allows commands that access items stored exclusively in P1 to be ordered
    independently of commands that access items stored exclusively in P2"."""
    run = simulate(
        "optimistic",
        topology=THREE_GROUPS,
        inputs=alone((0,), (0,)),
        options={"senders_to": PARTITIONS},
    )
    involved = {e.proc for e in run.trace if e.kind in ("send", "receive")}
    assert involved == {0, 1, 2}
    assert len(run.delays()) == 2


def test_shared_items_involve_all_their_senders() -> None:
    """§3.1: "all groups in sendersTo(g), where g ∈ γ, can communicate to deliver m, even if some
    group h … is neither m's sender nor one of m's destination groups"."""
    run = simulate(
        "optimistic",
        topology=THREE_GROUPS,
        inputs=alone((0, 2)),
        options={"senders_to": PARTITIONS},
    )
    about = {e.proc for e in run.trace if e.kind == "receive" and (G0_FOLLOWER, 1) in e.about}
    assert about & {3, 4, 5}, "g1 sends to g2, so it is asked for a barrier"
    run.check()


def test_first_message_to_a_group_waits_for_its_reconfiguration() -> None:
    """§5: "once m_rp is received by g, it can multicast messages to h. Such messages will have a
    timestamp greater than m_rp.ts"."""
    run = simulate("optimistic-sparse", topology=THREE_GROUPS, inputs=alone((1,), (1,)))
    first, second = run.delays()
    assert first.first > 3 * DELTA
    assert (second.first, second.last) == (3 * DELTA, 3 * DELTA)


def test_group_that_left_is_not_waited_for() -> None:
    """§5: "removing a process from the relation follow[s] similar procedures". With g2 cut off
    after it left, messages to g0 still get through."""
    cut_off = Scripted(Constant(DELTA), (Rule(500 * DELTA, src=2, label="Accepted"),))
    inputs = [Submit(50 * DELTA, 1, (0,))]
    topology = Topology.regular(3, 1)
    stays = simulate("baseline", topology=topology, inputs=inputs, delay=cut_off)
    leaves = simulate(
        "baseline",
        topology=topology,
        inputs=[Call(0, 2, Leave(0)), Submit(600 * DELTA, 1, (0,))],
        delay=cut_off,
    )
    assert min(latencies(stays)) > 100 * DELTA
    assert max(latencies(leaves)) < 10 * DELTA
