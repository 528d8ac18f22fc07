"""Validity, agreement, integrity, termination, each on a trace that breaks it and one that not."""

from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.checks.written import Written

ALL = ((0, 1, 2),)


def outcome(trace: Trace, name: str) -> str:
    return check(trace, [name])[name].outcome.value


def test_correct_sender_that_never_delivers_breaks_validity() -> None:
    t = Written(ALL).multicast(0, "m").deliver(1, "m").deliver(2, "m")
    assert outcome(t.trace(), "validity") == "violated"
    assert outcome(t.crash(0).trace(), "validity") == "passed"


def test_liveness_of_an_open_trace_is_undetermined() -> None:
    t = Written(ALL).multicast(0, "m").trace(closed=False)
    for name in ("validity", "multicast-validity", "agreement", "termination"):
        assert check(t, [name])[name].outcome is Outcome.UNDETERMINED


def test_agreement_binds_correct_deliverers_and_uniform_agreement_all() -> None:
    """Scenario 5: deliver-then-relay, crash between."""
    t = Written(ALL).multicast(0, "m").deliver(0, "m").crash(0)
    assert outcome(t.trace(), "agreement") == "passed"
    assert outcome(t.trace(), "uniform-agreement") == "violated"


def test_agreement_is_broken_when_two_correct_processes_differ() -> None:
    t = Written(ALL).multicast(0, "m").deliver(0, "m").deliver(1, "m")
    assert outcome(t.trace(), "agreement") == "violated"


def test_process_with_an_omission_counts_as_faulty() -> None:
    t = Written(ALL).multicast(0, "m").deliver(0, "m").deliver(1, "m").fault(2)
    assert outcome(t.trace(), "agreement") == "passed"


def test_second_delivery_breaks_integrity() -> None:
    t = Written(ALL).multicast(0, "m").deliver(1, "m", "m").trace()
    assert outcome(t, "integrity") == "violated"


def test_integrity_of_a_faulty_process_is_uniform_only() -> None:
    t = Written(ALL).multicast(0, "m").deliver(1, "m", "m").crash(1).trace()
    assert outcome(t, "integrity") == "passed"
    assert outcome(t, "uniform-integrity") == "violated"


def test_delivery_of_what_nobody_multicast_breaks_integrity() -> None:
    assert outcome(Written(ALL).deliver(1, "ghost").trace(), "integrity") == "violated"


def test_delivery_outside_the_group_breaks_integrity() -> None:
    t = Written(((0,), (1,))).multicast(0, "m", dest=(0,)).deliver(1, "m").trace()
    assert outcome(t, "integrity") == "violated"


def test_new_life_may_deliver_what_the_old_one_delivered() -> None:
    t = Written(ALL).multicast(0, "m").deliver(1, "m").crash(1).restart(1).deliver(1, "m").trace()
    assert outcome(t, "uniform-integrity") == "passed"


def test_multicast_to_a_wholly_faulty_group_is_valid_vacuously() -> None:
    """Scenario 30: multicast from a non-member; group wholly faulty."""
    t = Written(((0, 1),), clients=(2,)).multicast(2, "m").crash(0).crash(1).trace()
    assert outcome(t, "multicast-validity") == "passed"


def test_termination_wants_a_quorum_in_every_destination_group() -> None:
    groups = ((0, 1, 2), (3, 4, 5))
    t = Written(groups, clients=(6,)).multicast(6, "m", dest=(0, 1))
    t.deliver(0, "m").deliver(1, "m").deliver(3, "m")
    assert outcome(t.trace(), "termination") == "violated"
    assert outcome(t.deliver(4, "m").trace(), "termination") == "passed"
