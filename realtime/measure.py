"""One step, or one row of operations, timed in C; see csrc/rt_steps.c and rt_drive.c."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shmcast._native import ffi, lib
from shmcast.errors import error_from
from shmcast.realtime.board import CAUSES
from shmcast.realtime.histogram import WORDS, Histogram

STEPS = ("write", "flag", "decide", "read", "clear", "wake", "turn")
CLASSES = {"other": 0, "fifo": 1, "deadline": 2}
FIFO_PRIORITY = 40
_DEADLINE_RUNTIME_NS, _DEADLINE_PERIOD_NS = 9_000_000, 10_000_000
_FROM_NOW = 1 << 63


def _platform(target: Any, kernel_class: str) -> None:
    target.wanted_class, target.priority, target.cpu = CLASSES[kernel_class], FIFO_PRIORITY, -1
    target.runtime_ns, target.period_ns = _DEADLINE_RUNTIME_NS, _DEADLINE_PERIOD_NS


def step(
    name: str, *, size: int, cold: bool, samples: int, kernel_class: str = "other", limit_s: float
) -> Histogram:
    m = ffi.new("struct sc_rt_measure *")
    m.step, m.cold, m.bytes, m.samples = STEPS.index(name), cold, size, samples
    m.deadline = _FROM_NOW | int(limit_s * 1e9)
    _platform(m.platform, kernel_class)
    words = ffi.new(f"uint64_t[{WORDS}]")
    code = lib.sc_rt_measure_step(m, words)
    if code:
        raise error_from(code, name)
    if m.platform.class_error:
        raise error_from(m.platform.class_error, f"SCHED_{kernel_class.upper()}")
    return Histogram(tuple(words), m.most_ns)


def permitted_classes() -> list[str]:
    """The scheduling classes that this process may use here."""
    found = []
    for name in CLASSES:
        try:
            step("flag", size=0, cold=False, samples=1, kernel_class=name, limit_s=1)
        except OSError:
            continue
        found.append(name)
    return found


class Worst(NamedTuple):
    """One of the longest operations."""

    took_ns: int
    causes: tuple[str, ...]


class Driven(NamedTuple):
    """A row of operations."""

    operations: int
    misses: int
    rejected: int
    full: int  # sends that found no room and were tried again
    bound_ns: int
    causes: dict[str, int]  # of misses
    histogram: Histogram
    error: int  # of the core, if it ended early
    worst: tuple[Worst, ...] = ()  # the longest first


def drive(
    function: Any, handle: Any, *, operations: int, bound_ns: int, options: Mapping[str, Any]
) -> Driven:
    """`function` is lib.sc_rt_drive_send or _receive, `handle` the sender's or receiver's."""
    d = ffi.new("struct sc_rt_drive *")
    d.box, d.bytes = options.get("box", 0), options.get("size", 64)
    d.operations, d.bound_ns = operations, bound_ns
    d.gap_ns = options.get("gap_ns", 0)
    d.deadline = _FROM_NOW | int(options.get("limit_s", 60) * 1e9)
    _platform(d.platform, options.get("kernel_class", "other"))
    words = ffi.new(f"uint64_t[{WORDS}]")
    code = function(handle, d, words)
    if code:
        raise error_from(code, "drive")
    causes = {cause: d.causes[i] for i, cause in enumerate(CAUSES) if d.causes[i]}
    histogram = Histogram(tuple(words), d.most_ns)
    worst = tuple(Worst(w.took_ns, _causes(w.causes)) for w in d.worst if w.took_ns)
    return Driven(d.done, d.misses, d.rejected, d.full, bound_ns, causes, histogram, d.error, worst)


def _causes(bits: int) -> tuple[str, ...]:
    return tuple(cause for i, cause in enumerate(CAUSES) if bits >> i & 1)
