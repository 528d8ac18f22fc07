"""Before anything starts: will every task meet its deadline? If not: which one will not, and the
smallest single change that would do.

Tasks that run in C are dispatched by one thread, each to its end, by table, fixed priority or
earliest deadline. `background` tasks (Python callbacks) run below all of them in a thread of their
own, one after another in the order of their priority; the kernel lets the dispatcher preempt them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from shmcast.realtime.demand import overload
from shmcast.realtime.fixed_priority import Undecided, response_time, response_times
from shmcast.realtime.table import MOST_NODES, NoTable, Table, build, violations
from shmcast.realtime.tasks import Task, by_priority, check_names, utilisation

_SEARCH_STEPS = 40
_ADVICE_NODES = 200  # of the search for a table, many times over


class Policy(enum.StrEnum):
    TABLE = "table"
    FIXED = "fixed"
    EDF = "edf"


class Supply(NamedTuple):
    """What SCHED_DEADLINE gives the dispatcher: so much in every period, at any place in it.

    Shin and Lee 2003: at least (Q/P)·(t − 2(P − Q)) of any t. So a task that needs C needs C·P/Q
    of it, and waits 2(P − Q) at worst before anything happens.
    """

    runtime_ns: int
    period_ns: int

    def apply(self, task: Task) -> Task:
        gap = 2 * (self.period_ns - self.runtime_ns)
        work = -(-task.work_ns * self.period_ns // self.runtime_ns)
        return replace(task, work_ns=work, blocking_ns=task.blocking_ns + gap)


@dataclass(frozen=True, slots=True)
class Admission:
    admitted: bool
    utilisation: float
    responses_ns: dict[str, int | None] = field(default_factory=dict)  # where the test gives them
    task: str = ""  # the one that does not fit
    reason: str = ""
    change: str = ""  # the smallest that was found to admit the set
    table: Table | None = None


class NotAdmitted(ValueError):
    """The schedule was refused before it started."""

    def __init__(self, admission: Admission) -> None:
        advice = f"; {admission.change}" if admission.change else ""
        super().__init__(f"{admission.task}: {admission.reason}{advice}")
        self.admission = admission


class _Refused(Exception):
    def __init__(self, task: str, reason: str) -> None:
        self.task, self.reason = task, reason


def _misses(tasks: Sequence[Task], responses: dict[str, int | None]) -> None:
    for task in by_priority(tasks):
        response = responses[task.name]
        if response is None:
            raise _Refused(task.name, "the tasks up to it need more than the whole processor")
        if response > task.deadline_ns:
            late = f"responds after {response} ns at worst, later than its {task.deadline_ns} ns"
            raise _Refused(task.name, late)


def _fixed(tasks: Sequence[Task], preemptive: bool) -> dict[str, int | None]:
    responses = response_times(tasks, preemptive=preemptive)
    _misses(tasks, responses)
    return responses


def _edf(tasks: Sequence[Task], preemptive: bool) -> dict[str, int | None]:
    over = overload(tasks, preemptive=preemptive)
    if over is None:
        return {}
    heaviest = max(tasks, key=lambda task: task.utilisation)
    if over == 0:
        tight = [t for t in tasks if t.jitter_ns + t.work_ns > t.deadline_ns]
        if tight:
            raise _Refused(tight[0].name, "its work and jitter do not fit into its deadline")
        raise _Refused(heaviest.name, "the tasks need more than the whole processor")
    due = [task for task in tasks if task.deadline_ns - task.jitter_ns <= over]
    last = max(due, key=lambda task: task.work_ns)
    raise _Refused(last.name, f"more work is due within {over} ns than fits into them")


def _background(above: Sequence[Task], below: Sequence[Task]) -> dict[str, int | None]:
    order = by_priority(below)
    found = {}
    for i, task in enumerate(order):
        blocked = max((other.work_ns - 1 for other in order[i + 1 :]), default=0)
        found[task.name] = response_time(task, [*above, *order[:i]], blocked)
    _misses(below, found)
    return found


class _How(NamedTuple):
    policy: Policy
    preemptive: bool
    supply: Supply | None
    nodes: int = MOST_NODES


def _examine(
    tasks: Sequence[Task], background: Sequence[Task], how: _How
) -> tuple[dict[str, int | None], Table | None]:
    responses: dict[str, int | None] = {}
    table = None
    if tasks and how.policy is Policy.TABLE:
        table = build(tasks, how.nodes)
        wrong = violations(tasks, table)
        if wrong:
            raise _Refused(wrong[0].split(":")[0], f"the table is wrong: {wrong[0]}")
    elif tasks and how.policy is Policy.FIXED:
        responses = _fixed(tasks, how.preemptive)
    elif tasks:
        responses = _edf(tasks, how.preemptive)
    if background:
        responses = {**responses, **_background(tasks, background)}
    return responses, table


def _attempt(tasks: Sequence[Task], background: Sequence[Task], how: _How) -> Admission:
    everyone = [*tasks, *background]
    load = float(utilisation(everyone))
    if how.supply is not None:
        tasks = [how.supply.apply(task) for task in tasks]
    try:
        responses, table = _examine(tasks, background, how)
    except _Refused as refused:
        return Admission(False, load, task=refused.task, reason=refused.reason)
    except NoTable as refused:
        why = str(refused).removeprefix(f"{refused.task}: ")
        return Admission(False, load, task=refused.task, reason=why)
    except Undecided as undecided:
        heaviest = max(everyone, key=lambda task: task.utilisation)
        return Admission(False, load, task=heaviest.name, reason=str(undecided))
    return Admission(True, load, responses, table=table)


def admit(
    tasks: Sequence[Task],
    policy: Policy | str,
    *,
    preemptive: bool = False,
    background: Sequence[Task] = (),
    supply: Supply | None = None,
    advise: bool = True,
) -> Admission:
    """Tests a set. A refused one comes with the smallest change of one number of one task."""
    chosen = Policy(policy)
    check_names([*tasks, *background])
    if not tasks and not background:
        raise ValueError("a schedule needs at least one task")
    if chosen is Policy.FIXED:  # so that a changed deadline does not change the order as well
        tasks = _with_priorities(tasks)
    background = _with_priorities(background)
    how = _How(chosen, preemptive, supply)
    result = _attempt(tasks, background, how)
    if result.admitted or not advise:
        return result

    def fits(changed: Task) -> bool:
        above = [changed if task.name == changed.name else task for task in tasks]
        below = [changed if task.name == changed.name else task for task in background]
        return _attempt(above, below, how._replace(nodes=_ADVICE_NODES)).admitted

    return replace(result, change=_smallest_change([*tasks, *background], fits))


def _with_priorities(tasks: Sequence[Task]) -> list[Task]:
    order = by_priority(tasks)
    return [replace(task, priority=len(order) - i) for i, task in enumerate(order)]


def _smallest_change(tasks: Sequence[Task], fits: Callable[[Task], bool]) -> str:
    """Of one number of one task, measured relative to what it was."""
    best, text = 0.0, ""
    for task in tasks:
        for name, far in (
            ("work_ns", 1),
            ("deadline_ns", task.deadline_ns * 64),
            ("period_ns", task.period_ns * 64),
        ):
            was = getattr(task, name)
            value = _search(task, name, was, far, fits)
            if value is None:
                continue
            size = abs(value - was) / was
            if not text or size < best:
                best, text = size, f"with {name} {value} instead of {was} for {task.name} it fits"
    return text


def _search(task: Task, name: str, was: int, far: int, fits: Callable[[Task], bool]) -> int | None:
    """The value nearest to `was` that fits, between it and `far`; every answer was tested."""

    def changed(value: int) -> Task:
        values: dict[str, Any] = {name: value}
        if name == "work_ns":
            values["locked_ns"] = min(task.locked_ns, value)
        return replace(task, **values)

    if far == was or not fits(changed(far)):
        return None
    bad, good = was, far
    for _ in range(_SEARCH_STEPS):
        if abs(good - bad) <= 1:
            break
        middle = (good + bad) // 2
        if fits(changed(middle)):
            good = middle
        else:
            bad = middle
    return good
