"""Timeliness, genuineness, consensus, consistency, accounting, streaming."""

import pytest

from shmcast.multicast.checks import agreements
from shmcast.multicast.checks.consistency import consistency, consistent, uncontaminated
from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.streaming import Certificate
from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.timeliness import local_time, real_time
from shmcast.multicast.checks.trace import DECIDE, PROPOSE, Trace, in_order
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.checks.written import Written
from shmcast.multicast.sim.api import simulate

ALL = ((0, 1, 2),)


def test_delivery_at_the_bound_is_timely_and_one_tick_later_is_not() -> None:
    t = Written(ALL).multicast(0, "m", at=0).deliver(1, "m", at=40).trace()
    for check_time in (real_time, local_time):
        assert not check_time(History(t), lambda dest: 40, uniform=False).violated
        assert check_time(History(t), lambda dest: 39, uniform=False).violated


def test_lateness_of_a_faulty_process_is_uniform_only() -> None:
    t = Written(ALL).multicast(0, "m", at=0).deliver(1, "m", at=90).crash(1).trace()
    assert not real_time(History(t), lambda dest: 40, uniform=False).violated
    assert real_time(History(t), lambda dest: 40, uniform=True).violated


def test_genuineness_cannot_be_told_without_transmissions() -> None:
    t = Written(ALL).multicast(0, "m").trace()
    assert check(t, ["genuineness"])["genuineness"].outcome is Outcome.UNDETERMINED


def test_sender_that_died_before_it_sent_leaves_a_genuine_run() -> None:
    t = Written(ALL).multicast(0, "m").crash(0).trace()
    assert check(t, ["genuineness"])["genuineness"].outcome is Outcome.PASSED


def decided(*values: str, crash: int | None = None, closed: bool = True) -> Trace:
    t = Written(ALL)
    for proc in range(3):
        t.event(proc, PROPOSE, detail=f"v{proc}")
    for proc, value in enumerate(values):
        t.event(proc, DECIDE, detail=value)
    if crash is not None:
        t.crash(crash)
    return t.trace(closed=closed)


def test_consensus_properties_on_runs_that_break_them() -> None:
    good = decided("v1", "v1", "v1")
    assert not agreements.consensus_termination(good).violated
    assert not agreements.consensus_agreement(good, uniform=True).violated
    assert not agreements.consensus_integrity(good, uniform=True).violated
    split = decided("v1", "v1", "v2", crash=2)
    assert not agreements.consensus_agreement(split, uniform=False).violated
    assert agreements.consensus_agreement(split, uniform=True).violated
    assert agreements.consensus_termination(decided("v1", "v1")).violated
    unfinished = agreements.consensus_termination(decided("v1", "v1", closed=False))
    assert unfinished.outcome is Outcome.UNDETERMINED
    assert agreements.consensus_integrity(decided("w", "w", "w"), uniform=False).violated


def test_failure_mark_for_a_correct_sender_breaks_trb_validity() -> None:
    """Scenario 36: F_s delivered although s is correct."""
    t = Written(ALL).event(0, PROPOSE, detail="m")
    for proc in range(3):
        t.event(proc, DECIDE, detail=agreements.SENDER_FAULTY)
    assert agreements.trb_validity(t.trace(), sender=0).violated
    assert not agreements.trb_integrity(t.trace(), uniform=True).violated
    assert not agreements.trb_validity(t.crash(0).trace(), sender=0).violated


def test_skipper_is_inconsistent_and_its_listeners_contaminated() -> None:
    """Scenario 31: r skips "+1", delivers "×2", broadcasts y; Uniform Atomic passes."""
    t = Written(ALL).multicast(0, "+1").multicast(0, "x2")
    t.deliver(0, "+1", "x2").deliver(1, "+1", "x2").deliver(2, "x2")
    t.multicast(2, "y").deliver(0, "y").deliver(1, "y").deliver(2, "y").fault(2)
    verdicts = check(t.trace(), ["uniform-agreement", "uniform-integrity", "uniform-total"])
    assert not any(v.violated for v in verdicts.values())
    found = consistency(History(t.trace()))
    assert {p: e.msg for p, e in found.inconsistent.items()} == {(2, 0): (0, 2)}
    assert {p: e.msg for p, e in found.contaminated.items()} == {(0, 0): (2, 1), (1, 0): (2, 1)}
    assert consistent(History(t.trace())).violated
    assert uncontaminated(History(t.trace())).violated


def test_process_that_is_ahead_of_an_open_run_is_not_convicted() -> None:
    """p0, faulty, has delivered all that the correct ones have, and more, and spoke after that."""
    t = Written(ALL).multicast(1, "m").multicast(1, "n").fault(0)
    t.deliver(0, "m", "n").deliver(1, "m").deliver(2, "m").multicast(0, "y")
    closed, still_open = (History(t.trace(closed=is_closed)) for is_closed in (True, False))
    assert consistent(closed).violated
    assert uncontaminated(closed).outcome is Outcome.PASSED, "nobody has delivered y"
    assert consistent(still_open).outcome is Outcome.UNDETERMINED
    assert {p: e.msg for p, e in consistency(still_open).ahead.items()} == {(0, 0): (1, 2)}
    t.deliver(1, "n", "y")
    for is_closed in (True, False):
        assert consistent(History(t.trace(closed=is_closed))).outcome is Outcome.PASSED


def test_open_run_does_not_excuse_another_order() -> None:
    t = Written(ALL).multicast(1, "m").multicast(1, "n").fault(0)
    t.deliver(0, "n").multicast(0, "y").deliver(1, "m", "n", "y")
    history = History(t.trace(closed=False))
    assert consistent(history).violated and uncontaminated(history).violated


def test_correct_process_that_heard_one_who_is_ahead_may_be_contaminated() -> None:
    """p1 delivers y, which p0 broadcast after n; whether n follows is open."""
    t = Written(ALL).multicast(1, "m").multicast(1, "n").fault(0)
    t.deliver(0, "m", "n").multicast(0, "y").deliver(1, "m").deliver(2, "y")
    history = History(t.trace(closed=False))
    assert not consistency(history).contaminated
    assert uncontaminated(history).outcome is Outcome.UNDETERMINED


def test_rows_of_a_store_come_back_in_order() -> None:
    trace = simulate("skeen", messages=5, seed=3).trace
    assert in_order(reversed(trace.events)) == trace.events


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"ts": (2, 0)}, "two timestamps"),
        ({"ts": None}, "uncalled for"),
    ],
)
def test_certificate_objects_to_what_breaks_it(second: dict[str, object], reason: str) -> None:
    certificate = Certificate(ALL)
    t = Written(ALL).multicast(0, "m").deliver(0, "m", ts=(1, 0))
    t.deliver(1, "m", **second)  # type: ignore[arg-type]
    for event in t.trace():
        certificate(event)
    verdict = certificate.verdict(closed=True)
    assert verdict.violated and reason in verdict.reason


def test_certificate_remembers_only_what_is_on_its_way() -> None:
    certificate = Certificate(tuple((g,) for g in range(4)))
    run = simulate("skeen", groups=4, messages=2000, seed=1, record=certificate)
    assert certificate.verdict(closed=run.trace.closed).outcome is Outcome.PASSED
    assert certificate.deliveries > 2000
    assert certificate.pending == {} and certificate.pending_max < 100
    assert len(run.trace) == 0
