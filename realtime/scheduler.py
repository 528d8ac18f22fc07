"""Tasks with deadlines: admitted before they start, released and watched by threads in C.

    with Scheduler("plant", policy="edf") as schedule:
        schedule.add(Task(name="sample", period_ns=10 * MS, work_ns=MS), outbox.native)
        schedule.add(Task(name="log", period_ns=100 * MS, work_ns=20 * MS), write_log)
        status = schedule.start()          # NotAdmitted names the task and the smallest change

Native tasks run in the dispatcher's thread (csrc/rt_dispatch.c), which Python cannot delay. Python
callbacks run below it in one thread, in the order of their priority. Where the kernel refuses
anything that deadlines rest on, or a task is a Python callback, the status says soft, and why: then
the admission is a statement about budgets, not about the machine.
"""

from __future__ import annotations

import ctypes
import enum
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from shmcast._native import ffi, lib
from shmcast.errors import DeadlineMissed, NotPermitted, error_from
from shmcast.realtime.admission import (
    NO_OVERHEAD,
    Admission,
    NotAdmitted,
    Overhead,
    Policy,
    Supply,
    Throttle,
    admit,
)
from shmcast.realtime.board import CAUSES, Figures, path_of, read
from shmcast.realtime.tasks import Task, by_priority

_FOREVER = (1 << 64) - 1
_START_IN_NS = 2_000_000
_POLICIES = {Policy.TABLE: 1, Policy.FIXED: 2, Policy.EDF: 3}
_PYTHON_IS_SOFT = "Python tasks run in an ordinary thread: their deadlines are soft"
_NOT_COUNTED = (
    "how late the dispatcher wakes, and its own work, are not in the admission: give "
    "overhead=load_stored().overhead(…) of shmcast.realtime.calibrate"
)
_TO_BE_HARD = "see `shmcast doctor`, give Python tasks another schedule, or allow it: soft_ok=True"
_KINDS = ("", "miss", "overrun", "skipped", "aborted", "degraded", "failed", "stuck")


class Overrun(enum.StrEnum):
    """What happens to a task that took longer than its budget, or ended after its deadline."""

    SKIP = "skip"  # releases that were missed are dropped
    ABORT = "abort"  # its operation ends at the budget; a Python callback gets JobAborted
    DEGRADE = "degrade"  # it is released half as often, until it is in time again


class OnMiss(enum.StrEnum):
    """What a deadline that was missed does besides."""

    COUNT = "count"  # counted and traced
    RAISE = "raise"  # Scheduler.check() raises DeadlineMissed, and so does leaving the block


class KernelClass(enum.StrEnum):
    """The kernel's scheduling class of the dispatcher's thread."""

    AUTO = "auto"  # SCHED_FIFO where permitted
    FIFO = "fifo"
    DEADLINE = "deadline"
    OTHER = "other"


class JobAborted(BaseException):
    """Raised inside a Python callback that used up its budget. Not an Exception: callbacks that
    catch everything must not swallow it."""


class Native(NamedTuple):
    """Work in C: ``int (*)(void *context, uint64_t deadline)``. `keep` lives as long as it. `begin`
    is called before a schedule with it starts, `end` when no job of it can run any more."""

    function: Any
    context: Any
    keep: object = None
    begin: Callable[[], None] | None = None
    end: Callable[[], None] | None = None
    longest_period_ns: int = 0  # 0: any


class Job(NamedTuple):
    """What a Python callback is told: which task, when it was released, and its deadline."""

    task: str
    release_ns: int
    deadline_ns: int


class Event(NamedTuple):
    """Something that should not have happened to a task, with its probable causes.

    | kind | value |
    | --- | --- |
    | `miss`, `overrun` | ns beyond its deadline, or its budget |
    | `skipped` | ns since its release, when it was decided not to start it |
    | `aborted`, `stuck` | ns that it ran; `stuck` still runs, beyond its deadline |
    | `degraded` | periods between two releases from now on |
    | `failed` | the error, negative |
    """

    time_ns: int
    task: str
    kind: str
    value: int
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Platform:
    """What to ask of the kernel: scheduling class, priority, a core to itself, locked memory.

    The watchdog gets the next higher priority, so choose one below 99. Nothing is above
    SCHED_DEADLINE: there it looks in the time that the schedule's supply leaves.

    Locked memory is the whole process's, until the last schedule that asked for it ends. If the
    application had locked memory before the first of them began, all stays locked then; what it
    locks in between is unlocked with the rest, so it should lock first, or ask for none here.
    """

    kernel: KernelClass | str = KernelClass.AUTO
    priority: int = 50
    cpu: int | None = None
    lock_memory: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """What the kernel gave."""

    kernel_class: str
    soft: bool  # not every deadline is guaranteed
    reasons: tuple[str, ...]  # why: each one alone would be enough
    admission: Admission


