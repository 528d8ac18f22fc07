"""csrc/rt_dispatch.c and rt_external.c in virtual time, tick by tick: what `admission` is tested
against. One core. Unlike `simulate`, which is the textbooks' scheduler, this one has the program's
own rules: jobs that wait keep their thread; a job whose deadline has passed is not started; of a
Python task one job at a time is handed out; the dispatcher wakes late, takes time for itself, and
gets from SCHED_DEADLINE what the kernel likes to give.

What nature may choose comes from one random generator: a seed replays a run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from shmcast.realtime.admission import NO_OVERHEAD, Overhead, Supply
from shmcast.realtime.simulate import Outcome
from shmcast.realtime.table import Table
from shmcast.realtime.tasks import Task, by_priority


@dataclass(slots=True)
class _Job:
    task: int  # -1: the dispatcher's own time
    release_ns: int
    left_ns: int
    wait_ns: int = 0
    wait_at_ns: int = 0  # it waits when so much is left


@dataclass(slots=True)
class Nature:
    """Everything within what tasks, supply and overhead allow. `greedy`: always the most."""

    seed: int
    greedy: bool = False
    supply: Supply | None = None
    overhead: Overhead = NO_OVERHEAD
    _random: random.Random = field(init=False)
    _from: int = 0  # the kernel's periods begin here
    _place: int = 0  # of the runtime in this period
    _period: int = -1

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        if self.supply:
            self._from = -self._random.randrange(self.supply.period_ns)

    def up_to(self, most: int, least: int = 0) -> int:
        return most if self.greedy else self._random.randint(least, most)

    def job(self, task: int, of: Task, release_ns: int) -> _Job:
        work = self.up_to(of.work_ns, 1)
        return _Job(
            task, release_ns, work, self.up_to(of.blocking_ns), self._random.randint(1, work)
        )

    def supplies(self, now: int) -> bool:
        if self.supply is None:
            return True
        runtime, period = self.supply
        number, inside = divmod(now - self._from, period)
        if number != self._period:
            self._period, most = number, period - runtime
            early_or_late = most * self._random.randint(0, 1)
            self._place = early_or_late if self.greedy else self._random.randint(0, most)
        return self._place <= inside < self._place + runtime

    def waited(self, now: int) -> None:
        """The kernel gives a thread that comes back a new place in its line."""
        self._from, self._period = now, -1


class Dispatcher:
    def __init__(
        self,
        tasks: Sequence[Task],
        background: Sequence[Task],
        policy: str,
        table: Table | None,
        nature: Nature,
    ) -> None:
        self.tasks, self.background, self.nature = tasks, background, nature
        self.policy, self.table = policy, table
        order = [*by_priority(tasks), *by_priority(background)]
        self.rank = {task.name: i for i, task in enumerate(order)}
        names = [task.name for task in order]
        self.result = Outcome(dict.fromkeys(names, 0), dict.fromkeys(names, 0))
        self.skipped = dict.fromkeys(names, 0)
        self.next = [t.offset_ns for t in tasks]
        self.ready = [t.offset_ns + nature.up_to(t.jitter_ns) for t in tasks]
        self.next_below = [t.offset_ns for t in background]
        self.posted: list[_Job | None] = [None] * len(background)
        self.entry, self.base = 0, 0
        self.job: _Job | None = None
        self.below: _Job | None = None
        self.wakes_at = 0

    def run(self, horizon_ns: int) -> Dispatcher:
        for now in range(horizon_ns):
            supplied = self.nature.supplies(now)
            while self.job is None and supplied and now >= self.wakes_at:
                if not self._look(now):
                    break
            if not self._advance_dispatcher(now, supplied):
                self._advance_below(now)
            else:
                self._wait_below(now)
        return self

    # The dispatcher: rt_dispatch.c.

    def _look(self, now: int) -> bool:
        """post_externals, then choose; false when there is nothing to do but sleep."""
        posts = self._post(now)
        own_ns = posts * self.nature.overhead.turn_ns
        if self.policy == "table":
            self._choose_entry(now)
        else:
            self._choose(now)
        if self.job is not None:
            self.job.left_ns += own_ns + self.nature.overhead.turn_ns
        elif own_ns:
            self.job = _Job(-1, now, own_ns)
        else:
            soonest = self._next_event(now)
            late = self.nature.up_to(self.nature.overhead.wake_ns) if soonest > now else 0
            self.wakes_at = soonest + late
        return self.job is None and self.wakes_at <= now

    def _post(self, now: int) -> int:
        posts = 0
        for i, task in enumerate(self.background):
            while self.next_below[i] <= now:
                if self.posted[i] is None:
                    self.posted[i] = self.nature.job(i, task, self.next_below[i])
                else:
                    self.skipped[task.name] += 1
                self.next_below[i] += task.period_ns
                posts += 1
        return posts

    def _advance_release(self, i: int) -> None:
        self.next[i] += self.tasks[i].period_ns
        self.ready[i] = self.next[i] + self.nature.up_to(self.tasks[i].jitter_ns)

    def _choose(self, now: int) -> None:
        best: tuple[int, int] | None = None
        for i, task in enumerate(self.tasks):
            while self.next[i] + task.deadline_ns <= now:
                self.skipped[task.name] += 1
                self._advance_release(i)
            due = self.next[i] + task.deadline_ns
            key = due if self.policy == "edf" else self.rank[task.name]
            if self.ready[i] <= now and (best is None or (key, i) < best):
                best = key, i
        if best is not None:
            i = best[1]
            self.job = self.nature.job(i, self.tasks[i], self.next[i])
            self._advance_release(i)

    def _choose_entry(self, now: int) -> None:
        if self.table is None:
            return
        entry = self.table.entries[self.entry]
        if now < self.base + entry.start_ns:
            return
        task = self.tasks[entry.task]
        release = self.base + task.offset_ns % task.period_ns + entry.job * task.period_ns
        if now + task.occupied_ns > self.base + entry.end_ns:
            self.skipped[task.name] += 1
        else:
            self.job = self.nature.job(entry.task, task, release)
        self.entry += 1
        if self.entry == len(self.table.entries):
            self.entry, self.base = 0, self.base + self.table.cycle_ns

    def _next_event(self, now: int) -> int:
        if self.table is not None:
            own = [self.base + self.table.entries[self.entry].start_ns]
        else:
            own = [
                at if at > now else ready for at, ready in zip(self.next, self.ready, strict=True)
            ]
        return min([*own, *self.next_below])

    def _advance_dispatcher(self, now: int, supplied: bool) -> bool:
        """True if it used this tick of the core."""
        job = self.job
        if job is None:
            return False
        if job.wait_ns and job.left_ns <= job.wait_at_ns:
            job.wait_ns -= 1
            if not job.wait_ns:
                self.nature.waited(now + 1)
            return False
        if not supplied:
            return False
        job.left_ns -= 1
        if not job.left_ns:
            self.job, self.wakes_at = None, now + 1
            if job.task >= 0:
                self._ended(self.tasks[job.task], job, now + 1)
        return True

    def _ended(self, task: Task, job: _Job, now: int) -> None:
        response = now - job.release_ns
        self.result.jobs += 1
        self.result.worst_ns[task.name] = max(self.result.worst_ns[task.name], response)
        self.result.misses[task.name] += response > task.deadline_ns

    # Python's thread: rt_external.c.

    def _wait_below(self, now: int) -> None:
        job = self.below
        if job is not None and job.wait_ns and job.left_ns <= job.wait_at_ns:
            job.wait_ns -= 1

    def _advance_below(self, now: int) -> None:
        if self.below is None:
            waiting = [job for job in self.posted if job is not None]
            if not waiting:
                return
            self.below = min(waiting, key=lambda job: self.rank[self.background[job.task].name])
        job = self.below
        if job.wait_ns and job.left_ns <= job.wait_at_ns:
            self._wait_below(now)
            return
        job.left_ns -= 1
        if not job.left_ns:
            self.below, self.posted[job.task] = None, None
            self._ended(self.background[job.task], job, now + 1)
