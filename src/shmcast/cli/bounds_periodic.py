"""A send and a receive every millisecond, under load, by a dispatcher of each scheduling class in
turn: what a class is worth. Completion counts from the release, so a thread that is woken late is
late; operations in a row would hide that, since nothing wakes them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from shmcast.cli.bounds_run import SIZE, bounds_of
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.scheduled import Inbox, Outbox
from shmcast.realtime.board import TaskFigures
from shmcast.realtime.bounds import NS_PER_MS
from shmcast.realtime.histogram import EMPTY, Histogram
from shmcast.realtime.load import KINDS, Load
from shmcast.realtime.scheduler import Platform, Scheduler
from shmcast.realtime.tasks import Task

CLASSES = ("other", "fifo", "deadline")
PERIOD_NS = NS_PER_MS
_LATEST_NS = 10_000 * NS_PER_MS  # a deadline so late that no job is dropped as hopeless
_LOOK_S = 0.02
_TASKS = ("send", "receive")


def _one_row(kernel_class: str, seconds: float) -> tuple[str, list[TaskFigures]]:
    """What the kernel gave, and the figures of the send and of the receive."""
    name, bounds = f"bench-bounds-{os.getpid()}-p", bounds_of("eager", 3)
    try:
        with Mailbox.create(name, copies=3, message_size=SIZE, bounds=bounds) as box:
            outbox, inbox = Outbox(box.sender(), box), Inbox(box.receiver(), box)
            with Scheduler("bench", policy="fixed", platform=Platform(kernel=kernel_class)) as s:
                for name_of, work in zip(_TASKS, (outbox.native, inbox.native), strict=True):
                    s.add(
                        Task(
                            name=name_of,
                            period_ns=PERIOD_NS,
                            work_ns=PERIOD_NS // 10,
                            deadline_ns=_LATEST_NS,
                        ),
                        work,
                    )
                outbox.put(bytes(SIZE))
                got = s.start().kernel_class
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    while inbox.take() is not None:
                        pass
                    time.sleep(_LOOK_S)
                return got, s.figures().tasks
    finally:
        with contextlib.suppress(FileNotFoundError):
            Mailbox.remove(name)


def compare_classes(
    rounds: int, seconds: float, *, progress: Callable[[str, int, int], None] = lambda *_: None
) -> dict[str, Any]:
    rows: dict[str, list[list[TaskFigures]]] = {c: [] for c in CLASSES}
    with Load(*KINDS):
        for number in range(rounds):
            progress("classes", number, rounds)
            for wanted in CLASSES if number % 2 == 0 else reversed(CLASSES):
                got, tasks = _one_row(wanted, seconds)
                if got == wanted:
                    rows[wanted].append(tasks)
    bounds = bounds_of("eager", 3)
    limits = (bounds.send_ns, bounds.receive_ns("eager"))
    return {
        "period_ns": PERIOD_NS,
        "load": KINDS,
        **{
            task: {
                kernel_class: _figures([row[i] for row in found], limits[i])
                for kernel_class, found in rows.items()
                if found
            }
            for i, task in enumerate(_TASKS)
        },
    }


def _figures(row: list[TaskFigures], bound_ns: int) -> dict[str, Any]:
    h: Histogram = sum((t.histogram for t in row), EMPTY)
    return {
        "jobs": h.total,
        "dropped": sum(t.skipped for t in row),
        "bound_ns": bound_ns,
        "beyond_bound": h.above(bound_ns),
        "maximum_ns": h.most_ns,
        **{f"p{p}_ns": h.percentile(p) for p in (50, 99, 99.9, 99.99)},
        "rounds_p99.9_ns": [t.histogram.percentile(99.9) for t in row],
        "histogram": [list(pair) for pair in h.pairs()],
    }
