"""Response-time analysis for fixed priorities, with blocking and jitter.

Preemptive: Joseph and Pandya 1986; Audsley et al. 1993 (jitter, blocking); Tindell, Burns and
Wellings 1994 (deadlines beyond the period: every job of the busy period is looked at). Exact for
tasks that may all be released at once. Non-preemptive: Davis, Burns, Bril and Lukkien 2007, whose
point is that the first job of a busy period need not be the slowest.

A job's share is its work and its waiting: whoever waits keeps the thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from shmcast.realtime.tasks import Task, by_priority, utilisation

MOST_STEPS = 1_000_000  # of one analysis; more means that nothing was decided


class Undecided(Exception):
    """The analysis would take too long: utilisation is almost 1, or periods differ hugely."""


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class _Steps:
    def __init__(self) -> None:
        self.left = MOST_STEPS

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Undecided(f"not decided within {MOST_STEPS} steps")


def response_time(task: Task, higher: Sequence[Task], blocking_ns: int = 0) -> int | None:
    """Longest time from release to completion, preemptive; None if there is no bound.

    A response beyond the deadline is returned as soon as it is found: the job misses, and how much
    later another one would end is of no interest.
    """
    if utilisation([*higher, task]) > 1:
        return None
    steps, worst, q = _Steps(), 0, 0
    blocked = blocking_ns
    window = blocked + task.occupied_ns
    while True:
        base = blocked + (q + 1) * task.occupied_ns
        while True:
            steps.take()
            longer = base + sum(
                _ceil(window + other.jitter_ns, other.period_ns) * other.occupied_ns
                for other in higher
            )
            if longer == window:
                break
            window = longer
            if task.jitter_ns + window - q * task.period_ns > task.deadline_ns:
                return task.jitter_ns + window - q * task.period_ns
        worst = max(worst, task.jitter_ns + window - q * task.period_ns)
        if worst > task.deadline_ns or window + task.jitter_ns <= (q + 1) * task.period_ns:
            return worst
        q += 1
        window += task.occupied_ns


def _busy_period(task: Task, higher: Sequence[Task], blocked: int, steps: _Steps) -> int:
    everyone = [*higher, task]
    length = blocked + sum(other.occupied_ns for other in everyone)
    while True:
        steps.take()
        longer = blocked + sum(
            _ceil(length + other.jitter_ns, other.period_ns) * other.occupied_ns
            for other in everyone
        )
        if longer == length:
            return length
        length = longer


def response_time_without_preemption(
    task: Task, higher: Sequence[Task], blocking_ns: int = 0
) -> int | None:
    """The same where a job, once started, runs to its end."""
    load = utilisation([*higher, task])
    blocked = blocking_ns
    if load > 1 or (load == 1 and (blocked or any(t.jitter_ns for t in [*higher, task]))):
        return None  # at utilisation 1 a busy period that starts late never ends
    steps, worst = _Steps(), 0
    busy = _busy_period(task, higher, blocked, steps)
    for q in range(_ceil(busy + task.jitter_ns, task.period_ns)):
        start = blocked + q * task.occupied_ns
        while True:
            steps.take()
            later = (
                blocked
                + q * task.occupied_ns
                + sum(
                    ((start + other.jitter_ns) // other.period_ns + 1) * other.occupied_ns
                    for other in higher
                )
            )
            if later == start:
                break
            start = later
        worst = max(worst, task.jitter_ns + start - q * task.period_ns + task.occupied_ns)
        if worst > task.deadline_ns:
            return worst
    return worst


def response_times(
    tasks: Sequence[Task], *, preemptive: bool = True, late_ns: int = 0
) -> dict[str, int | None]:
    """By name, for every task. The set is schedulable if none is None or beyond its deadline.

    `late_ns`: how late the thread may come to work that was waiting for it.
    """
    order = by_priority(tasks)
    found: dict[str, int | None] = {}
    for i, task in enumerate(order):
        stretches = (t.locked_ns if preemptive else t.occupied_ns for t in order[i + 1 :])
        # It must have begun at least one tick before.
        blocking = max((stretch - 1 for stretch in stretches if stretch), default=0)
        analyse = response_time if preemptive else response_time_without_preemption
        found[task.name] = analyse(task, order[:i], blocking + late_ns)
    return found
