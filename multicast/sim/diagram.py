"""A run as text: time runs down, one column per process.

       t |      g0            g1            c0
       0 |      │             │             M m2.1
    1000 |      ●◀────────────┼─────────────┤   Multicast m2.1, sent at 0
    2000 |      D m2.1        │             │   at (1, 1)

M multicast, ● receive, D deliver, ✗ crash, ○ restart, ! fault, · anything else. The arrow of a
message stands in the row of its arrival and says when it left; a lost one has no arrow.
"""

from __future__ import annotations

from shmcast.multicast.checks.history import name
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    LINK,
    MULTICAST,
    RECEIVE,
    RESTART,
    SEND,
    Trace,
    TraceEvent,
)
from shmcast.multicast.protocols.topology import Topology

MARKS = {MULTICAST: "M", RECEIVE: "●", DELIVER: "D", CRASH: "✗", RESTART: "○", FAULT: "!"}


def text_diagram(trace: Trace, topology: Topology, *, width: int = 14) -> str:
    columns = {process: i for i, process in enumerate(topology.processes)}
    heading = "".join(topology.name(p).ljust(width) for p in columns)
    lines = [f"{'t':>8} | {heading}".rstrip()]
    left_at = {event.copy: event.real_t for event in trace if event.kind == SEND}
    dead: set[int] = set()
    for event in trace:
        if event.kind == SEND:
            continue
        cells = [_lifeline(process in dead, width) for process in columns]
        note = _draw(event, cells, columns, width)
        if event.kind == RECEIVE:
            note += f", sent at {left_at.get(event.copy, '?')}"
        if event.kind == CRASH:
            dead.add(event.proc)
        elif event.kind == RESTART:
            dead.discard(event.proc)
        lines.append(f"{event.real_t:>8} | {''.join(cells)} {note}".rstrip())
    return "\n".join(lines)


def _lifeline(dead: bool, width: int) -> str:
    return (" " if dead else "│").ljust(width)


def _draw(event: TraceEvent, cells: list[str], columns: dict[int, int], width: int) -> str:
    """Marks the event in its row and returns the note beside it."""
    at = columns[event.proc]
    mark = MARKS.get(event.kind, "·")
    if event.kind == RECEIVE and event.peer is not None:
        if event.peer != event.proc:
            _arrow(cells, columns[event.peer], at, width)
        else:
            cells[at] = "↻".ljust(width)
        return f"{event.detail} {' '.join(name(m) for m in event.about)}".rstrip()
    label = mark if event.msg is None else f"{mark} {name(event.msg)}"
    cells[at] = label.ljust(width)
    if event.kind == LINK:
        return f"{event.detail} is lost"
    where = f"[{event.layer}] " if event.layer else ""
    if event.kind == DELIVER and event.ts is not None:
        return f"{where}at {tuple(event.ts)}"
    if event.kind == MULTICAST:
        return f"{where}to {', '.join(f'g{g}' for g in event.dest)}"
    return f"{where}{event.detail}"


def _arrow(cells: list[str], source: int, target: int, width: int) -> None:
    rightward = source < target
    first, last = min(source, target), max(source, target)
    for column in range(first, last):
        cells[column] = ("┼" if column > first else "├") + "─" * (width - 1)
    if rightward:
        cells[target - 1] = cells[target - 1][:-1] + "▶"
        cells[target] = "●".ljust(width)
    else:
        cells[target] = "●◀" + "─" * (width - 2)
        cells[source] = "┤".ljust(width)
