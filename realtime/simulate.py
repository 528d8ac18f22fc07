"""A discrete simulation of the schedulers, in virtual time: the other half of the analysis.

One processor. A job runs `locked_ns` at its start without preemption (all of it if the scheduler
does not preempt). Jobs below the line, `background`, run only when no other job is ready, one
after another, as the scheduler's Python tasks do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shmcast.realtime.tasks import Task, by_priority

Pick = Callable[[Task, int], int]  # (task, number of the job) -> ns, at most what the task allows


@dataclass(slots=True)
class _Job:
    task: int
    release_ns: int
    ready_ns: int
    left_ns: int
    locked_ns: int  # still to run without preemption
    key: tuple[int, ...] = ()


@dataclass(slots=True)
class Outcome:
    worst_ns: dict[str, int] = field(default_factory=dict)  # response, by task
    misses: dict[str, int] = field(default_factory=dict)
    jobs: int = 0


def _releases(
    tasks: Sequence[Task], horizon_ns: int, work: Pick, lateness: Pick, locks: Sequence[int]
) -> list[_Job]:
    jobs = []
    for i, task in enumerate(tasks):
        for k, release in enumerate(range(task.offset_ns, horizon_ns, task.period_ns)):
            ready = release + min(lateness(task, k), task.jitter_ns)
            left = max(1, min(work(task, k), task.work_ns))
            jobs.append(_Job(i, release, ready, left, min(locks[i], left)))
    return sorted(jobs, key=lambda job: job.ready_ns)


def simulate(
    tasks: Sequence[Task],
    *,
    policy: str,  # "fixed" or "edf"
    horizon_ns: int,
    preemptive: bool = True,
    background: Sequence[Task] = (),
    work: Pick = lambda task, _: task.work_ns,
    lateness: Pick = lambda task, _: task.jitter_ns,
) -> Outcome:
    everyone = [*tasks, *background]
    rank = {task.name: i for i, task in enumerate([*by_priority(tasks), *by_priority(background)])}
    locks = [t.locked_ns if preemptive else t.work_ns for t in tasks] + [
        t.work_ns for t in background
    ]
    coming = _releases(everyone, horizon_ns, work, lateness, locks)
    for order, job in enumerate(coming):
        task, below = everyone[job.task], job.task >= len(tasks)
        urgency = job.release_ns + task.deadline_ns if policy == "edf" and not below else 0
        job.key = (int(below), urgency, rank[task.name], job.release_ns, order)
    return _Processor(everyone, len(tasks), coming).run()


class _Processor:
    def __init__(self, tasks: Sequence[Task], above: int, coming: list[_Job]) -> None:
        self.tasks, self.above, self.coming = tasks, above, coming
        self.ready: list[tuple[tuple[int, ...], _Job]] = []
        self.result = Outcome({t.name: 0 for t in tasks}, {t.name: 0 for t in tasks})
        self.started_below: _Job | None = None  # runs before others of its kind

    def run(self) -> Outcome:
        now, at = 0, 0
        while at < len(self.coming) or self.ready:
            if not self.ready:
                now = max(now, self.coming[at].ready_ns)
            while at < len(self.coming) and self.coming[at].ready_ns <= now:
                heapq.heappush(self.ready, (self.coming[at].key, self.coming[at]))
                at += 1
            job = self._choose()
            until = self.coming[at].ready_ns if at < len(self.coming) else None
            now = self._run(job, now, until)
        return self.result

    def _choose(self) -> _Job:
        _, job = heapq.heappop(self.ready)
        if job.task >= self.above:
            if self.started_below is not None and self.started_below is not job:
                begun = self.started_below
                heapq.heappush(self.ready, (job.key, job))
                self.ready = [(key, other) for key, other in self.ready if other is not begun]
                heapq.heapify(self.ready)
                return begun
            self.started_below = job
        return job

    def _run(self, job: _Job, now: int, next_ready: int | None) -> int:
        """Runs it until it ends or something arrives, and at least for its locked stretch."""
        locked = job.locked_ns if job.task < self.above else 0
        span = job.left_ns if next_ready is None else min(job.left_ns, next_ready - now)
        span = max(span, min(locked, job.left_ns))
        job.left_ns -= span
        job.locked_ns = max(0, job.locked_ns - span)
        now += span
        if job.left_ns:
            heapq.heappush(self.ready, (job.key, job))
            return now
        if job is self.started_below:
            self.started_below = None
        task = self.tasks[job.task]
        response = now - job.release_ns
        self.result.jobs += 1
        self.result.worst_ns[task.name] = max(self.result.worst_ns[task.name], response)
        self.result.misses[task.name] += response > task.deadline_ns
        return now
