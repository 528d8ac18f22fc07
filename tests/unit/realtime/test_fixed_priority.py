"""Response times of sets whose answers are printed in the literature."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shmcast.realtime.fixed_priority import response_times
from shmcast.realtime.tasks import Task, by_priority, utilisation


def tasks(*values: tuple[int, ...], **options: int) -> list[Task]:
    """(work, period) or (work, period, deadline), most urgent first."""
    return [
        Task(
            name=chr(97 + i),
            work_ns=v[0],
            period_ns=v[1],
            deadline_ns=v[2] if len(v) > 2 else 0,
            priority=-i,
            **options,
        )
        for i, v in enumerate(values)
    ]


def test_burns_and_wellings_set_with_a_load_above_the_liu_layland_limit() -> None:
    """Real-Time Systems and Programming Languages, response-time example: R = 3, 6, 20."""
    found = tasks((3, 7), (3, 12), (5, 20))
    assert response_times(found) == {"a": 3, "b": 6, "c": 20}
    assert utilisation(found) > Fraction(78, 100)  # 3·(2^(1/3) − 1) = 0.7798


def test_lehoczkys_set_whose_first_job_is_not_the_slowest() -> None:
    """Lehoczky 1990: jobs of the second task respond after 114, 102, 116, 104, 118, 106, 94."""
    assert response_times(tasks((26, 70), (62, 100, 118))) == {"a": 26, "b": 118}


def test_harmonic_periods_fill_the_processor() -> None:
    """Far beyond n(2^(1/n) − 1), and schedulable."""
    found = tasks((1, 2), (1, 4), (2, 8))
    assert utilisation(found) == 1
    assert response_times(found) == {"a": 1, "b": 2, "c": 8}


def test_liu_and_laylands_worst_set_for_two_just_fits() -> None:
    """Liu and Layland 1973: T1 = 5, T2 = 7 with C = 2, 3: full, and R2 = 7 = its deadline."""
    assert response_times(tasks((2, 5), (3, 7))) == {"a": 2, "b": 5}
    assert response_times(tasks((2, 5), (4, 7)))["b"] == 8  # one more and it misses


def test_blocking_delays_only_the_more_urgent() -> None:
    low = Task(name="low", work_ns=6, period_ns=30, locked_ns=4, priority=0)
    high = Task(name="high", work_ns=3, period_ns=10, priority=1)
    assert response_times([low, high]) == {"high": 3 + 4 - 1, "low": 6 + 3}


def test_jitter_of_the_urgent_one_comes_back_sooner() -> None:
    """A job that is ready late leaves less time to the next one."""
    steady = [Task(name="a", work_ns=3, period_ns=10, priority=1)]
    late = [Task(name="a", work_ns=3, period_ns=10, jitter_ns=4, priority=1)]
    victim = Task(name="b", work_ns=5, period_ns=40, priority=0)
    assert response_times([*steady, victim])["b"] == 8
    assert response_times([*late, victim]) == {"a": 7, "b": 11}


def test_the_revised_analysis_of_can_finds_the_second_instance() -> None:
    """Davis, Burns, Bril, Lukkien 2007, §3.2: the original analysis said 3.0 ms for message C; its
    second instance takes 3.5 ms. In µs; a tick less of blocking, since our time is discrete."""
    messages = tasks((1000, 2500), (1000, 3500, 3250), (1000, 3500, 3250))
    found = response_times(messages, preemptive=False)
    assert found["c"] == 3500
    assert found["a"] == 2000 - 1
    assert found["b"] == 3000 - 1


def test_more_than_the_processor_has_no_response_time() -> None:
    assert response_times(tasks((3, 4), (2, 4)))["b"] is None


def test_a_job_that_waits_keeps_the_others_waiting() -> None:
    a = Task(name="a", work_ns=1, period_ns=10, blocking_ns=5, priority=2)
    b = Task(name="b", work_ns=2, period_ns=20, priority=1)
    assert response_times([a, b], preemptive=False) == {"a": 6 + 2 - 1, "b": 6 + 2}
    assert response_times([a, b]) == {"a": 6, "b": 8}


def test_the_shorter_deadline_is_the_more_urgent_unless_priorities_are_given() -> None:
    slow = Task(name="slow", work_ns=1, period_ns=9)
    fast = Task(name="fast", work_ns=1, period_ns=5)
    assert [t.name for t in by_priority([slow, fast])] == ["fast", "slow"]
    with pytest.raises(ValueError, match="fast has no priority"):
        by_priority([Task(name="slow", work_ns=1, period_ns=9, priority=1), fast])


@pytest.mark.parametrize("field", ["period_ns", "work_ns"])
def test_a_task_without_time_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Task(**{"name": "x", "period_ns": 5, "work_ns": 1, field: 0})  # type: ignore[arg-type]
