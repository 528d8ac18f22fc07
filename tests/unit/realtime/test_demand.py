"""Processor demand under earliest deadline first."""

from __future__ import annotations

import pytest

from shmcast.realtime.demand import demand, overload
from shmcast.realtime.tasks import Task, utilisation


def task(name: str, work: int, period: int, deadline: int = 0, **options: int) -> Task:
    return Task(name=name, work_ns=work, period_ns=period, deadline_ns=deadline, **options)


def test_demand_counts_jobs_whose_release_and_deadline_lie_inside() -> None:
    """By hand, C=2 T=5 D=4 and C=1 T=3 D=3: at 9 two of the first and three of the second."""
    found = [task("a", 2, 5, 4), task("b", 1, 3)]
    assert [demand(found, t) for t in (2, 3, 4, 6, 9)] == [0, 1, 3, 4, 2 * 2 + 3]


def test_full_load_with_implicit_deadlines_is_accepted() -> None:
    found = [task("a", 2, 4), task("b", 3, 6)]
    assert utilisation(found) == 1
    assert overload(found) is None


def test_buttazzos_set_that_rate_monotonic_misses() -> None:
    """Hard Real-Time Computing Systems, EDF against RM: C = 2, 4 and T = 5, 7, U = 34/35."""
    assert overload([task("a", 2, 5), task("b", 4, 7)]) is None


def test_full_load_with_one_shorter_deadline_is_refused_at_the_right_place() -> None:
    """a must be done by 2 and b by 4 of 4: 2 + 2 = 4 fits; with D = 3 for b it does not."""
    assert overload([task("a", 2, 4, 2), task("b", 2, 4)]) is None
    assert overload([task("a", 2, 4, 2), task("b", 2, 4, 3)]) in (3, 7)


def test_more_than_full_load_is_refused() -> None:
    assert overload([task("a", 3, 4), task("b", 2, 6)]) == 0


def test_without_preemption_a_long_job_may_be_in_the_way() -> None:
    urgent, long = task("a", 1, 4, 2), task("b", 3, 12)
    assert overload([urgent, long]) is None
    assert overload([urgent, long], preemptive=False) == 2  # 1 + (3 − 1) > 2
    assert overload([urgent, task("b", 2, 12)], preemptive=False) is None


def test_jitter_shortens_the_time_that_is_left() -> None:
    assert overload([task("a", 2, 4, 4, jitter_ns=2), task("b", 1, 8)]) is None
    assert overload([task("a", 2, 4, 4, jitter_ns=3), task("b", 1, 8)]) == 0


@pytest.mark.parametrize("blocking", [0, 1, 2])
def test_waiting_is_demand(blocking: int) -> None:
    found = [task("a", 2, 10, 3, blocking_ns=blocking), task("b", 1, 20)]
    assert (overload(found) is None) == (blocking <= 1)
