"""Time-triggered schedules: a table made before the start, as in DEDOS, so that nothing has to be
decided, polled or waited for at run time (p = 0). A job's place is as long as its work, all that it
may have to wait for in there (`blocking_ns`), and how late the thread may come to it (`late_ns`).

One cycle is the hyperperiod. Jobs run to their end; every job ends within its cycle. Built by
earliest deadline first; where that fails, by a search with inserted idle time, which is bounded,
since the problem is NP-hard: no table found does not mean that there is none, and the refusal says
which of the two it is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

from shmcast.realtime.tasks import Task

MOST_ENTRIES = 65_536
MOST_NODES = 20_000  # of the search
MOST_SEARCHED = 1024  # jobs; beyond that a step of the search takes too long


class Entry(NamedTuple):
    start_ns: int  # in the cycle
    task: int  # index
    job: int  # of this task in this cycle
    end_ns: int  # start, lateness of the thread, work and blocking
    deadline_ns: int


class Table(NamedTuple):
    cycle_ns: int
    entries: list[Entry]


class NoTable(Exception):
    """The text says why; `task` is the one that does not fit."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(f"{task}: {why}")
        self.task = task


class _Job(NamedTuple):
    deadline_ns: int
    ready_ns: int
    task: int
    job: int
    place_ns: int


def _jobs(tasks: Sequence[Task], cycle_ns: int, late_ns: int) -> list[_Job]:
    found = []
    for i, task in enumerate(tasks):
        first = task.offset_ns % task.period_ns
        for k in range(cycle_ns // task.period_ns):
            release = first + k * task.period_ns
            deadline = min(release + task.deadline_ns, cycle_ns)
            place = late_ns + task.occupied_ns
            found.append(_Job(deadline, release + task.jitter_ns, i, k, place))
    return sorted(found)


def _cycle(tasks: Sequence[Task]) -> int:
    cycle = math.lcm(*(task.period_ns for task in tasks))
    entries = sum(cycle // task.period_ns for task in tasks)
    if entries > MOST_ENTRIES:
        longest = max(tasks, key=lambda task: cycle // task.period_ns)
        raise NoTable(
            longest.name,
            f"the cycle of {cycle} ns has {entries} jobs, more than {MOST_ENTRIES}: choose periods "
            "that divide each other",
        )
    return cycle


def _by_deadline(jobs: list[_Job]) -> tuple[list[Entry], _Job | None]:
    """Non-preemptive EDF without idling; the first job that ends too late, if any."""
    coming = sorted(jobs, key=lambda job: job.ready_ns)
    ready: list[_Job] = []
    done: list[Entry] = []
    now = at = 0
    while at < len(coming) or ready:
        if not ready:
            now = max(now, coming[at].ready_ns)
        while at < len(coming) and coming[at].ready_ns <= now:
            heapq.heappush(ready, coming[at])
            at += 1
        job = heapq.heappop(ready)
        if now + job.place_ns > job.deadline_ns:
            return done, job
        done.append(Entry(now, job.task, job.job, now + job.place_ns, job.deadline_ns))
        now += job.place_ns
    return done, None


class _Search:
    """Depth first; at each step the jobs that can start soonest, most urgent first."""

    def __init__(self, jobs: list[_Job], most: int) -> None:
        self.nodes, self.most = 0, most
        self.jobs = jobs

    def run(self) -> list[Entry] | None:
        stack: list[tuple[int, frozenset[int], tuple[Entry, ...]]] = [(0, frozenset(), ())]
        while stack:
            now, done, entries = stack.pop()
            if len(done) == len(self.jobs):
                return list(entries)
            self.nodes += 1
            if self.nodes > self.most:
                return None
            stack.extend(self._next(now, done, entries))
        return None

    def _next(
        self, now: int, done: frozenset[int], entries: tuple[Entry, ...]
    ) -> list[tuple[int, frozenset[int], tuple[Entry, ...]]]:
        left = [(i, job) for i, job in enumerate(self.jobs) if i not in done]
        if any(max(now, job.ready_ns) + job.place_ns > job.deadline_ns for _, job in left):
            return []
        # Starting one after another could have been finished before it is never better.
        soonest = min(max(now, job.ready_ns) + job.place_ns for _, job in left)
        choices = []
        for i, job in reversed(left):
            start = max(now, job.ready_ns)
            if start >= soonest:
                continue
            entry = Entry(start, job.task, job.job, start + job.place_ns, job.deadline_ns)
            choices.append((entry.end_ns, done | {i}, (*entries, entry)))
        return choices


def build(tasks: Sequence[Task], nodes: int = MOST_NODES, *, late_ns: int = 0) -> Table:
    cycle = _cycle(tasks)
    jobs = _jobs(tasks, cycle, late_ns)
    entries, late = _by_deadline(jobs)
    if late is None:
        return Table(cycle, entries)
    search = _Search(jobs, nodes if len(jobs) <= MOST_SEARCHED else 0)
    found = search.run()
    if found is not None:
        return Table(cycle, found)
    proven = search.nodes <= search.most
    why = (
        "there is no table in which it ends in time"
        if proven
        else f"no table was found (EDF, then {search.nodes} steps of search)"
    )
    raise NoTable(tasks[late.task].name, why)


def violations(tasks: Sequence[Task], table: Table, *, late_ns: int = 0) -> list[str]:
    """What is wrong with a table, whoever made it; shares nothing with build()."""
    cycle = table.cycle_ns
    wrong = [
        f"{t.name}: its period does not divide the cycle" for t in tasks if cycle % t.period_ns
    ]
    for before, after in zip(table.entries, table.entries[1:], strict=False):
        if after.start_ns < before.end_ns:
            wrong.append(f"{tasks[after.task].name} starts at {after.start_ns} in another's time")
    for i, task in enumerate(tasks):
        mine = [entry for entry in table.entries if entry.task == i]
        if sorted(entry.job for entry in mine) != list(range(cycle // task.period_ns)):
            wrong.append(f"{task.name}: not every job has exactly one place")
        for entry in mine:
            release = task.offset_ns % task.period_ns + entry.job * task.period_ns
            if entry.end_ns - entry.start_ns < late_ns + task.occupied_ns:
                wrong.append(f"{task.name} job {entry.job}: less than its budget and blocking")
            if entry.start_ns < release + task.jitter_ns:
                wrong.append(f"{task.name} job {entry.job}: before it is ready")
            if entry.end_ns > min(release + task.deadline_ns, cycle):
                wrong.append(f"{task.name} job {entry.job}: after its deadline")
    return wrong
