"""What the kernel refuses, and what else makes a schedule soft: docs/decisions/0025."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from helpers import Child
from shmcast.errors import NotPermitted
from shmcast.realtime.admission import NO_OVERHEAD, Overhead, Throttle
from shmcast.realtime.measure import permitted_classes
from shmcast.realtime.scheduler import Platform, Scheduler, burn
from shmcast.realtime.tasks import Task

MS = 1_000_000
EASY = Platform(kernel="other", lock_memory=False)


def task(name: str, period: int = 5, work: int = 1) -> Task:
    return Task(name=name, period_ns=period * MS, work_ns=work * MS)


def test_a_schedule_without_a_real_time_class_calls_itself_soft_and_says_why() -> None:
    with Scheduler("soft", platform=EASY) as schedule:
        schedule.add(task("a"), burn(1000))
        status = schedule.start()
        assert schedule.figures().soft
    assert status.soft
    assert "no real-time class was asked for" in status.reasons


def test_a_wish_that_is_refused_is_reported() -> None:
    with Scheduler("nocpu", platform=Platform(kernel="other", cpu=1023)) as schedule:
        schedule.add(task("a"), burn(1000))
        status = schedule.start()
    assert any("core of its own (1023)" in reason for reason in status.reasons)


@pytest.mark.parametrize(
    ("platform", "word"),
    [
        (Platform(cpu=1023), "a core of its own"),
        (Platform(lock_memory=False), "no locked memory was asked for"),
        (Platform(priority=99), "a watchdog above its jobs"),
    ],
)
def test_a_schedule_without_what_its_deadlines_rest_on_is_soft(
    platform: Platform, word: str
) -> None:
    """Only the class counted: with FIFO and nothing else it called itself hard, and was started
    where it must not be soft."""
    schedule = Scheduler("half", platform=platform, soft_ok=False, overhead=NO_OVERHEAD)
    schedule.add(task("a"), burn(1000))
    if "fifo" not in permitted_classes():
        word = "SCHED_FIFO"
    with pytest.raises(NotPermitted, match=word):
        schedule.start()


HALF = """
import ctypes, resource
from shmcast.realtime.admission import NO_OVERHEAD
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
libc, version_3, may_lock = ctypes.CDLL(None), 0x20080522, 14
head, sets = (ctypes.c_uint32 * 2)(version_3, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(head, sets) == 0
sets[0] &= ~(1 << may_lock)
assert libc.capset(head, sets) == 0
with Scheduler("half", overhead=NO_OVERHEAD) as schedule:
    schedule.add(Task(name="a", period_ns=5_000_000, work_ns=1_000_000), burn(1000))
    status = schedule.start()
    seen = schedule.figures().soft
say([status.kernel_class, status.soft, status.reasons, seen])
"""


def test_a_real_time_class_without_locked_memory_is_soft(start: Callable[..., Child]) -> None:
    _, soft, reasons, seen_from_outside = start(HALF).heard()
    assert soft and seen_from_outside
    assert any(reason.startswith("locked memory: ") for reason in reasons)


def test_a_schedule_whose_dispatcher_was_not_measured_is_soft() -> None:
    with Scheduler("unknown") as schedule:
        schedule.add(task("a"), burn(1000))
        status = schedule.start()
    assert status.soft
    assert any("are not in the admission" in reason for reason in status.reasons)


def test_what_the_dispatcher_takes_is_counted_by_admission() -> None:
    tight = Scheduler("tight", policy="fixed", platform=EASY, overhead=Overhead(MS, MS // 2))
    tight.add(task("a", 10, 9), burn(1000))
    assert tight.admission().responses_ns == {}
    assert "responds after 10500000 ns" in tight.admission().reason


def test_a_schedule_that_the_kernel_may_stop_is_soft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Throttle, "of_kernel", lambda: Throttle(950 * MS, 1000 * MS))
    for work, stopped in ((9, False), (10, True)):
        with Scheduler("full", overhead=NO_OVERHEAD) as schedule:
            schedule.add(task("a", 10, work), burn(1000))
            status = schedule.start()
        assert any("leaves SCHED_FIFO" in reason for reason in status.reasons) == stopped
        assert status.soft >= stopped


LOCKS = """
import ctypes, mmap, re
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
def locked():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmLck:\\s+(\\d+)", status.read())[1])
page = mmap.mmap(-1, mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
if args[0]:
    assert ctypes.CDLL(None).mlock(ctypes.c_void_p(address), mmap.PAGESIZE) == 0
before = locked()
for _ in range(2):
    with Scheduler("locks", platform=Platform(kernel="other")) as schedule:
        schedule.add(Task(name="a", period_ns=5_000_000, work_ns=1_000_000), burn(1000))
        schedule.start()
        during = locked()
say([before, during, locked()])
"""


@pytest.mark.parametrize("own", [True, False])
def test_memory_that_the_application_locked_stays_locked(
    start: Callable[..., Child], own: bool
) -> None:
    """The end of the last schedule unlocked it."""
    before, during, after = start(LOCKS, own).heard()
    assert during >= before
    assert (after > 0) == own


UNPRIVILEGED = """
import resource
from shmcast.realtime.scheduler import *
from shmcast.realtime.tasks import Task
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):
    resource.setrlimit(limit, (0, 0))
if os.getuid() == 0:
    os.setgroups([])
    os.setuid(65534)
with Scheduler("poor", platform=Platform(kernel=args[0])) as schedule:
    schedule.add(Task(name="a", period_ns=5_000_000, work_ns=1_000_000), burn(1000))
    status = schedule.start()
    seen = schedule.figures().soft
say([status.kernel_class, status.soft, status.reasons, seen])
"""


@pytest.mark.parametrize("kernel", ["auto", "fifo", "deadline"])
def test_without_privileges_a_schedule_runs_and_says_that_it_is_soft(
    start: Callable[..., Child], kernel: str
) -> None:
    kernel_class, soft, reasons, seen_from_outside = start(UNPRIVILEGED, kernel).heard()
    assert (kernel_class, soft, seen_from_outside) == ("other", True, True)
    wanted = "SCHED_DEADLINE" if kernel == "deadline" else "SCHED_FIFO"
    assert f"{wanted}: {os.strerror(errno.EPERM)}" in reasons
    assert any(reason.startswith("locked memory: ") for reason in reasons)


def test_a_schedule_that_must_not_be_soft_refuses_to_be() -> None:
    schedule = Scheduler("hard", platform=EASY, soft_ok=False)
    schedule.add(task("a"), burn(1000))
    with pytest.raises(NotPermitted, match="no real-time class"):
        schedule.start()


@pytest.mark.parametrize("native", [False, True])
def test_a_schedule_with_python_tasks_is_soft_whatever_class_it_got(native: bool) -> None:
    """It said that these deadlines are soft, and was started although it must not be."""
    schedule = Scheduler("hard", soft_ok=False)
    schedule.add(task("py"), lambda _: None)
    if native:
        schedule.add(task("native"), burn(1000))
    with pytest.raises(NotPermitted, match="their deadlines are soft"):
        schedule.start()


def test_a_schedule_is_soft_if_there_is_a_reason() -> None:
    with Scheduler("native", overhead=NO_OVERHEAD) as schedule:
        schedule.add(task("a"), burn(1000))
        status = schedule.start()
        assert schedule.figures().soft == status.soft
    assert status.soft == (status.reasons != ())
    assert status.soft or status.kernel_class == "fifo"
