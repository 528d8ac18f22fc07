"""Reading the figures of a schedule, also another process's, and finding those of the dead.

The layout is that of csrc/rt_board.h. Reading disturbs nobody: the file is mapped read-only.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmcast.realtime.histogram import WORDS, Histogram

DIRECTORY = Path("/dev/shm")
_FILE = re.compile(r"shmcast-rt\.(?P<pid>[0-9]+)\.(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)")
_MAGIC = 0x017472616F627472
_HEAD = struct.Struct("=QIIQQQ16sII64s4Q")
_TASK = struct.Struct("=64s4QII24x8Q16Q8Q64x")
_HEAD_BYTES, _TASK_BYTES = 256, 3072
CAUSES = ("preempted", "blocked", "minor fault", "major fault", "stolen", "late start", "own work")
_CLASSES = ("other", "fifo", "deadline")


@dataclass(frozen=True, slots=True)
class TaskFigures:
    name: str
    period_ns: int
    budget_ns: int
    deadline_ns: int  # the bound of the responses
    released: int
    skipped: int  # releases for which no job was started
    stretch: int  # degraded: so many periods between releases
    worst_late_ns: int  # from release to start
    finished: int
    misses: int  # jobs that ended after their deadline
    overruns: int
    aborted: int
    failed: int
    worst_response_ns: int
    worst_work_ns: int
    total_work_ns: int
    running_since_ns: int  # as the watchdog saw it last; 0: no job runs
    slack_ns: int  # least time left before a deadline
    causes: dict[str, int]  # of misses
    histogram: Histogram  # of responses

    @property
    def unmet(self) -> int:
        """Deadlines that were not kept: by a late job, or by none at all."""
        return self.misses + self.skipped


@dataclass(frozen=True, slots=True)
class Figures:
    name: str
    pid: int
    policy: str
    kernel_class: str
    soft: bool
    heartbeat_ns: int
    turns: int
    stuck: int
    tasks: list[TaskFigures]


def path_of(pid: int, name: str) -> Path:
    return DIRECTORY / f"shmcast-rt.{pid}.{name}"


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("ascii", "replace")


def _task(data: mmap.mmap, at: int) -> TaskFigures:
    name, period, budget, deadline, _, _, _, *words = _TASK.unpack_from(data, at)
    dispatched, done, causes = words[:8], words[8:24], words[24:32]
    counts = struct.unpack_from(f"={WORDS}Q", data, at + 448)
    named = {cause: count for cause, count in zip(CAUSES, causes, strict=False) if count}
    figures: list[Any] = [period, budget, deadline, *dispatched[:4], *done[:10]]
    return TaskFigures(*[_text(name), *figures, named, Histogram(counts, done[5])])


def read(path: Path) -> Figures:
    """Raises ValueError for a file that is not, or not yet, or no longer, a board."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        if len(data) < _HEAD_BYTES:
            raise ValueError(f"{path.name}: too short")
        head = _HEAD.unpack_from(data, 0)
        magic, version, tasks, pid = head[:4]
        if magic != _MAGIC or version != 1:
            raise ValueError(f"{path.name}: not a schedule's figures of version 1")
        if len(data) < _HEAD_BYTES + tasks * _TASK_BYTES:
            raise ValueError(f"{path.name}: too short for {tasks} tasks")
        policy, kernel_class, name = head[7:10]
        heartbeat, turns, soft, stuck = head[10:14]
        return Figures(
            _text(name),
            pid,
            {1: "table", 2: "fixed", 3: "edf"}.get(policy, "?"),
            _CLASSES[kernel_class] if kernel_class < len(_CLASSES) else "?",
            bool(soft),
            heartbeat,
            turns,
            stuck,
            [_task(data, _HEAD_BYTES + i * _TASK_BYTES) for i in range(tasks)],
        )


def boards() -> list[Path]:
    """Every schedule that has figures here, living or dead."""
    return sorted(path for path in DIRECTORY.iterdir() if _FILE.fullmatch(path.name))


def _start_ticks(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = text.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def is_orphan(path: Path) -> bool:
    """Its process is dead. A process of another pid namespace is left alone: we cannot tell."""
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD_BYTES)
    except OSError:
        return False
    if len(raw) < _HEAD_BYTES:
        return True  # nobody links a short one: it was cut
    head = _HEAD.unpack_from(raw, 0)
    magic, _, _, pid, start, space, boot = head[:7]
    if magic != _MAGIC:
        match = _FILE.fullmatch(path.name)
        return match is not None and _start_ticks(int(match["pid"])) is None
    ours = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    if boot.hex() != ours:
        return True
    if space != os.stat("/proc/self/ns/pid").st_ino:
        return False
    return bool(_start_ticks(pid) != start)


def orphans() -> list[Path]:
    return [path for path in boards() if is_orphan(path)]


def remove_orphans() -> list[str]:
    """Removes the figures of dead processes; returns their names. Idempotent."""
    removed = []
    for path in orphans():
        try:
            path.unlink()
        except OSError:  # somebody else did, or it is not ours
            continue
        removed.append(path.name)
    return removed
