"""Why an operation or a job was late, with causes made on purpose; and nobody else's are blamed."""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shmcast
from helpers import Child, wait_until
from shmcast._native import lib
from shmcast.realtime.measure import Driven, drive
from shmcast.realtime.scheduler import Event, Job, Platform, Scheduler, burn
from shmcast.realtime.tasks import Task

MS = 1_000_000
EASY = Platform(kernel="other", lock_memory=False)
Start = Callable[..., Child]


def overruns(schedule: Scheduler, cause: str) -> Event:
    """The first overrun or miss that has this cause."""

    def found() -> Event | None:
        events = [e for e in schedule.drain() if e.kind in ("overrun", "miss")]
        return next((e for e in events if cause in e.causes), None)

    event: Event = wait_until(found, f"an overrun because of: {cause}")
    return event


def late_callback(work: Callable[[Job], object], cause: str) -> Event:
    with Scheduler("why", platform=EASY) as schedule:
        schedule.add(Task(name="py", period_ns=20 * MS, work_ns=1000), work)
        schedule.start()
        return overruns(schedule, cause)


# ---- operations of a mailbox ----


def test_a_send_is_not_blamed_for_waits_between_sends(name: str) -> None:
    """The lane is full all the time, so the driver sleeps between its sends; every send is late,
    by a bound of nothing. What happened before a send was once counted as its cause."""
    with shmcast.Mailbox.create(name, copies=1, message_size=8, capacity=4) as box:
        done: list[Driven] = []
        tx, rx = box.sender(), box.receiver()
        options = {"box": box.index, "size": 8}

        def work() -> None:
            send = lib.sc_rt_drive_send
            done.append(drive(send, tx.handle, operations=200, bound_ns=0, options=options))

        thread = threading.Thread(target=work)
        thread.start()
        for left in range(200, 0, -1):
            wait_until(lambda left=left: rx.depth >= min(4, left), "the lane is full")
            rx.receive(timeout=20)
        thread.join()
    found = done[0]
    assert found.full > 0
    assert found.misses == 200 == found.operations
    assert found.causes.get("blocked", 0) <= 2, found  # a page of its own may come from a disk
    assert "own work" in found.causes


RECEIVER = """
from shmcast._native import lib
from shmcast.realtime.measure import drive
box = shmcast.Mailbox.open(args[0], timeout=20)
rx = box.receiver(timeout=20, wait="block")
say("ready")
found = drive(lib.sc_rt_drive_receive, rx.handle, operations=21, bound_ns=args[1],
              options={"box": box.index, "size": 8})
say([found.operations, found.misses, found.causes, found.histogram.most_ns])
"""


def test_a_receiver_that_was_stopped_says_that_it_was_not_running(name: str, start: Start) -> None:
    bound = 300 * MS  # far above what a busy machine does by itself
    with shmcast.Mailbox.create(name, copies=1, message_size=8) as box:
        child, tx = start(RECEIVER, name, bound), box.sender()
        assert child.heard() == "ready"
        for _ in range(20):
            tx.send(b"x")
        wait_until(lambda: box.stats().receivers[0].messages == 20, "the first twenty")
        slept = box.stats().receivers[0].sleeps
        wait_until(lambda: box.stats().receivers[0].sleeps > slept, "a wait for the next one")
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: stopped(child.pid), "the stop")
        stamp = tx.send(b"y").timestamp
        wait_until(lambda: time.monotonic_ns() > stamp + bound, "the bound to pass")
        os.kill(child.pid, signal.SIGCONT)
        operations, misses, causes, most = child.heard()
    assert operations == 21
    assert misses == 1 and most > bound
    assert causes.get("blocked", 0) >= 1, causes


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# ---- jobs of a schedule ----


def test_a_job_that_computes_too_long_did_so_by_itself() -> None:
    """Exactly this, now and then, even where strangers preempt it."""
    with Scheduler("own", platform=EASY) as schedule:
        schedule.add(Task(name="a", period_ns=5 * MS, work_ns=1000), burn(MS // 10))
        schedule.start()
        wait_until(
            lambda: any(e.causes == ("own work",) for e in schedule.drain()),
            "an overrun unprovoked",
        )


def test_a_job_that_waits_was_blocked() -> None:
    never = threading.Event()
    late_callback(lambda _: never.wait(0.01), "blocked")


def test_a_job_that_touches_new_memory_had_page_faults() -> None:
    def touch(_: Job) -> None:
        with mmap.mmap(-1, 1 << 20) as fresh:
            for at in range(0, len(fresh), mmap.PAGESIZE):
                fresh[at] = 1

    late_callback(touch, "minor fault")


@pytest.fixture
def cold_file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "cold"
    path.write_bytes(bytes(1 << 20))
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    yield handle
    os.close(handle)


def test_a_job_that_reads_a_page_from_a_disk_had_a_major_fault(cold_file: int) -> None:
    def forget() -> None:
        os.posix_fadvise(cold_file, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(_: Job) -> None:
        forget()
        with mmap.mmap(cold_file, 1 << 20, prot=mmap.PROT_READ) as mapped:
            mapped.madvise(mmap.MADV_RANDOM)
            assert mapped[1 << 19] == 0

    late_callback(read, "major fault")


HOG = """
os.sched_setaffinity(0, {args[0]})
say("at work")
while os.getppid() == args[1]:
    sum(range(100_000))
"""


def test_a_job_whose_core_is_taken_was_preempted(start: Start) -> None:
    cpu = min(os.sched_getaffinity(0))
    for _ in range(2):
        assert start(HOG, cpu, os.getpid()).heard() == "at work"
    alone = Platform(kernel="other", lock_memory=False, cpu=cpu)
    with Scheduler("taken", platform=alone) as schedule:
        schedule.add(
            Task(name="a", period_ns=100 * MS, work_ns=10 * MS), burn(40 * MS, stubborn=True)
        )
        schedule.start()
        overruns(schedule, "preempted")


def test_a_job_behind_another_one_started_late() -> None:
    """Its neighbour takes ten times what it was admitted with, and leaves it the last 2 ms."""
    with Scheduler("behind", policy="fixed", platform=EASY) as schedule:
        long = Task(name="long", period_ns=60 * MS, work_ns=2 * MS)
        victim = Task(
            name="victim", period_ns=60 * MS, offset_ns=5 * MS, work_ns=4 * MS, deadline_ns=17 * MS
        )
        schedule.add(long, burn(20 * MS, stubborn=True))
        schedule.add(victim, burn(4 * MS, stubborn=True))
        schedule.start()

        def found() -> bool:
            events = [e for e in schedule.drain() if e.task == "victim" and e.kind == "miss"]
            return any("late start" in e.causes for e in events)

        wait_until(found, "a late start")
