"""Before anything starts: will every task meet its deadline? If not: which one will not, and the
smallest single change that would do.

Tasks that run in C are dispatched by one thread, each to its end, by table, fixed priority or
earliest deadline; what a job waits for, the thread waits for (docs/decisions/0024). `background`
tasks (Python callbacks) run below all of them in a thread of their own, one after another in the
order of their priority; the kernel lets the dispatcher preempt them, and what they wait for delays
nobody above.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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

    @property
    def late_ns(self) -> int:
        return 2 * (self.period_ns - self.runtime_ns)

    def apply(self, task: Task) -> Task:
        """A thread that waited may have lost its place in the kernel's line: one gap more."""
        work = -(-task.work_ns * self.period_ns // self.runtime_ns)
        waits = task.blocking_ns + self.late_ns if task.blocking_ns else 0
        return replace(task, work_ns=work, blocking_ns=waits)


class Overhead(NamedTuple):
    """What the dispatcher takes for itself; `Calibration.overhead` measures it."""

    wake_ns: int = 0  # from the time that it slept until, to when it runs
    turn_ns: int = 0  # around each job, and for handing one to Python

    def late_ns(self, background: Sequence[Task]) -> int:
        """Asleep, or handing out all of those, when a job becomes ready."""
        return self.wake_ns + self.turn_ns * len(background)

    def apply(self, task: Task, background: Sequence[Task]) -> Task:
        """Its own turn, and those for Python jobs that were released while it ran."""
        handed = sum(-(-task.occupied_ns // below.period_ns) + 1 for below in background)
        return replace(task, work_ns=task.work_ns + self.turn_ns * (1 + handed))

    def hand_outs(self, background: Sequence[Task]) -> list[Task]:
        """They are in the way of Python jobs as well."""
        if not self.turn_ns:
            return []
        return [
            replace(t, work_ns=self.turn_ns, jitter_ns=self.wake_ns, blocking_ns=0, locked_ns=0)
            for t in background
        ]


NO_OVERHEAD = Overhead()


class Throttle(NamedTuple):
    """What the kernel leaves to SCHED_FIFO: `runtime_ns` of every `period_ns`
    (/proc/sys/kernel/sched_rt_runtime_us). It stops whoever would use more for the rest of it."""

    runtime_ns: int
    period_ns: int

    @classmethod
    def of_kernel(cls, directory: Path = Path("/proc/sys/kernel")) -> Throttle | None:
        """None: there is no such limit, or nobody can read it."""
        try:
            runtime = int((directory / "sched_rt_runtime_us").read_text())
            period = int((directory / "sched_rt_period_us").read_text())
        except (OSError, ValueError):
            return None
        return cls(runtime * 1000, period * 1000) if 0 <= runtime < period else None

    def may_stop(self, tasks: Sequence[Task]) -> bool:
        """Some period may need more: jobs that overlap it, each as much as it can do inside."""

        def most_of(task: Task) -> int:
            jobs = -(-(self.period_ns + task.deadline_ns) // task.period_ns)
            return min(self.period_ns, jobs * task.work_ns)

        return sum(map(most_of, tasks)) > self.runtime_ns


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


def _fixed(tasks: Sequence[Task], how: _How, late_ns: int) -> dict[str, int | None]:
    responses = response_times(tasks, preemptive=how.preemptive, late_ns=late_ns)
    _misses(tasks, responses)
    return responses


def _edf(tasks: Sequence[Task], how: _How, late_ns: int) -> dict[str, int | None]:
    over = overload(tasks, preemptive=how.preemptive, late_ns=late_ns)
    if over is None:
        return {}
    heaviest = max(tasks, key=lambda task: task.utilisation)
    if over == 0:
        tight = [t for t in tasks if t.jitter_ns + late_ns + t.occupied_ns > t.deadline_ns]
        if tight:
            raise _Refused(tight[0].name, "its work and jitter do not fit into its deadline")
        raise _Refused(heaviest.name, "the tasks need more than the whole processor")
    due = [task for task in tasks if task.deadline_ns - task.jitter_ns <= over]
    last = max(due, key=lambda task: task.occupied_ns)
    raise _Refused(last.name, f"more work is due within {over} ns than fits into them")


def _background(
    above: Sequence[Task], below: Sequence[Task], late_ns: int
) -> dict[str, int | None]:
    """One job of a task at a time: a release that finds the last one unfinished is dropped
    (csrc/rt_external.c). So whatever its deadline, each must be done within the period."""
    order = by_priority(below)
    found = {}
    for i, task in enumerate(order):
        blocked = max((other.occupied_ns - 1 for other in order[i + 1 :]), default=0)
        found[task.name] = response_time(task, [*above, *order[:i]], blocked + late_ns)
    _misses(below, found)
    for task in order:
        response = found[task.name] or 0
        if response > task.period_ns:
            late = f"responds after {response} ns at worst: its next release, after "
            raise _Refused(task.name, f"{late}{task.period_ns} ns, would be dropped")
    return found


class _How(NamedTuple):
    policy: Policy
    preemptive: bool
    supply: Supply | None
    overhead: Overhead
    nodes: int = MOST_NODES

    def late_ns(self, background: Sequence[Task]) -> int:
        gap = self.supply.late_ns if self.supply else 0
        return gap + self.overhead.late_ns(background)

    def as_seen_from_below(self, tasks: Sequence[Task], table: Table | None) -> list[Task]:
        """What starts later than it could is in the way of Python jobs later than it should be:
        two jobs of one task may follow each other closely."""

        def latest_start(i: int, task: Task) -> int:
            if table is not None:
                mine = [e for e in table.entries if e.task == i]
                starts = [e.start_ns - e.job * task.period_ns for e in mine]
                room = max(e.end_ns - e.start_ns for e in mine) - task.occupied_ns
                return max(starts) - min(starts) + room
            if self.supply:
                return task.deadline_ns - task.work_ns
            return task.jitter_ns + self.overhead.wake_ns

        return [replace(t, jitter_ns=latest_start(i, t)) for i, t in enumerate(tasks)]


def _examine(
    tasks: Sequence[Task], background: Sequence[Task], how: _How
) -> tuple[dict[str, int | None], Table | None]:
    responses: dict[str, int | None] = {}
    table, late_ns = None, how.late_ns(background)
    loaded = [how.overhead.apply(task, background) for task in tasks]
    given = [how.supply.apply(task) for task in loaded] if how.supply else loaded
    if tasks and how.policy is Policy.TABLE:
        table = build(given, how.nodes, late_ns=late_ns)
        wrong = violations(given, table, late_ns=late_ns)
        if wrong:
            raise _Refused(wrong[0].split(":")[0], f"the table is wrong: {wrong[0]}")
    elif tasks and how.policy is Policy.FIXED:
        responses = _fixed(given, how, late_ns)
    elif tasks:
        responses = _edf(given, how, late_ns)
    if background:
        above = [*how.overhead.hand_outs(background), *how.as_seen_from_below(loaded, table)]
        responses = {**responses, **_background(above, background, late_ns)}
    return responses, table


def _attempt(tasks: Sequence[Task], background: Sequence[Task], how: _How) -> Admission:
    everyone = [*tasks, *background]
    load = float(utilisation(everyone))
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
    overhead: Overhead = NO_OVERHEAD,
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
    how = _How(chosen, preemptive, supply, overhead)
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
