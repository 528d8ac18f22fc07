"""Schedules that really run. Nothing here asserts how fast: only what was counted, and that a
schedule says what it did."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import shmcast
from helpers import Child, wait_until
from shmcast._native import ffi
from shmcast.errors import DeadlineMissed
from shmcast.realtime import board
from shmcast.realtime.admission import NotAdmitted
from shmcast.realtime.scheduler import Job, JobAborted, Native, Platform, Scheduler, burn
from shmcast.realtime.tasks import Task

MS = 1_000_000
POLICY = {"other": os.SCHED_OTHER, "fifo": os.SCHED_FIFO, "deadline": 6}  # of the kernel
EASY = Platform(kernel="other", lock_memory=False)


@pytest.fixture(autouse=True)
def no_board_left() -> Iterator[None]:
    yield
    gc.collect()
    left = [path.name for path in board.boards() if f".{os.getpid()}." in path.name]
    assert left == []


def task(name: str, period: int = 5, work: int = 1, **options: int) -> Task:
    return Task(name=name, period_ns=period * MS, work_ns=work * MS, **options)


def finished(schedule: Scheduler, name: str) -> int:
    return next(t.finished for t in schedule.figures().tasks if t.name == name)


def released(schedule: Scheduler) -> int:
    """Also those that came too late to be started: a busy machine, not a busy interpreter."""
    return schedule.figures().tasks[0].released


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
@pytest.mark.parametrize("kernel", ["auto", "deadline", "other"])
def test_tasks_of_both_kinds_are_released_and_counted(policy: str, kernel: str) -> None:
    called: list[Job] = []
    with Scheduler("both", policy=policy, platform=Platform(kernel=kernel)) as schedule:
        schedule.add(task("native"), burn(1000))
        schedule.add(task("python", 20, 4), called.append)
        status = schedule.start()
        wait_until(lambda: finished(schedule, "native") >= 5 and len(called) >= 3, "some jobs")

        def at_rest() -> board.Figures | None:
            """Read while no job was being counted."""
            found = schedule.figures()
            t = next(t for t in found.tasks if t.name == "native")
            whole = t.released == t.finished + t.skipped and t.histogram.total == t.finished
            return found if whole else None

        figures = wait_until(at_rest, "a moment in which all that was released is accounted for")
        threads = {os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")}
    assert status.soft and figures.soft  # one of them is a Python callback
    assert POLICY[status.kernel_class] in threads  # the kernel says the same
    assert figures.policy == policy
    assert figures.kernel_class == status.kernel_class
    native = next(t for t in figures.tasks if t.name == "native")
    assert native.finished >= 5
    assert called[0].task == "python"
    assert called[0].deadline_ns - called[0].release_ns == 20 * MS


def test_an_impossible_set_is_refused_before_anything_starts() -> None:
    schedule = Scheduler("heavy", policy="fixed", platform=EASY)
    schedule.add(task("fast", 5, 1, deadline_ns=2 * MS), burn(1))
    schedule.add(task("slow", 50, 20), burn(1))
    with pytest.raises(NotAdmitted, match=r"fast: responds after .* it fits"):
        schedule.start()


def test_an_overrun_is_counted_and_traced_with_a_cause() -> None:
    with Scheduler("over", platform=EASY) as schedule:
        schedule.add(task("a", 20, 1), burn(4 * MS))
        schedule.start()
        seen = wait_until(
            lambda: [e for e in schedule.drain() if e.kind == "overrun"], "an overrun"
        )
        assert seen[0].task == "a"
        assert seen[0].value >= 3 * MS
        assert seen[0].causes
        assert schedule.figures().tasks[0].overruns >= 1


def test_skip_drops_releases_that_were_missed() -> None:
    began = time.monotonic_ns()
    with Scheduler("skip", platform=EASY) as schedule:
        schedule.add(task("a", 4, 1), burn(21 * MS, stubborn=True))
        schedule.start()
        figures = wait_until(
            lambda: next((t for t in schedule.figures().tasks if t.finished >= 3), None),
            "a third job",
        )
        since = [event.value for event in schedule.drain() if event.kind == "skipped"]
        assert all(4 * MS <= ns <= time.monotonic_ns() - began for ns in since)
    assert len(since) >= 4
    # A job has finished before its miss and its causes are counted: the third may lack them.
    assert figures.misses >= 2
    assert figures.skipped >= 4
    assert (
        figures.unmet == figures.misses + figures.skipped
    )  # a job that never began is not in time
    assert sum(figures.causes.values()) >= 2


def test_abort_ends_a_native_job_at_its_budget() -> None:
    with Scheduler("abort", platform=EASY) as schedule:
        schedule.add(task("a", 50, 2), burn(10_000 * MS), overrun="abort")
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].aborted >= 2, "two aborted jobs")


def test_abort_ends_a_python_callback_that_uses_up_its_budget() -> None:
    ended = threading.Event()

    def endless(_: Job) -> None:
        try:
            while True:
                pass
        except JobAborted:
            ended.set()
            raise

    with Scheduler("endless", platform=EASY) as schedule:
        schedule.add(task("py", 100, 5), endless, overrun="abort")
        schedule.add(task("native", 5, 1), burn(1000))
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].aborted >= 2, "two aborted callbacks")
    assert ended.is_set()


def test_degrade_releases_a_late_task_less_often_and_recovers() -> None:
    slow = True

    def work(_: Job) -> None:
        end = threading.Event()
        if slow:
            end.wait(0.04)

    with Scheduler("degrade", platform=EASY) as schedule:
        schedule.add(task("py", 24, 12), work, overrun="degrade")
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].stretch >= 4, "less often")
        slow = False
        wait_until(lambda: schedule.figures().tasks[0].stretch == 1, "as often as before")
        assert any(e.kind == "degraded" for e in schedule.drain())


def test_degrade_waits_for_the_end_of_a_callback_before_it_judges() -> None:
    """Each release that found the callback still at work halved the distance again: one that takes
    ten periods never had time."""
    pace_s, hangs, go_on = 0.04, False, threading.Event()

    def work(_: Job) -> None:
        if hangs:
            go_on.wait(30)
        elif pace_s:
            threading.Event().wait(pace_s)

    with Scheduler("patience", platform=EASY) as schedule:
        schedule.add(task("py", 4, 2), work, overrun="degrade")
        schedule.start()

        def now() -> board.TaskFigures:
            return schedule.figures().tasks[0]

        wait_until(lambda: now().stretch >= 8, "less often, although it takes ten periods")
        hangs = True
        before = wait_until(lambda: (f := now()).running_since_ns and f, "a callback at work")
        wait_until(lambda: now().skipped >= before.skipped + 3, "three releases meanwhile")
        assert now().stretch >= 8
        hangs, pace_s = False, 0.0
        go_on.set()
        wait_until(lambda: now().stretch == 1, "as often as before")


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_degrade_works_for_native_tasks_under_every_policy(policy: str) -> None:
    work = burn(15 * MS)
    with Scheduler("native", policy=policy, platform=EASY) as schedule:
        schedule.add(task("a", 20, 5), work, overrun="degrade")
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].stretch >= 4, "less often")
        work.context[0] = 1000  # ns
        wait_until(lambda: schedule.figures().tasks[0].stretch == 1, "as often as before")


@pytest.mark.parametrize("policy", ["table", "fixed", "edf"])
def test_what_degrading_leaves_out_is_not_a_missed_deadline(policy: str) -> None:
    """A table counted it as skipped, so that degrading on purpose raised DeadlineMissed."""
    with Scheduler("lighter", policy=policy, platform=EASY) as schedule:
        late = task("a", 40, 5, deadline_ns=4000 * MS)  # by its budget, on any machine
        schedule.add(late, burn(8 * MS), overrun="degrade", on_miss="raise")
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].stretch >= 8, "less often")
        assert "skipped" not in {event.kind for event in schedule.check()}


def test_a_degraded_task_of_a_table_is_released_less_often_job_by_job() -> None:
    """Whole cycles were left out, and in the others it came as often as ever."""
    period = 10 * MS
    deadlines: list[int] = []

    @ffi.callback("int(void *, uint64_t)")
    def overrun(_: object, deadline: int) -> int:
        deadlines.append(deadline)
        end = time.monotonic_ns() + 2 * MS
        while time.monotonic_ns() < end:
            pass
        return 0

    with Scheduler("jobs", policy="table", platform=EASY) as schedule:
        schedule.add(task("a", 10, 1), Native(overrun, ffi.NULL), overrun="degrade")
        schedule.add(task("b", 40, 1), burn(1000))
        schedule.start()
        wait_until(lambda: len(deadlines) >= 4, "four jobs")
    periods = [(b - a) / period for a, b in pairwise(deadlines)]
    # A busy machine may skip one on top of that.
    assert [p % stretch for p, stretch in zip(periods, (2, 4, 8), strict=False)] == [0, 0, 0]


TIGHT_SETS = {
    "one without slack": [task("a", 10, 5, deadline_ns=5 * MS)],
    "one that fills its period": [task("a", 10, 10)],
    "two that fill the cycle": [task("a", 10, 5), task("b", 10, 5)],
    "the last of three": [task("a", 20, 5), task("b", 20, 5), task("c", 20, 10)],
}


@pytest.mark.parametrize("tasks", TIGHT_SETS.values(), ids=TIGHT_SETS.keys())
def test_every_task_of_an_admitted_table_runs(tasks: list[Task]) -> None:
    """Waking a few microseconds late took the last or tightest one's place away, every time."""
    with Scheduler("tight", policy="table", platform=Platform(lock_memory=False)) as schedule:
        for one in tasks:
            schedule.add(one, burn(1000))
        schedule.start()
        wait_until(lambda: all(t.finished for t in schedule.figures().tasks), "a job of each")


