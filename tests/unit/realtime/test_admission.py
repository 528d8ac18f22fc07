"""Admission: who is refused, why, and the smallest change that would do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from shmcast.realtime.admission import NotAdmitted, Supply, admit
from shmcast.realtime.tasks import Task

A = Task(name="a", work_ns=20, period_ns=100)
B = Task(name="b", work_ns=50, period_ns=200)


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_a_light_set_is_admitted(policy: str) -> None:
    found = admit([A, B], policy)
    assert found.admitted
    assert found.utilisation == pytest.approx(0.45)
    assert (found.table is not None) == (policy == "table")


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_the_change_that_is_proposed_admits_the_set(policy: str) -> None:
    tight = replace(A, deadline_ns=30)  # B runs for 50 without preemption
    found = admit([tight, B], policy)
    if policy == "table":  # a table puts B where it does no harm
        assert found.admitted
        return
    assert not found.admitted
    name, value, was, task = re.match(
        r"with (\w+) (\d+) instead of (\d+) for (\w+) it fits", found.change
    ).groups()  # type: ignore[union-attr]
    changed = [replace(t, **{name: int(value)}) if t.name == task else t for t in (tight, B)]
    assert admit(changed, policy).admitted
    nearer = int(value) + (1 if int(value) < int(was) else -1)
    less = [replace(t, **{name: nearer}) if t.name == task else t for t in (tight, B)]
    assert not admit(less, policy).admitted


def test_the_refused_task_is_named_with_its_response_time() -> None:
    found = admit([replace(A, deadline_ns=30), B], "fixed")
    assert found.task == "a"
    assert found.reason == "responds after 69 ns at worst, later than its 30 ns"
    assert str(NotAdmitted(found)).startswith("a: responds after 69 ns")


def test_overload_is_refused_by_every_policy() -> None:
    heavy = [replace(A, work_ns=80), replace(B, work_ns=100)]
    for policy in ("table", "fixed", "edf"):
        found = admit(heavy, policy)
        assert not found.admitted
        assert found.change


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_blocking_that_does_not_fit_is_refused_by_every_policy(policy: str) -> None:
    """A table took no notice of it."""
    blocked = Task(name="a", work_ns=10, period_ns=100, deadline_ns=20, blocking_ns=50)
    assert not admit([blocked], policy).admitted
    assert admit([replace(blocked, deadline_ns=60)], policy).admitted


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_the_time_without_supply_is_counted_by_every_policy(policy: str) -> None:
    supply = Supply(runtime_ns=9, period_ns=10)  # nothing for 2 ns at worst, and 9 of 10 after that
    tight = Task(name="a", work_ns=9, period_ns=100, deadline_ns=11)
    assert not admit([tight], policy, supply=supply).admitted
    assert admit([replace(tight, deadline_ns=12)], policy, supply=supply).admitted


def test_python_tasks_run_below_all_others() -> None:
    python = Task(name="py", work_ns=60, period_ns=400)
    found = admit([A, B], "edf", background=[python])
    assert found.responses_ns == {"py": 60 + 2 * 20 + 50}
    late = admit([A, B], "edf", background=[replace(python, deadline_ns=149)])
    assert (late.task, late.admitted) == ("py", False)


def test_a_python_task_does_not_delay_the_others() -> None:
    python = Task(name="py", work_ns=60, period_ns=400)
    assert admit([replace(A, deadline_ns=20)], "fixed", background=[python]).admitted


def test_a_throttled_dispatcher_needs_more_time() -> None:
    supply = Supply(runtime_ns=8, period_ns=10)
    one = Task(name="one", work_ns=8, period_ns=20)
    assert admit([one], "fixed", supply=supply).responses_ns == {"one": 10 + 4}
    assert not admit([replace(one, deadline_ns=13)], "fixed", supply=supply).admitted


def test_two_tasks_of_one_name_and_no_task_are_refused() -> None:
    with pytest.raises(ValueError, match="two tasks have the name a"):
        admit([A, A], "edf")
    with pytest.raises(ValueError, match="at least one task"):
        admit([], "edf")