@dataclass(slots=True)
class _Entry:
    task: Task
    work: Native | Callable[[Job], object]
    overrun: Overrun
    on_miss: OnMiss


def burn(work_ns: int, *, stubborn: bool = False) -> Native:
    """Computes for so long, beyond its deadline if `stubborn`: to try out a schedule."""
    context = ffi.new("uint64_t[2]", (work_ns, stubborn))
    return Native(ffi.addressof(lib, "sc_rt_burn"), context, context)


def _check_period(task: Task, longest_ns: int, overrun: Overrun) -> None:
    if task.period_ns > longest_ns:
        raise ValueError(
            f"{task.name}: every {task.period_ns} ns is too seldom for this work: use at most "
            f"{longest_ns}"
        )
    if overrun is Overrun.DEGRADE:
        raise ValueError(f"{task.name}: this work must not come less often: use skip or abort")


def platform_for_core(platform: Platform) -> Any:
    p = ffi.new("struct sc_rt_platform *")
    wish = KernelClass(platform.kernel)
    p.wanted_class = {KernelClass.OTHER: 0, KernelClass.DEADLINE: 2}.get(wish, 1)
    p.priority = platform.priority
    p.cpu = -1 if platform.cpu is None else platform.cpu
    p.lock_memory = platform.lock_memory
    return p


def refused(platform: Platform, p: Any) -> list[str]:
    """Wishes that the kernel did not grant, and those that were not even made."""
    wish = KernelClass(platform.kernel)
    name = "FIFO" if wish is KernelClass.AUTO else wish.value.upper()
    wishes = (
        (f"SCHED_{name}", p.class_error),
        (f"a core of its own ({platform.cpu})", p.affinity_error),
        ("locked memory", p.lock_error),
        ("exact timers", p.slack_error),
        ("a watchdog above its jobs (priority 98 at most)", p.watch_error),
    )
    found = [f"{what}: {os.strerror(-error)}" for what, error in wishes if error]
    if wish is KernelClass.OTHER:
        found.append("no real-time class was asked for")
    if not platform.lock_memory:
        found.append("no locked memory was asked for: a page may have to come from a disk")
    return found


@dataclass(slots=True)
class _Python:
    """The thread that runs callbacks, and the one that ends those that use up their budget."""

    handle: Any
    entries: list[_Entry]
    errors: deque[Exception] = field(default_factory=lambda: deque(maxlen=16))
    _job: Any = None
    _running: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, name: str) -> None:
        self._job = ffi.new("struct sc_rt_job *")
        for work, role in ((self._work, "tasks"), (self._end_overdue, "ends")):
            thread = threading.Thread(target=work, name=f"shmcast-{role}-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while True:
            try:
                if not self._one():
                    return
            except JobAborted:  # came when its job had just ended, or not yet begun
                with self._lock:
                    self._running = False
                lib.sc_rt_done(self.handle, self._job, lib.SC_LATE)

    def _one(self) -> bool:
        if lib.sc_rt_take(self.handle, _FOREVER, self._job):
            return False
        entry = self.entries[self._job.task]
        with self._lock:
            self._running = True
        result = self._call(entry)
        with self._lock:
            self._running = False
            ident = ctypes.c_ulong(threading.get_ident())
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, None)  # none that is on its way
        lib.sc_rt_done(self.handle, self._job, result)
        return True

    def _call(self, entry: _Entry) -> int:
        assert not isinstance(entry.work, Native)
        try:
            entry.work(Job(entry.task.name, self._job.release_ns, self._job.deadline_ns))
        except JobAborted:
            return int(lib.SC_LATE)
        except Exception as error:
            self.errors.append(error)
            return int(lib.SC_INVALID)
        return 0

    def _end_overdue(self) -> None:
        job = ffi.new("struct sc_rt_job *")
        while lib.sc_rt_overdue(self.handle, _FOREVER, job) == 0:
            with self._lock:
                same = self._job.task == job.task and self._job.release_ns == job.release_ns
                if self._running and same:
                    ident = ctypes.c_ulong(self._threads[0].ident or 0)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(JobAborted))