def test_a_late_entry_of_a_table_does_not_take_a_later_ones_place() -> None:
    """`long` would still end in time after an overrun, but only at the cost of `tight`."""
    with Scheduler("places", policy="table", platform=Platform(lock_memory=False)) as schedule:
        schedule.add(task("first", 40, 1, deadline_ns=10 * MS), burn(9 * MS, stubborn=True))
        schedule.add(task("long", 40, 10, deadline_ns=30 * MS), burn(1000))
        schedule.add(task("tight", 40, 2, deadline_ns=2 * MS, offset_ns=12 * MS), burn(1000))
        schedule.start()

        def seen() -> bool:
            _, long, tight = schedule.figures().tasks
            return long.skipped > 0 and tight.finished > 0

        wait_until(seen, "one to be skipped, the other to run")


def test_a_python_callback_that_hangs_does_not_delay_native_tasks() -> None:
    go_on = threading.Event()
    with Scheduler("hang", platform=EASY) as schedule:
        schedule.add(task("py", 20, 4), lambda _: go_on.wait(30))
        schedule.add(task("native", 5, 1), burn(1000))
        schedule.start()
        before = wait_until(lambda: finished(schedule, "native"), "a first native job")
        wait_until(lambda: finished(schedule, "native") > before + 10, "more native jobs")
        kinds: set[str] = set()

        def noticed() -> bool:
            kinds.update(e.kind for e in schedule.drain() if e.task == "py")
            return {"stuck", "skipped"} <= kinds

        wait_until(noticed, "the watchdog to notice, and a release to be skipped")
        assert schedule.figures().stuck >= 1
        go_on.set()


