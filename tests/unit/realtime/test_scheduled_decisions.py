"""Who decides for a `timing` receiver: a schedule, a thread with a class of its own, or its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

import shmcast
from helpers import Child, bounds, wait_until
from shmcast._native import lib
from shmcast.mailbox.scheduled import decide_with, decisions
from shmcast.realtime.measure import permitted_classes
from shmcast.realtime.scheduler import Native, Platform, Scheduler
from shmcast.realtime.tasks import Task

MS = 1_000_000
EASY = Platform(kernel="other", lock_memory=False)


@pytest.fixture
def box(name: str) -> Iterator[shmcast.Mailbox]:
    options = {"protocol": "timing", "copies": 1, "message_size": 64}
    with shmcast.Mailbox.create(name, bounds=bounds("timing", 1), **options) as made:
        yield made


def comes_through(box: shmcast.Mailbox, receiver: shmcast.Receiver, what: bytes) -> None:
    with box.sender() as sender:
        sender.send(what)
    assert receiver.receive(timeout=20).data == what


def decide(schedule: Scheduler, work: Native) -> None:
    task = Task(name="decide", period_ns=2 * MS, work_ns=MS, deadline_ns=4 * MS)
    schedule.add(task, work)


def test_after_the_schedule_somebody_decides_again(box: shmcast.Mailbox) -> None:
    """Nobody did, and nobody said so: the receiver was late for ever."""
    receiver = box.receiver()
    for _ in range(2):
        with Scheduler("decides", platform=EASY) as schedule:
            decide(schedule, decisions(receiver, box))
            schedule.start()
            comes_through(box, receiver, b"by the schedule")
        comes_through(box, receiver, b"by a thread again")


def test_until_the_schedule_starts_the_receiver_decides_by_itself(box: shmcast.Mailbox) -> None:
    receiver = box.receiver()
    schedule = Scheduler("never", platform=EASY)
    decide(schedule, decisions(receiver, box))
    comes_through(box, receiver, b"by its own thread")
    schedule.close()


def test_rounds_of_decisions_must_come_every_p(box: shmcast.Mailbox) -> None:
    work = decisions(box.receiver(), box)
    p = box.stats().poll_ns
    assert p == work.longest_period_ns == 5 * MS
    schedule = Scheduler("seldom", platform=EASY)
    with pytest.raises(ValueError, match=f"too seldom for this work: use at most {p}"):
        schedule.add(Task(name="decide", period_ns=p + 1, work_ns=1), work)
    with pytest.raises(ValueError, match="must not come less often"):
        schedule.add(Task(name="decide", period_ns=p, work_ns=1), work, overrun="degrade")
    schedule.add(Task(name="decide", period_ns=p, work_ns=1), work)


def threads_of_class(kernel_class: int) -> int:
    tasks = (int(task) for task in os.listdir("/proc/self/task"))
    return sum(os.sched_getscheduler(task) == kernel_class for task in tasks)


def test_the_thread_that_decides_may_have_a_scheduling_class(box: shmcast.Mailbox) -> None:
    """It was an ordinary one, and nothing could be done about it."""
    receiver = box.receiver()
    before = threads_of_class(os.SCHED_FIFO)
    refused = decide_with(receiver, box, Platform(kernel="fifo"))
    if "fifo" in permitted_classes():
        assert threads_of_class(os.SCHED_FIFO) == before + 1
        assert not any("SCHED_FIFO" in what for what in refused)
    else:
        assert any("SCHED_FIFO" in what for what in refused)
    comes_through(box, receiver, b"decided")
    receiver.close()
    wait_until(lambda: threads_of_class(os.SCHED_FIFO) == before, "its thread to end")


def test_decisions_are_for_timing_alone(name: str) -> None:
    with shmcast.Mailbox.create(name, copies=1) as box, pytest.raises(ValueError, match="timing"):
        decisions(box.receiver(), box)


TIMING = """
from shmcast.mailbox.scheduled import decisions
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
box = shmcast.Mailbox.create(args[0], protocol="timing", copies=1)
rx = box.receiver()
schedule = Scheduler("decides", platform=Platform(kernel="other", lock_memory=False))
schedule.add(Task(name="decide", period_ns=200_000, work_ns=100_000), decisions(rx, box))
schedule.start()
def task(): return schedule.figures().tasks[0]
while not task().finished: time.sleep(0.001)
"""
CLOSES = """
rx.close()
while not task().failed: time.sleep(0.001)
kinds = {(event.kind, event.value) for event in schedule.drain() if event.kind == "failed"}
say([rx.name, sorted(kinds)])
schedule.close()
box.close()
shmcast.Mailbox.remove(args[0])
"""


def test_a_receiver_that_is_closed_ends_the_rounds_that_a_schedule_takes_for_it(
    name: str, start: Callable[..., Child]
) -> None:
    """A round used what closing had freed, and the process died. Later rounds fail instead."""
    child = start(TIMING + CLOSES, name)
    assert child.heard() == [name, [["failed", lib.SC_CLOSED]]]
    assert child.ended() == 0


def test_a_program_may_end_while_a_schedule_decides(name: str, start: Callable[..., Child]) -> None:
    """What the tasks use is freed when the program ends, so the schedule ends before."""
    child = start(TIMING + "say(1)", name)
    assert child.heard() == 1
    assert child.ended() == 0
    shmcast.Mailbox.remove(name)


WATCHED = """
from shmcast.mailbox import scheduled
scheduled.decide_with = lambda *_, write=os.write: write(1, b'"again"\\n')
say("until now")
"""


def test_at_the_end_of_a_program_nobody_takes_over(name: str, start: Callable[..., Child]) -> None:
    """The schedule is closed when its receiver has been freed already."""
    child = start(TIMING + WATCHED, name)
    assert child.heard() == "until now"
    assert child.ended() == 0
    with pytest.raises(AssertionError, match="the child ended"):
        child.heard()
    shmcast.Mailbox.remove(name)