class Scheduler:
    """One schedule of periodic tasks on one core, a block: ``with Scheduler("plant") as tasks: …``.

    Add tasks, then `start` it; it is refused if they cannot all meet their deadlines. Work in C
    (`Native`) runs in the dispatcher's thread, Python callbacks run below it. Its figures are in
    shared memory, for any process to read. `overhead` is what the dispatcher takes for itself on
    this machine, as calibration measured it; without it nothing is certain, so all is soft.
    """

    def __init__(
        self,
        name: str,
        *,
        policy: Policy | str = Policy.EDF,
        platform: Platform | None = None,
        soft_ok: bool = True,
        overhead: Overhead | None = None,
    ) -> None:
        self.name = name
        self.policy = Policy(policy)
        self.platform = platform or Platform()
        self.overhead = overhead
        self._soft_ok = soft_ok
        self._entries: list[_Entry] = []
        self._handle: Any = None
        self._python: _Python | None = None
        self._lost = 0
        self._unraised = ""
        self._owner_pid = os.getpid()
        self._at_exit: Any = None
        self._ended = False

    def add(
        self,
        task: Task,
        work: Native | Callable[[Job], object],
        *,
        overrun: Overrun | str = Overrun.SKIP,
        on_miss: OnMiss | str = OnMiss.COUNT,
    ) -> None:
        """Before the start: a task, and its work in C or in Python."""
        if self._handle is not None:
            raise ValueError(f"{self.name}: tasks are added before the start")
        if isinstance(work, Native) and work.longest_period_ns:
            _check_period(task, work.longest_period_ns, Overrun(overrun))
        self._entries.append(_Entry(task, work, Overrun(overrun), OnMiss(on_miss)))

    # Admission.

    def _split(self) -> tuple[list[Task], list[Task]]:
        native = [e.task for e in self._entries if isinstance(e.work, Native)]
        return native, [e.task for e in self._entries if not isinstance(e.work, Native)]

    def _supply(self) -> Supply | None:
        native, _ = self._split()
        if KernelClass(self.platform.kernel) is not KernelClass.DEADLINE or not native:
            return None
        period = max(100_000, min(min(t.period_ns, t.deadline_ns) for t in native) // 4)
        return Supply(period * 9 // 10, period)

    def admission(self) -> Admission:
        """Would it be admitted? With the response times, or the smallest change that would do."""
        native, background = self._split()
        return admit(
            native,
            self.policy,
            background=background,
            supply=self._supply(),
            overhead=self.overhead or NO_OVERHEAD,
        )

    def _doubts(self) -> list[str]:
        """What can be said before the kernel is asked."""
        native, background = self._split()
        overhead = self.overhead or NO_OVERHEAD
        native = [overhead.apply(task, background) for task in native]
        throttle, found = Throttle.of_kernel(), []
        if self.overhead is None:
            found.append(_NOT_COUNTED)
        fifo = KernelClass(self.platform.kernel) in (KernelClass.AUTO, KernelClass.FIFO)
        if fifo and throttle and throttle.may_stop(native):
            found.append(
                f"the kernel leaves SCHED_FIFO {throttle.runtime_ns} ns of "
                f"{throttle.period_ns}, and the tasks may need more (see `shmcast doctor`)"
            )
        return found

    # Life.

    def start(self) -> Status:
        """NotAdmitted names the task that does not fit, and the smallest change. The Status says
        what the kernel gave: if anything is missing that deadlines rest on, or a task is a Python
        callback, the schedule is soft."""
        if self._handle is not None:
            raise ValueError(f"{self.name}: it has been started already")
        admission = self.admission()
        if not admission.admitted:
            raise NotAdmitted(admission)
        self._handle = self._create(admission)
        try:
            status = self._start(admission)
        except BaseException:
            self.close()
            raise
        if not self._soft_ok and status.soft:
            self.close()
            raise NotPermitted(f"{self.name}: " + "; ".join([*status.reasons, _TO_BE_HARD]))
        return status

    def _create(self, admission: Admission) -> Any:
        native, background = self._split()
        ranks = {t.name: i for i, t in enumerate([*by_priority(native), *by_priority(background)])}
        tasks = ffi.new("struct sc_rt_task[]", len(self._entries))
        keep = []
        for c, entry in zip(tasks, self._entries, strict=True):
            t = entry.task
            text = ffi.new("char[]", t.name.encode("ascii"))
            keep.append(text)
            c.name, c.rank = text, ranks[t.name]
            c.period_ns, c.offset_ns = t.period_ns, t.offset_ns
            c.budget_ns, c.deadline_ns = t.occupied_ns, t.deadline_ns  # by the clock
            c.overrun = list(Overrun).index(entry.overrun)
            if isinstance(entry.work, Native):
                c.work, c.context = entry.work.function, entry.work.context
            else:
                c.kind = lib.SC_RT_EXTERNAL
        entries, cycle = self._table(admission)
        out = ffi.new("sc_rt **")
        code = lib.sc_rt_create(
            self.name.encode("ascii"),
            _POLICIES[self.policy],
            tasks,
            len(self._entries),
            cycle,
            entries,
            len(entries),
            out,
        )
        if code:
            raise error_from(code, self.name)
        return out[0]

    def _table(self, admission: Admission) -> tuple[Any, int]:
        if admission.table is None:
            return ffi.new("struct sc_rt_entry[]", 0), 0
        native = [i for i, e in enumerate(self._entries) if isinstance(e.work, Native)]
        entries = ffi.new("struct sc_rt_entry[]", len(admission.table.entries))
        for c, entry in zip(entries, admission.table.entries, strict=True):
            task = self._entries[native[entry.task]].task
            c.task = native[entry.task]
            c.start_ns, c.deadline_ns = entry.start_ns, entry.deadline_ns
            c.release_ns = task.offset_ns % task.period_ns + entry.job * task.period_ns
        return entries, admission.table.cycle_ns

    def _start(self, admission: Admission) -> Status:
        p = platform_for_core(self.platform)
        doubts, supply = self._doubts(), self._supply()
        p.soft = bool(doubts)
        if supply is not None:
            p.runtime_ns, p.period_ns = supply
        if any(not isinstance(e.work, Native) for e in self._entries):
            self._python = _Python(self._handle, self._entries)
            self._python.start(self.name)
        # Such things end in the reverse order of their making: a program that ends without close()
        # stops the schedule first, then frees the senders and receivers that its tasks use.
        self._at_exit = weakref.finalize(self, lib.sc_rt_stop, self._handle)
        for work in self._natives():
            if work.begin is not None:
                work.begin()
        code = lib.sc_rt_start(self._handle, _START_IN_NS, p)
        if code:
            raise error_from(code, self.name)
        return Status(
            ("other", "fifo", "deadline")[p.got_class],
            bool(p.soft),
            (*refused(self.platform, p), *doubts, *[_PYTHON_IS_SOFT] * (self._python is not None)),
            admission,
        )

    # Watching.

    def figures(self) -> Figures:
        """The same that any other process can read."""
        return read(path_of(self._owner_pid, self.name))

    @property
    def heartbeat_ns(self) -> int:
        """When the dispatcher last looked around; 0 when it is not running."""
        return int(lib.sc_rt_heartbeat(self._handle)) if self._handle is not None else 0

    @property
    def errors(self) -> list[Exception]:
        """What Python callbacks raised lately."""
        return list(self._python.errors) if self._python is not None else []

    def drain(self) -> list[Event]:
        """Misses, overruns and the like since the last call; the latest thousand at most."""
        events = ffi.new("struct sc_rt_event[]", lib.SC_RT_TRACE_MAX)
        lost = ffi.new("uint64_t *")
        if self._handle is None:
            return []
        count = lib.sc_rt_drain(self._handle, events, lib.SC_RT_TRACE_MAX, lost)
        self._lost += lost[0]
        found = []
        for i in range(count):
            e = events[i]
            entry = self._entries[e.task]
            causes = tuple(cause for bit, cause in enumerate(CAUSES) if e.causes >> bit & 1)
            event = Event(e.time_ns, entry.task.name, _KINDS[e.kind], e.value, causes)
            if entry.on_miss is OnMiss.RAISE and event.kind in ("miss", "skipped"):
                how = "ended after its deadline" if event.kind == "miss" else "was not even started"
                self._unraised = f"{event.task} {how} ({', '.join(causes) or 'too late'})"
            found.append(event)
        return found

    @property
    def lost_events(self) -> int:
        """Events that were overwritten before they were drained."""
        return self._lost

    def check(self) -> list[Event]:
        """Drains, and raises DeadlineMissed if a task that is to raise missed a deadline."""
        events = self.drain()
        if self._unraised:
            text, self._unraised = self._unraised, ""
            raise DeadlineMissed(f"{self.name}: {text}")
        return events

    def close(self) -> None:
        """Ends its threads and removes its figures. Idempotent."""
        self._stop()
        handle, self._handle = self._handle, None
        if self._at_exit is not None:
            self._at_exit.detach()
        if handle is not None and os.getpid() == self._owner_pid:
            lib.sc_rt_free(handle)

    def _stop(self) -> None:
        """No job runs any more, and all that was to be counted and traced is. Idempotent."""
        if self._handle is None or os.getpid() != self._owner_pid:
            return
        lib.sc_rt_stop(self._handle)
        if self._python is not None:
            self._python.join()
        ended, self._ended = self._ended, True
        for work in () if ended else self._natives():
            if work.end is not None:
                work.end()

    def _natives(self) -> list[Native]:
        return [e.work for e in self._entries if isinstance(e.work, Native)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._handle is not None:
                self._stop()  # or the last job's miss might be traced a moment too late
                self.check()
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()