ONE_CORE = """
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
MS = 1_000_000
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
platform = Platform(kernel="auto", priority=args[0], lock_memory=False)
with Scheduler("core", platform=platform) as schedule:
    work = burn(150 * MS, stubborn=True)
    schedule.add(Task(name="a", period_ns=400 * MS, work_ns=5 * MS, deadline_ns=20 * MS), work)
    status = schedule.start()
    while not schedule.figures().tasks[0].misses: time.sleep(0.001)
    say([status.kernel_class, status.reasons, schedule.figures().stuck])
"""


def test_the_watchdog_is_not_starved_by_what_it_watches(start: Callable[..., Child]) -> None:
    """On one core a job of a real-time thread kept it waiting until there was nothing to see."""
    _, _, stuck = start(ONE_CORE, 50).heard()
    assert stuck >= 1


def test_a_watchdog_that_cannot_be_above_its_jobs_is_reported(start: Callable[..., Child]) -> None:
    kernel_class, reasons, _ = start(ONE_CORE, 99).heard()
    told = any(reason.startswith("a watchdog above its jobs") for reason in reasons)
    assert told == (kernel_class == "fifo")


def test_native_tasks_go_on_while_the_interpreter_is_held() -> None:
    """A long call that keeps the GIL: sorting with a key would let go, one big sum does not."""
    with Scheduler("gil", platform=EASY) as schedule:
        schedule.add(task("native", 2, 1), burn(1000))
        schedule.start()
        wait_until(lambda: finished(schedule, "native"), "a first native job")
        before = released(schedule)
        assert sum(range(20_000_000)) > 0  # one bytecode loop in C
        assert released(schedule) > before


def test_an_exception_in_a_callback_is_kept_and_the_schedule_goes_on() -> None:
    with Scheduler("raise", platform=EASY) as schedule:
        schedule.add(task("py", 10, 2), lambda _: 1 // 0)
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].failed >= 2, "two failures")
        assert isinstance(schedule.errors[0], ZeroDivisionError)


def test_a_miss_is_raised_by_policy_when_the_block_ends() -> None:
    def run() -> None:
        with Scheduler("policy", platform=EASY) as schedule:
            schedule.add(task("a", 10, 1), burn(15 * MS, stubborn=True), on_miss="raise")
            schedule.start()
            wait_until(lambda: schedule.figures().tasks[0].misses, "a miss")

    with pytest.raises(DeadlineMissed, match="policy: a "):
        run()


