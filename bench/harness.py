"""Processes for a measurement: forked, pinned, started together, and ended whatever happens."""

from __future__ import annotations

import mmap
import multiprocessing as mp
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_fork = mp.get_context("fork")  # channels are inherited, not pickled
_HANG_S = 15.0


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    seconds: float  # of each streaming run
    round_trips: int
    frames: int
    repetitions: int

    @classmethod
    def named(cls, name: str) -> Scale:
        return {
            "full": cls(seconds=0.5, round_trips=5000, frames=400, repetitions=5),
            "quick": cls(seconds=0.04, round_trips=1000, frames=60, repetitions=1),
            "tiny": cls(seconds=0.0, round_trips=20, frames=4, repetitions=1),
        }[name]


@dataclass
class Measurement:
    """One run. `samples` are single operations in ns, where they were timed one by one."""

    value: float
    unit: str
    sent: int
    arrived: int
    samples: Any = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One row of a question's table: who is measured, and how to measure it once."""

    question: str
    case: str
    peer: str
    copies: int  # 0 for the others
    run: Callable[[], Measurement]


@dataclass(frozen=True)
class Role:
    """What one process does. It waits at `together` before each phase."""

    act: Callable[[Callable[[], None]], Any]
    cpu: int | None


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def cpu(index: int) -> int:
    """The index-th usable one; the last one if there are not so many."""
    usable = cpus()
    return usable[min(index, len(usable) - 1)]


def _child(role: Role, barrier: Any, answer: Any) -> None:
    try:
        if role.cpu is not None:
            os.sched_setaffinity(0, {role.cpu})
        answer.send((True, role.act(lambda: barrier.wait(_HANG_S))))
    except BaseException:
        barrier.abort()
        answer.send((False, traceback.format_exc()))


def together(roles: list[Role]) -> list[Any]:
    """Runs each role in its own process; returns what they returned, in that order."""
    barrier = _fork.Barrier(len(roles))
    started: list[tuple[Any, Any]] = []
    try:
        for role in roles:
            mine, theirs = _fork.Pipe(duplex=False)
            process = _fork.Process(target=_child, args=(role, barrier, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append((process, mine))
        answers = [_answer(mine) for _, mine in started]
        for process, _ in started:
            process.join(_HANG_S)
    finally:
        for process, mine in started:
            if process.is_alive():
                process.kill()
                process.join()
            mine.close()
    for good, answer in answers:
        if not good and "BrokenBarrierError" not in answer:
            raise RuntimeError(answer)
    for good, answer in answers:
        if not good:
            raise RuntimeError(answer)
    return [answer for _, answer in answers]


def _answer(pipe: Any) -> tuple[bool, Any]:
    if not pipe.poll(_HANG_S):
        return False, f"no answer within {_HANG_S} s"
    try:
        good, answer = pipe.recv()
    except EOFError:
        return False, "the process died"
    return good, answer


class Totals:
    """How many messages each sender will have sent, told to the receivers in shared memory.

    A sender that has sent long enough announces its total, then sends its last chunk. Totals and
    the receivers' strides are multiples of the chunk, so a receiver that has not seen everything
    can always wait for a whole chunk more, and needs to look here only once per chunk.
    """

    def __init__(self, senders: int) -> None:
        self._words = np.frombuffer(mmap.mmap(-1, 8 * senders), dtype=np.int64)

    def announce(self, sender: int, total: int) -> None:
        self._words[sender] = total

    def all(self) -> int | None:
        """Their sum, once everyone has announced."""
        return int(self._words.sum()) if self._words.all() else None


def now() -> int:
    return time.monotonic_ns()
