"""A run as a picture: time runs to the right, one line per process, an arrow per message.

Instants are drawn at equal distances, whatever lies between them: what matters in a protocol is
what comes before what.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from shmcast.multicast.checks.history import name
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    MULTICAST,
    RECEIVE,
    SEND,
    Trace,
    TraceEvent,
)
from shmcast.multicast.protocols.topology import Topology

LEFT, TOP, STEP, LANE = 70, 40, 90, 80
COLOURS = {MULTICAST: "#1f6fb4", DELIVER: "#2a8a3e", CRASH: "#c0392b", FAULT: "#d68910"}


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
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{width - 10}" y2="{y}" stroke="#bbb"/>')
    parts += [
        f'<text x="{at}" y="14" fill="#888" text-anchor="middle">{instant}</text>'
        for instant, at in x.items()
    ]
    parts += _arrows(trace, lane, x)
    parts += [_mark(event, lane, x) for event in trace if event.kind in COLOURS]
    parts.append("</svg>")
    return "\n".join(parts)


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


def _mark(event: TraceEvent, lane: dict[int, int], x: dict[int, int]) -> str:
    at, y = x[event.real_t], lane[event.proc]
    label = event.kind if event.msg is None else name(event.msg)
    below = 16 if event.kind == DELIVER else -8
    return (
        f'<circle cx="{at}" cy="{y}" r="5" fill="{COLOURS[event.kind]}"/>'
        f'<text x="{at + 6}" y="{y + below}" fill="{COLOURS[event.kind]}">{escape(label)}</text>'
    )
