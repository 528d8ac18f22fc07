"""Processor demand for earliest deadline first: Baruah, Rosier and Howell 1990; QPA of Zhang and
Burns 2009; without preemption George, Rivierre and Spuri 1996; jitter as in Spuri 1996.

    h(t) = Σ max(0, ⌊(t + J − D)/T⌋ + 1)·C        schedulable iff h(t) + B(t) ≤ t for all t ≤ L

C: work and waiting, for whoever waits keeps the thread.
B(t): the longest stretch of a job with a deadline after t that can have begun before. It falls
with t in steps, and QPA needs a demand that only grows, so each step is searched by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from shmcast.realtime.fixed_priority import MOST_STEPS, Undecided
from shmcast.realtime.tasks import Task, utilisation


def demand(tasks: Sequence[Task], t: int) -> int:
    """h(t): work that must be finished within any interval of length t."""
    return sum(
        max(0, (t + task.jitter_ns - task.deadline_ns) // task.period_ns + 1) * task.occupied_ns
        for task in tasks
    )


def _due(task: Task) -> int:
    """Shortest time from readiness to deadline."""
    return task.deadline_ns - task.jitter_ns


def _stretch(task: Task, preemptive: bool) -> int:
    return task.locked_ns if preemptive else task.occupied_ns


def blocking(tasks: Sequence[Task], t: int, *, preemptive: bool) -> int:
    """B(t)."""
    stretches = [_stretch(task, preemptive) for task in tasks if _due(task) > t]
    return max((stretch - 1 for stretch in stretches if stretch), default=0)


def _last_deadline_before(tasks: Sequence[Task], t: int) -> int:
    """The greatest absolute deadline below t, of releases as early as can be; -1 if none."""
    found = -1
    for task in tasks:
        due = _due(task)
        if due < t:
            found = max(found, due + (t - 1 - due) // task.period_ns * task.period_ns)
    return found


def _horizon(tasks: Sequence[Task], load: Fraction, extra: int) -> int:
    """Where to stop looking. At load 1 the demand repeats itself with the hyperperiod, shifted by
    as much as time is, once every task takes part and nothing blocks any more."""
    latest = max(_due(task) for task in tasks)
    if load == 1:
        return latest + math.lcm(*(task.period_ns for task in tasks))
    lag = sum(
        (max(0, task.period_ns - _due(task)) * task.utilisation for task in tasks), Fraction(extra)
    )
    return max(latest, int(lag / (1 - load)) + 1)


def overload(tasks: Sequence[Task], *, preemptive: bool = True, late_ns: int = 0) -> int | None:
    """An interval whose demand is greater than its length; None: all deadlines are met.

    0 if the load is above 1, or if a task's jitter and work do not fit into its deadline.
    `late_ns`: how late the thread may come to work that was waiting for it.
    """
    load = utilisation(tasks)
    if load > 1 or (load == 1 and late_ns):
        return 0
    if any(_due(task) < task.occupied_ns + late_ns for task in tasks):
        return 0
    extra = late_ns + max(0, max(_stretch(task, preemptive) for task in tasks) - 1)
    if all(_due(task) >= task.period_ns for task in tasks) and not extra:
        return None  # Liu and Layland 1973: U ≤ 1 is enough
    end = _horizon(tasks, load, extra) + 1
    steps = sorted({_due(task) for task in tasks} | {0})
    for start in reversed(steps):  # B is constant from one step to the next
        blocked = late_ns + blocking(tasks, start, preemptive=preemptive)
        found = _overload_between(tasks, start, end, blocked)
        if found is not None:
            return found
        end = min(end, start)
    return None


def _overload_between(tasks: Sequence[Task], start: int, end: int, blocked: int) -> int | None:
    """QPA over [start, end)."""
    t = _last_deadline_before(tasks, end)
    for _ in range(MOST_STEPS):
        if t < start or t < 0:
            return None
        wanted = demand(tasks, t) + blocked
        if wanted > t:
            return t
        t = wanted if wanted < t else _last_deadline_before(tasks, t)
    raise Undecided(f"not decided within {MOST_STEPS} steps")
