"""The parts of ``shmcast bench bounds``. What is compared with each other is measured by turns, in
one part, so that the machine's moods hit all of it alike; parts can be run one by one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from shmcast.cli.bounds_periodic import compare_classes
from shmcast.cli.bounds_run import CAPACITY, FIXED, Cell, Result, Round, Session, figures
from shmcast.realtime.histogram import Histogram, low_of
from shmcast.realtime.load import KINDS, Load

PROTOCOLS = ("eager", "crash", "timing")
COPIES = (1, 2, 3, 4, 5)
CLASSES = "classes"
_ROW = CAPACITY // 2  # of one round that is measured apart

Progress = Callable[[str, int, int], None]  # what, rounds done, rounds in all


class Part(NamedTuple):
    name: str
    cells: tuple[Cell, ...]  # of one load
    rounds: int  # each cell's operations are spread over so many
    apart: bool = False  # sends, then receives: what an operation costs by itself


class Size(NamedTuple):
    """How much of everything."""

    operations: int  # sends per protocol, idle and under load together
    rounds: int
    many: int  # processes, against 2
    killed_copies: tuple[int, ...]
    periodic_s: float  # of one class in one round
    bounds: str = FIXED

    @classmethod
    def of(cls, operations: int, *, quick: bool, bounds: str = FIXED) -> Size:
        if quick:
            return cls(-(-operations // 10), 5, 8, (1, 3), 0.5, bounds)
        return cls(operations, 11, 32, COPIES, 1.0, bounds)


def parts(size: Size) -> list[Part]:
    """For every protocol: idle, under load, with a process killed midway and, of several, a copy;
    the slope over the copies; few and many processes connected, which the table of §4.1 says has no
    influence. Then classes."""
    found = []
    for protocol in PROTOCOLS:
        for name, load, percent in (("idle", (), 70), ("loaded", KINDS, 30)):
            each = -(-size.operations * percent // (100 * len(COPIES)))
            cells = tuple(Cell(protocol, n, load, each) for n in COPIES)
            found.append(Part(f"{protocol}-{name}", cells, size.rounds))
        for name, load in (("killed", ()), ("loaded-killed", KINDS)):
            some = -(-size.operations // 50)
            cells = tuple(Cell(protocol, n, load, some, faults=True) for n in size.killed_copies)
            found.append(Part(f"{protocol}-{name}", cells, 1))
        rounds = 2 * size.rounds
        cells = tuple(Cell(protocol, n, (), rounds * _ROW) for n in COPIES)
        found.append(Part(f"{protocol}-slope", cells, rounds, apart=True))
        counts = (2, size.many)
        cells = tuple(Cell(protocol, 3, (), rounds * _ROW, connected=c) for c in counts)
        found.append(Part(f"{protocol}-connected", cells, rounds, apart=True))
    found = [
        part._replace(cells=tuple(c._replace(bounds=size.bounds) for c in part.cells))
        for part in found
    ]
    return [*found, Part(CLASSES, (), size.rounds)]


def run_part(part: Part, size: Size, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """JSON: the cells, or the classes; and how long it took."""
    started = time.monotonic()
    if part.name == CLASSES:
        found: dict[str, Any] = {
            "classes": compare_classes(part.rounds, size.periodic_s, progress=progress)
        }
    elif any(cell.faults for cell in part.cells):
        found = {"cells": [record(r) for r in _one_by_one(part, progress)]}
    else:
        found = {"cells": [record(r) for r in _by_turns(part, progress)]}
    return {**found, "took_s": round(time.monotonic() - started, 1)}


def _by_turns(part: Part, progress: Progress) -> list[Result]:
    rounds: list[list[Round]] = [[] for _ in part.cells]
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(Session(c, i)) for i, c in enumerate(part.cells)]
        stack.enter_context(Load(*part.cells[0].load))
        for number in range(part.rounds):
            progress(part.name, number, part.rounds)
            turns = list(enumerate(sessions))
            for i, session in turns if number % 2 == 0 else reversed(turns):
                operations = -(-session.cell.operations // part.rounds)
                rounds[i].append(session.run(operations, apart=part.apart))
    return [Result(c, tuple(r)) for c, r in zip(part.cells, rounds, strict=True)]


def _one_by_one(part: Part, progress: Progress) -> Iterable[Result]:
    with Load(*part.cells[0].load):
        for number, cell in enumerate(part.cells):
            progress(part.name, number, len(part.cells))
            with Session(cell) as session:
                yield Result(cell, (session.run(cell.operations),))


def median_ns(h: Histogram) -> float:
    """Inside its bucket by the share of counts: a bucket is too wide for slopes and ratios."""
    half, seen = h.total / 2, 0
    for bucket, count in enumerate(h.counts):
        if seen + count >= half and count:
            low, high = low_of(bucket), low_of(bucket + 1)
            return low + (high - low) * (half - seen) / count
        seen += count
    return 0.0


def record(result: Result) -> dict[str, Any]:
    def medians(which: Callable[[Round], Histogram]) -> list[float]:
        return [round(median_ns(which(r)), 1) for r in result.rounds]

    return {
        **result.cell._asdict(),
        "title": result.cell.title(),
        "decided_against": result.count("decided_against"),
        "filled": result.count("filled"),
        "violations": result.count("violations"),
        "killed_after": result.rounds[0].killed_after,
        "send": {**figures(result.send), "rounds_p50_ns": medians(lambda r: r.send.histogram)},
        "receive": {
            **figures(result.receive),
            "rounds_p50_ns": medians(lambda r: r.receive.histogram),
        },
    }


def chosen(all_parts: Sequence[Part], only: Sequence[str]) -> list[Part]:
    """Those whose names begin with one of `only`; all, if that is empty."""
    found = [p for p in all_parts if not only or any(p.name.startswith(o) for o in only)]
    if not found:
        raise ValueError(f"no such part; there is {', '.join(p.name for p in all_parts)}")
    return found