def test_a_miss_that_is_only_counted_is_not_raised() -> None:
    with Scheduler("count", platform=EASY) as schedule:
        schedule.add(task("a", 10, 1), burn(15 * MS, stubborn=True))
        schedule.start()
        wait_until(lambda: schedule.figures().tasks[0].misses, "a miss")


SCHEDULE = """
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
schedule = Scheduler("child", platform=Platform(kernel="other", lock_memory=False))
schedule.add(Task(name="a", period_ns=5_000_000, work_ns=1_000_000), burn(1000))
schedule.start()
say(os.getpid())
hear()
schedule.close()
say("closed")
"""


def test_another_process_can_watch(start: Callable[..., Child]) -> None:
    child = start(SCHEDULE)
    path = board.path_of(child.heard(), "child")
    wait_until(lambda: board.read(path).tasks[0].finished >= 3, "jobs seen from outside")
    assert not board.is_orphan(path)
    child.tell()
    assert child.heard() == "closed"
    assert not path.exists()


def test_the_board_of_a_killed_process_is_found_and_removed(start: Callable[..., Child]) -> None:
    child = start(SCHEDULE)
    path = board.path_of(child.heard(), "child")
    os.kill(child.pid, signal.SIGKILL)
    child.ended()
    assert path in board.orphans()
    assert path.name in board.remove_orphans()
    assert not path.exists()
    assert path.name not in board.remove_orphans()


def test_a_file_that_is_no_board_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "x"
    wrong.write_bytes(b"\0" * 4096)
    with pytest.raises(ValueError, match="not a schedule"):
        board.read(wrong)
    wrong.write_bytes(b"\0" * 10)
    with pytest.raises(ValueError, match="too short"):
        board.read(wrong)


def test_a_truncated_board_does_not_kill_its_schedule() -> None:
    with Scheduler("cut", platform=EASY) as schedule:
        schedule.add(task("a", 2, 1), burn(1000))
        schedule.start()
        path = board.path_of(os.getpid(), "cut")
        os.truncate(path, 0)
        before = schedule.heartbeat_ns
        wait_until(lambda: schedule.heartbeat_ns > before, "a turn after the cut")
    assert not path.exists()


def test_a_forked_child_leaves_the_parents_schedule_alone() -> None:
    with Scheduler("fork", platform=EASY) as schedule:
        schedule.add(task("a", 2, 1), burn(1000))
        schedule.start()
        pid = os.fork()
        if pid == 0:
            schedule.close()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        before = finished(schedule, "a")
        wait_until(lambda: finished(schedule, "a") > before, "jobs after the fork")


@pytest.mark.parametrize("wrong", ["a/b", "", "x" * 80])
def test_a_name_that_cannot_be_a_file_is_refused(wrong: str) -> None:
    schedule = Scheduler(wrong, platform=EASY)
    schedule.add(task("a"), burn(1))
    with pytest.raises(ValueError, match="out of range"):
        schedule.start()


def test_gc_and_doctor_find_what_a_dead_schedule_left(start: Callable[..., Child]) -> None:
    from typer.testing import CliRunner

    from shmcast.cli.main import app

    child = start(SCHEDULE)
    path = board.path_of(child.heard(), "child")
    child.kill()
    child.ended()
    found = CliRunner().invoke(app, ["doctor", "--json"])
    assert path.name in {finding["subject"] for finding in json.loads(found.stdout)}
    CliRunner().invoke(app, ["gc", "--json", "--no-replace"])
    assert not path.exists()


def test_mailbox_operations_run_as_tasks(name: str, protocol: str) -> None:
    from helpers import bounds
    from shmcast.mailbox.scheduled import Inbox, Outbox, decisions

    with shmcast.Mailbox.create(
        name, protocol=protocol, copies=2, bounds=bounds(protocol, 2), message_size=64
    ) as box:
        tx, rx = box.sender(), box.receiver()
        outbox, inbox = Outbox(tx, box), Inbox(rx, box, slots=16)
        with Scheduler("mail", policy="fixed", platform=EASY) as schedule:
            schedule.add(task("send", 10, 2), outbox.native)
            schedule.add(task("receive", 5, 1), inbox.native)
            if protocol == "timing":
                schedule.add(task("decide", 2, 1, deadline_ns=4 * MS), decisions(rx, box))
            outbox.put(b"first")
            schedule.start()
            assert wait_until(inbox.take, "a message").data == b"first"
            outbox.put(b"second")
            wait_until(lambda: (m := inbox.take()) and m.data == b"second", "the latest value")
            assert outbox.sent >= 2
        with pytest.raises(ValueError, match="larger"):
            outbox.put(b"x" * 65)
