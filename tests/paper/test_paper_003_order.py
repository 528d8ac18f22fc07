"""Paper 003, order and failures: scenarios 1-2, 5-9, 11-15, 29, 33 and 34 of dab.md, by number."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from dab_runs import (
    ALL,
    SAFETY,
    TIMING,
    dab,
    decisions,
    delivered,
    everyone_talks,
    latencies,
    replies,
    reports,
    talk,
)

from shmcast.multicast.protocols.dab import Dab
from shmcast.multicast.protocols.dab_bounds import Timing, network_average_rate, network_burst
from shmcast.multicast.sim.broken.dab import (
    DecidesTooSoon,
    DeliversOnOneMark,
    NoIdleFlush,
    StaysStuck,
    TakesTheMaximum,
)
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.faults import Crash, Fault, SendOmission
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Input, Submit

WHOLE_SLOT = Timing(delta=8, theta=10, gamma=2, f=3)
FAST, SLOW = Clock(1), Clock(-1)  # the ends of Γ


# Without failures -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "timing"), [(3, TIMING), (3, Timing(7, 10, 4)), (3, Timing(12, 10, 2)), (50, TIMING)]
)
def test_scenario_1_delay_is_exactly_delta_gamma_and_two_slots_for_any_n(
    n: int, timing: Timing
) -> None:
    """Lemma 9.1, attained: sent when a slot begins on the fastest clock, with a lower process on
    the slowest."""
    half = timing.gamma // 2
    clocks = {p: Clock(half if p == n else -half) for p in range(1, n + 1)}
    begins = 3 * timing.theta - half
    run = dab(talk(n, begins), members=n, clocks=clocks, timing=timing, full=False)
    assert latencies(run) == {(n, 1): timing.delta + timing.gamma + 2 * timing.theta}
    run.check()


def test_scenario_1_no_offset_is_worse() -> None:
    for n in (3, 6):
        clocks = {p: Clock((-1) ** p) for p in range(1, n + 1)}
        run = dab(everyone_talks(range(1, n + 1), 20, 60, 1), members=n, clocks=clocks)
        assert max(latencies(run).values()) <= 26
        run.check()


def test_scenario_2_one_talker_among_idle_members_is_as_fast() -> None:
    run = dab(talk(2, *range(20, 60)))
    assert max(latencies(run).values()) <= 26
    silent = dab(talk(2, *range(20, 60)), kind=NoIdleFlush)
    assert reports(silent, 1) and reports(silent, 3)


def test_scenario_29_ten_thousand_slots_at_the_ends_of_the_model_give_no_report() -> None:
    last = talk(1, 100_000)
    run = dab(last, members=2, clocks={1: FAST, 2: SLOW}, full=False)
    assert run.steps > 10_000 * 2 * 4, "a flush, two arrivals and a deadline per slot and member"
    assert not [e for e in run.trace if "ended with slot" in e.detail]


# One failure ----------------------------------------------------------------------------------


def test_scenario_5_fragments_of_an_unfinished_slot_appear_nowhere() -> None:
    run = dab(talk(2, 45, 52) + talk(1, 45, 150), Crash(2, 55))
    assert {slot for slot, _ in reports(run, 2).values()} == {4}
    assert set(decisions(run, 2).values()) == {4}
    assert delivered(run, 1) == delivered(run, 3) == [(1, 1), (2, 1), (1, 2)]
    run.check()


MARK_LOST_TO_3: tuple[Fault, ...] = (SendOmission(2, 50, 51, frozenset({3})), Crash(2, 51))
TALK: list[Input] = talk(2, 35, 45) + talk(1, 35, 45, 150) + talk(3, 45)


def scenario_6(kind: type[Dab] = Dab) -> Run:
    """⊥(4) of 2 reaches 1, not 3."""
    return dab(TALK, *MARK_LOST_TO_3, kind=kind)


def test_scenario_6_smaller_report_wins() -> None:
    run = scenario_6()
    assert reports(run, 2) == {1: (4, 66), 3: (3, 56)}
    assert decisions(run, 2) == {1: 3, 3: 3}
    assert (2, 1) in delivered(run, 3) and (2, 2) not in delivered(run, 1)
    assert delivered(run, 1) == delivered(run, 3)
    run.check()


def test_scenario_7_process_at_the_slot_after_the_decision_goes_on() -> None:
    """D3. Process 1 stands at (4, 2) when 3 is decided."""
    assert (1, 3) in delivered(scenario_6(), 1)
    stuck = scenario_6(StaysStuck)
    assert (1, 3) not in delivered(stuck, 1)
    assert "member-delivery" in stuck.report().violated


def test_scenario_8_delivering_on_one_mark_breaks_the_order() -> None:
    assert "contiguous-slices" in scenario_6(DeliversOnOneMark).report().violated


def test_scenario_9_taking_the_maximum_leaves_messages_out() -> None:
    run = scenario_6(TakesTheMaximum)
    assert (2, 2) in delivered(run, 1) and (2, 2) not in delivered(run, 3)
    assert "contiguous-slices" in run.report().violated


def test_scenario_11_value_that_one_peer_heard_is_everybodys() -> None:
    """3 alone saw the smaller value, and dies while it says so."""
    run = dab(
        TALK + talk(4, 45, 150),
        SendOmission(2, 50, 51, frozenset({3})),
        Crash(2, 51),
        SendOmission(3, 60, 61, frozenset({4})),
        Crash(3, 61),
        members=4,
    )
    assert len(set(decisions(run, 2).values())) == 1
    assert delivered(run, 1) == delivered(run, 4)
    run.check()


def test_scenario_12_process_that_decides_and_dies_decided_like_the_rest() -> None:
    before = dab(TALK, *MARK_LOST_TO_3, members=4)
    decided_at = min(e.real_t for e in before.trace if e.detail.startswith("decided"))
    for late in range(1, 12, 2):
        run = dab(TALK, *MARK_LOST_TO_3, Crash(1, decided_at + late), members=4)
        assert set(decisions(run, 2).values()) == {3}
        run.check()


def chain_of_last_words(kind: type[Dab] = Dab) -> Run:
    """1 ends with slot 4; 4 alone knows 3, tells 6 alone, and 6 decides. Each crash loses one flush
    on its way to some: that of the slot before."""
    losses = [(1, 50, 51, {4}), (4, 60, 61, {1, 2, 3, 6}), (5, 80, 81, {2, 3}), (6, 90, 99, {2, 3})]
    faults: list[Fault] = []
    for process, flushed, crashed, to in losses:
        assert crashed - TIMING.theta < flushed
        faults += [SendOmission(process, flushed, flushed + 1, frozenset(to))]
        faults += [Crash(process, crashed)]
    timing = Timing(delta=4, theta=10, gamma=2, f=4)
    return dab(talk(1, 35, 45) + talk(2, 45, 150), *faults, members=6, timing=timing, kind=kind)


def test_decider_whose_announcement_is_lost_with_it_has_decided_nothing() -> None:
    """It decided Δ after the flush, and crashed within Θ of it: [0030]."""
    run = chain_of_last_words()
    assert len(set(decisions(run, 1).values())) == 1
    run.check()
    hasty = chain_of_last_words(DecidesTooSoon)
    assert decisions(hasty, 1) == {6: 3, 2: 4, 3: 4}
    assert "contiguous-slices" in hasty.report().violated


# Several failures -----------------------------------------------------------------------------


def staggered(crashes: tuple[int, ...], timing: Timing = TIMING, talkers: int = 2) -> Run:
    """The lowest processes fail at these times; the last two live and talk all the time."""
    n = len(crashes) + talkers
    inputs = everyone_talks(range(len(crashes) + 1, n + 1), 3 * timing.theta, 9 * timing.theta, 3)
    faults = [Crash(p, at) for p, at in enumerate(crashes, 1)]
    half = timing.gamma // 2
    clocks = {p: Clock(half if p <= len(crashes) else -half) for p in range(1, n + 1)}
    return dab(inputs, *faults, members=n, clocks=clocks, timing=timing, full=False)


def worst(crashes: tuple[int, ...], timing: Timing = TIMING) -> int:
    run = staggered(crashes, timing)
    run.check(*SAFETY, "member-delivery")
    return max(latencies(run).values())


@pytest.mark.parametrize("timing", [TIMING, WHOLE_SLOT], ids=["dab.md", "Δ + Γ = Θ"])
def test_scenario_13_staggered_failures_stay_within_lemma_9_2(timing: Timing) -> None:
    """92, 118, 144 for Δ=4, Θ=10, Γ=2; and Γ more for each failed round (D13)."""
    first = 5 * timing.theta
    window = range(first + 1, first + 6 * timing.theta, 7)
    for second in window:
        took = worst((first, second), timing)
        assert took <= timing.latency(2) + 2 * timing.gamma
    for gap in window[::2]:
        took = worst((first, gap, gap + 2 * timing.theta), timing)
        assert took <= timing.latency(3) + 3 * timing.gamma


@pytest.mark.parametrize(
    ("delta", "crashes"),
    [
        (7, (51, 60, 81, 90)),
        (8, (51, 80, 101, 120)),  # Δ + Γ = Θ: the dearest
        (14, (51, 80, 101, 120)),
        (24, (51, 90, 121, 150)),
    ],
)
def test_scenario_13_each_staggered_failure_adds_exactly_one_spoiled_round(
    delta: int, crashes: tuple[int, ...]
) -> None:
    """Lemma C.3 gives 2Θ+Δ+Γ: "sent at most Θ after j started", and "detected … at most Θ+Δ+Γ time
    after p have failed". Both cannot be long: whoever fails late in the slot of its ballot is
    missed at the end of that slot, since ballot and mark travel in one flush. So a spoiled round
    lasts the whole slots that cover Δ+Γ, at most Δ+Γ+Θ, whatever the number of failures before."""
    t = Timing(delta=delta, theta=10, gamma=2, f=3)
    took = [worst(crashes[:count], t) for count in (1, 2, 3, 4)]
    assert {after - before for before, after in pairwise(took)} == {t.spoiled_round}
    assert t.spoiled_round <= delta + t.gamma + t.theta < t.step
    assert all(took[f - 1] <= t.latency(f) for f in (1, 2, 3, 4))


def test_scenario_13_no_crash_time_makes_a_spoiled_round_longer() -> None:
    """All times of a second crash while the first is agreed on."""
    t = WHOLE_SLOT
    alone = worst((51,), t)
    again = [worst((51, second), t) for second in range(52, 52 + 8 * t.theta, 2)]
    assert max(again) - alone == t.spoiled_round == t.delta + t.gamma + t.theta


def test_scenario_14_failures_in_one_slot_cost_no_more_than_one() -> None:
    bound = 2 * TIMING.theta + TIMING.detection + TIMING.after_last_report
    assert bound == 116
    together = [worst((50 + at,) * 3) for at in range(0, 10, 3)]
    alone = [worst((50 + at,)) for at in range(0, 10, 3)]
    assert max(together) <= bound
    assert max(together) == max(alone)


def test_scenario_15_message_after_the_quiet_window_is_as_fast_as_ever() -> None:
    quiet = TIMING.detection + TIMING.after_last_report
    assert quiet == 96
    run = dab(talk(1, *range(51 + quiet + 1, 51 + quiet + 40)), *MARK_LOST_TO_3)
    assert max(latencies(run).values()) <= 26


# The interface --------------------------------------------------------------------------------


def test_scenario_33_burst_above_the_agreed_one_is_refused() -> None:
    run = dab([Submit(31, 1, ALL) for _ in range(5)], burst_max=3)
    assert len(delivered(run, 2)) == 3
    assert replies(run, "Refused") == [1, 1]
    run.check()


def test_scenario_34_guarantee_below_the_lower_bound_is_rejected() -> None:
    """Theorem 2: (f + 1)Δ."""
    with pytest.raises(ValueError, match=r"\(f \+ 1\)Δ is 12"):
        dab([], latency=11)
    dab([], latency=12)


def test_bounds_are_those_of_the_digest() -> None:
    t = TIMING
    assert (t.step, t.detection, t.agreement(0), t.after_last_report) == (26, 18, 54, 78)
    assert (t.join_wait, t.join_bound, t.leave_bound, t.echo, t.lower_bound) == (
        98,
        220,
        20,
        56,
        12,
    )
    assert network_average_rate(4, k=4, lost=1) == 5 + 3 + 1
    assert network_burst(7, k=4, lost=1) == 10
