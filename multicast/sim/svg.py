"""A run as a picture: time runs to the right, one line per process, an arrow per message.

Instants are drawn at equal distances, whatever lies between them: what matters in a protocol is
what comes before what.

A filled circle is an event of a process, an empty one its restart: it has no line while it is down.
A lost message is a dashed line that ends half-way.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from shmcast.multicast.checks.history import name
from shmcast.multicast.checks.trace import (
    CRASH,
    DECIDE,
    DELIVER,
    FAULT,
    LINK,
    MULTICAST,
    PROPOSE,
    RECEIVE,
    RESTART,
    SEND,
    Trace,
    TraceEvent,
)
from shmcast.multicast.protocols.topology import Topology

LEFT, TOP, STEP, LANE = 70, 40, 90, 80
COLOURS = {
    MULTICAST: "#1f6fb4",
    PROPOSE: "#1f6fb4",
    DELIVER: "#2a8a3e",
    DECIDE: "#2a8a3e",
    CRASH: "#c0392b",
    RESTART: "#c0392b",
    FAULT: "#d68910",
}
OTHER = "#888"  # joins, leaves, notes
TRANSMISSIONS = {SEND, RECEIVE, LINK}


def svg_diagram(trace: Trace, topology: Topology) -> str:
    lane = {process: TOP + i * LANE for i, process in enumerate(topology.processes)}
    instants = sorted({event.real_t for event in trace})
    x = {instant: LEFT + i * STEP for i, instant in enumerate(instants)}
    width, height = LEFT + STEP * max(1, len(instants)), TOP + LANE * len(lane)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="8" refY="4" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>',
    ]
    for process, y in lane.items():
        parts.append(f'<text x="8" y="{y + 4}">{escape(topology.name(process))}</text>')
        for begin, end in _lives(trace, process, x, width - 10):
            parts.append(f'<line x1="{begin}" y1="{y}" x2="{end}" y2="{y}" stroke="#bbb"/>')
    parts += [
        f'<text x="{at}" y="14" fill="#888" text-anchor="middle">{instant}</text>'
        for instant, at in x.items()
    ]
    parts += _arrows(trace, lane, x)
    parts += [_lost(event, lane, x) for event in trace if event.kind == LINK]
    parts += [_mark(event, lane, x) for event in trace if event.kind not in TRANSMISSIONS]
    parts.append("</svg>")
    return "\n".join(parts)


def _lives(trace: Trace, process: int, x: dict[int, int], end: int) -> list[tuple[int, int]]:
    """From where to where a process lives."""
    found: list[tuple[int, int]] = []
    begin: int | None = LEFT
    for event in trace:
        if event.proc == process and event.kind == CRASH and begin is not None:
            found.append((begin, x[event.real_t]))
            begin = None
        elif event.proc == process and event.kind == RESTART:
            begin = x[event.real_t]
    return found if begin is None else [*found, (begin, end)]


def _arrows(trace: Trace, lane: dict[int, int], x: dict[int, int]) -> list[str]:
    left: dict[int | None, TraceEvent] = {e.copy: e for e in trace if e.kind == SEND}
    parts: list[str] = []
    for event in trace:
        sent = left.get(event.copy) if event.kind == RECEIVE else None
        if sent is None or sent.proc == event.proc:
            continue
        x1, y1, x2, y2 = x[sent.real_t], lane[sent.proc], x[event.real_t], lane[event.proc]
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#666" '
            f'marker-end="url(#tip)"><title>{escape(_title(event))}</title></line>'
        )
        parts.append(
            f'<text x="{(2 * x1 + x2) // 3}" y="{(2 * y1 + y2) // 3}" fill="#666" '
            f'font-size="9">{escape(_title(event))}</text>'
        )
    return parts


def _title(event: TraceEvent) -> str:
    return f"{event.detail} {' '.join(name(m) for m in event.about)}".rstrip()


def _lost(event: TraceEvent, lane: dict[int, int], x: dict[int, int]) -> str:
    """Leaves for its receiver, and ends between the lines."""
    assert event.peer is not None, "a lost message was sent to somebody"
    x1, y1 = x[event.real_t], lane[event.proc]
    x2, y2 = x1 + STEP // 2, (y1 + lane[event.peer]) // 2
    title = escape(f"{_title(event)} is lost")
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{COLOURS[FAULT]}" '
        f'stroke-dasharray="4 3"><title>{title}</title></line>'
        f'<text x="{x2}" y="{y2 + 4}" fill="{COLOURS[FAULT]}">✗ {title}</text>'
    )


def _mark(event: TraceEvent, lane: dict[int, int], x: dict[int, int]) -> str:
    at, y = x[event.real_t], lane[event.proc]
    colour = COLOURS.get(event.kind, OTHER)
    inside = "white" if event.kind == RESTART else colour
    below = 16 if event.kind in (DELIVER, DECIDE) else -8
    return (
        f'<circle cx="{at}" cy="{y}" r="5" fill="{inside}" stroke="{colour}"/>'
        f'<text x="{at + 6}" y="{y + below}" fill="{colour}">{escape(_label(event))}</text>'
    )


def _label(event: TraceEvent) -> str:
    if event.msg is not None and event.kind in (MULTICAST, DELIVER):
        return name(event.msg)
    words = [event.kind, "" if event.msg is None else name(event.msg), event.detail]
    return " ".join(word for word in words if word)
