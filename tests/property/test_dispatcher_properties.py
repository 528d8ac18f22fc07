"""What is admitted never misses a deadline by the rules of the dispatcher (dispatcher_model.py):
with jobs that wait, tables, Python tasks, a throttled, late and busy dispatcher. And each rule of
the analysis is needed: without it the same runs find a set that misses."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

from shmcast.realtime import admission
from shmcast.realtime.admission import NO_OVERHEAD, Admission, Overhead, Supply, admit
from shmcast.realtime.dispatcher_model import Dispatcher, Nature
from shmcast.realtime.tasks import Task

PERIODS = (16, 24, 32, 48)
HORIZON = 4 * 96
SUPPLIES = (None, Supply(9, 10), Supply(6, 9))
OVERHEADS = (NO_OVERHEAD, Overhead(wake_ns=2), Overhead(wake_ns=1, turn_ns=1))


class Platform(NamedTuple):
    policy: str
    supply: Supply | None = None
    overhead: Overhead = NO_OVERHEAD


def task_of(rng: random.Random, name: str, periods: Sequence[int], waits: bool) -> Task:
    period, work = rng.choice(periods), rng.randint(1, 4)
    waiting = rng.randint(0, 3) if waits else 0
    return Task(
        name=name,
        period_ns=period,
        work_ns=work,
        blocking_ns=waiting,
        deadline_ns=rng.randint(work + waiting, 2 * period),
        offset_ns=rng.randint(0, period),
        jitter_ns=rng.randint(0, 3),
    )


def set_of(seed: int) -> tuple[list[Task], list[Task]]:
    rng, waits = random.Random(seed), seed % 3 > 0
    native = [task_of(rng, f"t{i}", PERIODS, waits) for i in range(rng.randint(1, 4))]
    return native, [task_of(rng, f"py{i}", (48, 96), waits) for i in range(rng.randint(0, 2))]


def admitted(native: list[Task], python: list[Task], on: Platform) -> Admission | None:
    found = admit(
        native,
        on.policy,
        background=python,
        supply=on.supply,
        overhead=on.overhead,
        advise=False,
    )
    return found if found.admitted else None


def trouble(
    native: list[Task], python: list[Task], found: Admission, on: Platform, seed: int
) -> list[str]:
    """Jobs that missed or were not started, and responses beyond what was promised."""
    wrong = []
    for greedy in (False, True):
        nature = Nature(seed, greedy, on.supply, on.overhead)
        run = Dispatcher(native, python, on.policy, found.table, nature).run(HORIZON)
        for name, worst in run.result.worst_ns.items():
            promised = found.responses_ns.get(name, worst)
            if run.result.misses[name] or run.skipped[name]:
                wrong.append(f"{name}: {run.result.misses[name]} late, {run.skipped[name]} dropped")
            if promised is None or worst > promised:
                wrong.append(f"{name}: responded after {worst}, not {promised}")
    return wrong


def failures(seeds: Iterable[int], on: Platform) -> tuple[int, dict[int, list[str]]]:
    """How many sets were admitted, and what went wrong with which."""
    count, wrong = 0, {}
    for seed in seeds:
        native, python = set_of(seed)
        found = admitted(native, python, on)
        if found is None:
            continue
        count += 1
        if text := trouble(native, python, found, on, seed):
            wrong[seed] = text
    return count, wrong


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
@pytest.mark.parametrize("supply", SUPPLIES)
@pytest.mark.parametrize("overhead", OVERHEADS)
def test_what_is_admitted_never_misses(
    policy: str, supply: Supply | None, overhead: Overhead
) -> None:
    count, wrong = failures(range(100), Platform(policy, supply, overhead))
    assert wrong == {}
    assert count >= 3  # or nothing was shown


FORGOTTEN = {
    "that waiting keeps the thread": (
        (Task, "occupied_ns", property(lambda task: task.work_ns)),
        [Platform("table"), Platform("fixed"), Platform("edf")],
    ),
    "that the thread comes late": (
        (admission._How, "late_ns", lambda *_: 0),
        [Platform(policy, overhead=OVERHEADS[1]) for policy in ("table", "fixed", "edf")],
    ),
    "that the supply is smaller": (
        (Supply, "apply", lambda _, task: task),
        [Platform("fixed", SUPPLIES[2])],
    ),
    "that the dispatcher takes time": (
        (Overhead, "apply", lambda _, task, __: task),
        [Platform("fixed", overhead=OVERHEADS[2])],
    ),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_an_analysis_that_forgets_something_would_be_caught(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (owner, name, wrong), platforms = FORGOTTEN[what]
    monkeypatch.setattr(owner, name, wrong)
    for on in platforms:
        assert failures(range(100), on)[1], on


LONG_WAIT = Task(name="a", work_ns=1, period_ns=10, blocking_ns=5)


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
@pytest.mark.parametrize("deadline", [10, 20])
def test_a_job_that_waits_delays_the_others(policy: str, deadline: int) -> None:
    """`fixed` admitted both, `edf` the second, though 11 of 10 are needed: waiting counted for its
    own task alone."""
    other = Task(name="b", work_ns=5, period_ns=10, deadline_ns=deadline)
    assert not admit([LONG_WAIT, other], policy).admitted
    if policy != "table":
        run = Dispatcher([LONG_WAIT, other], [], policy, None, Nature(1, greedy=True)).run(200)
        assert sum(run.result.misses.values()) + sum(run.skipped.values()) > 0


def test_a_python_task_may_wait_without_delaying_native_ones() -> None:
    native = Task(name="a", work_ns=5, period_ns=10)
    python = Task(name="py", work_ns=1, blocking_ns=20, period_ns=100)
    assert admit([native], "fixed", background=[python]).responses_ns == {"a": 5, "py": 46}


def test_a_python_task_waits_for_what_another_waits_for() -> None:
    patient = Task(name="patient", work_ns=1, blocking_ns=20, period_ns=100)
    urgent = Task(name="urgent", work_ns=1, period_ns=50, deadline_ns=20)
    assert not admit([], "fixed", background=[patient, urgent]).admitted


def test_a_python_task_must_end_before_its_next_release_whatever_its_deadline() -> None:
    """It was admitted, and every other release was dropped: one job at a time is handed out."""
    native = Task(name="a", work_ns=6, period_ns=10)
    python = Task(name="py", work_ns=3, period_ns=8, deadline_ns=40)
    found = admit([native], "fixed", background=[python], advise=False)
    assert (found.admitted, found.task) == (False, "py")
    assert "its next release, after 8 ns, would be dropped" in found.reason
    run = Dispatcher([native], [python], "fixed", None, Nature(1, greedy=True)).run(200)
    assert run.skipped["py"] > 0


def test_a_table_that_starts_jobs_late_is_in_pythons_way_later() -> None:
    """Two jobs of one task with next to nothing between them: 16 was promised, it took 19."""
    first = Task(name="first", period_ns=24, work_ns=2, deadline_ns=2, offset_ns=6)
    late = Task(name="late", period_ns=8, work_ns=3, offset_ns=4)
    python = Task(name="py", period_ns=48, work_ns=8, offset_ns=6)
    found = admit([first, late], "table", background=[python])
    run = Dispatcher(
        [first, late], [python], "table", found.table, Nature(1, greedy=True)
    ).run(HORIZON)  # fmt: skip
    assert run.result.worst_ns["py"] == 19
    assert found.responses_ns["py"] is not None and found.responses_ns["py"] >= 19
