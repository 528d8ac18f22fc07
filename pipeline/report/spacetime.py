"""What happened around a fault: a line per process, time to the right, true to scale.

Transmissions are arrows where they are on record and few; else an arrow leads from a multicast to
each delivery of it. What does not fit is left out and counted, never squeezed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shmcast.multicast.checks.history import name as message_name
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    LINK,
    MULTICAST,
    RECEIVE,
    RESTART,
    SEND,
    MessageKey,
    Trace,
    TraceEvent,
)
from shmcast.pipeline.latency import ORDERED
from shmcast.pipeline.report import svg

WIDTH, LEFT, RIGHT, TOP, BOTTOM, LANE = 920.0, 92.0, 24.0, 20.0, 34.0, 46.0
EVENTS_MAX, ARROWS_MAX, PROCESSES_MAX = 160, 220, 16
_Pair = tuple[TraceEvent, TraceEvent]  # where an arrow begins and ends
MARKS = {
    MULTICAST: ("multicast", "M"),
    DELIVER: ("deliver", "D"),
    ORDERED: ("ordered", "O"),
    CRASH: ("crash", "✗"),
    RESTART: ("restart", "○"),
    FAULT: ("trouble", "!"),
    LINK: ("trouble", "!"),
}


@dataclass(frozen=True, slots=True)
class Picture:
    drawing: str
    left_out: str  # what is not shown; empty if nothing


def around(
    trace: Trace,
    start_ns: int,
    end_ns: int,
    zero_ns: int,
    names: Mapping[int, str],
    *,
    since: str = "the first row of the run",
) -> Picture:
    """The rows of [start, end]; times are shown since `zero_ns`."""
    events = [e for e in trace.events if start_ns <= e.real_t <= end_ns]
    marks = [e for e in events if e.kind in MARKS and e.layer == ""]
    shown = _most_important(marks)
    lanes = _lanes(shown, trace)
    chart = _Chart(start_ns, end_ns, lanes, zero_ns)
    arrows, hidden = _arrows(events, shown, chart)
    parts = [*chart.axes(names, since), *arrows, *_marks(shown, chart)]
    missing = _missing(len(marks) - len(shown), hidden, len(trace.processes()) - len(lanes))
    label = f"Space-time diagram of {svg.duration(end_ns - start_ns)}"
    return Picture(svg.drawing(WIDTH, chart.height, parts, label), missing)


def _most_important(marks: list[TraceEvent]) -> list[TraceEvent]:
    """Faults always; of the rest, those nearest to the middle of the picture."""
    if len(marks) <= EVENTS_MAX:
        return marks
    middle = (marks[0].real_t + marks[-1].real_t) / 2
    plain = (MULTICAST, DELIVER, ORDERED)
    ranked = sorted(marks, key=lambda e: (e.kind in plain, abs(e.real_t - middle)))
    kept = {id(event) for event in ranked[:EVENTS_MAX]}
    return [event for event in marks if id(event) in kept]


def _lanes(shown: list[TraceEvent], trace: Trace) -> list[int]:
    """Everybody in groups' order if there is room, else those with something to show."""
    order = [p for group in trace.groups for p in group]
    order += [p for p in sorted(trace.processes()) if p not in set(order)]
    if len(order) <= PROCESSES_MAX:
        return order
    busy = {event.proc for event in shown}
    troubled = [e.proc for e in shown if e.kind not in (MULTICAST, DELIVER, ORDERED)]
    wanted = list(dict.fromkeys([*troubled, *(p for p in order if p in busy)]))[:PROCESSES_MAX]
    return [p for p in order if p in set(wanted)]


class _Chart:
    def __init__(self, start: int, end: int, lanes: Sequence[int], zero: int) -> None:
        self.start, self.end, self.zero = start, end, zero
        self.lane = {process: TOP + LANE * (i + 0.5) for i, process in enumerate(lanes)}
        self.height = TOP + LANE * len(lanes) + BOTTOM

    def x(self, event_ns: int) -> float:
        share = (event_ns - self.start) / max(1, self.end - self.start)
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def axes(self, names: Mapping[int, str], since: str) -> list[str]:
        parts = []
        for process, y in self.lane.items():
            name = names.get(process, f"p{process}")
            short = name if len(name) <= 13 else name[:12] + "…"
            parts.append(svg.text(0, y + 4, short, class_="strong"))
            parts.append(svg.line(LEFT, y, WIDTH - RIGHT, y, "axis"))
        bottom = self.height - BOTTOM
        for value in svg.ticks(self.start - self.zero, self.end - self.zero, 8):
            x = self.x(int(value) + self.zero)
            parts.append(svg.line(x, TOP, x, bottom, "grid"))
            parts.append(svg.text(x, bottom + 16, svg.duration(value), "middle"))
        if self.start < self.zero < self.end:  # also if no process shown here had the fault
            parts.append(svg.line(self.x(self.zero), TOP, self.x(self.zero), bottom, "fault"))
        parts.append(svg.text(WIDTH - RIGHT, self.height - 3, f"time since {since}", "end"))
        return parts


def _marks(shown: Iterable[TraceEvent], chart: _Chart) -> list[str]:
    parts = []
    busy_until: dict[tuple[int, bool], float] = {}
    for event in shown:
        if event.proc not in chart.lane:
            continue
        x, y = chart.x(event.real_t), chart.lane[event.proc]
        class_, sign = MARKS[event.kind]
        words = sign if event.msg is None else message_name(event.msg)
        circle = svg.element(
            "circle", svg.title(_story(event, chart)), cx=x, cy=y, r=4.0, class_=class_
        )
        parts.append(circle)
        below = event.kind == DELIVER
        wide = svg.width_of(words)
        if x - wide / 2 > busy_until.get((event.proc, below), 0.0):  # else its title has to do
            anchor_y = y + 17 if below else y - 9
            parts.append(svg.text(x, anchor_y, words, "middle", f"small {class_}-label"))
            busy_until[event.proc, below] = x + wide / 2 + 3
    return parts


def _story(event: TraceEvent, chart: _Chart) -> str:
    about = "" if event.msg is None else f" {message_name(event.msg)}"
    stamp = "" if event.ts is None else f" at {event.ts}"
    detail = f": {event.detail}" if event.detail else ""
    return f"{svg.duration(event.real_t - chart.zero)}: {event.kind}{about}{stamp}{detail}"


def _arrows(
    events: list[TraceEvent], shown: list[TraceEvent], chart: _Chart
) -> tuple[list[str], int]:
    drawn = _between_lanes(_transmissions(events), chart)
    hidden = 0
    if not drawn or len(drawn) > ARROWS_MAX:
        hidden = len(drawn)
        drawn = _between_lanes(_deliveries(events, shown), chart)
    parts = []
    for sent, got in drawn[:ARROWS_MAX]:
        x1, y1 = chart.x(max(sent.real_t, chart.start)), chart.lane[sent.proc]
        x2, y2 = chart.x(got.real_t), chart.lane[got.proc]
        about = " ".join(message_name(m) for m in got.about) or (
            message_name(got.msg) if got.msg else ""
        )
        parts.append(
            svg.element(
                "line",
                svg.title(f"{got.detail} {about}".strip()),
                x1=x1,
                y1=y1,
                x2=x2,
                y2=y2,
                class_="arrow",
                marker_end="url(#tip)",
            )
        )
    return parts, hidden


def _between_lanes(pairs: list[_Pair], chart: _Chart) -> list[_Pair]:
    lanes = chart.lane
    return [(a, b) for a, b in pairs if a.proc != b.proc and a.proc in lanes and b.proc in lanes]


def _transmissions(events: list[TraceEvent]) -> list[_Pair]:
    left = {e.copy: e for e in events if e.kind == SEND and e.copy is not None}
    got = [e for e in events if e.kind == RECEIVE]
    return [(left[e.copy], e) for e in got if e.copy in left]


def _deliveries(events: list[TraceEvent], shown: list[TraceEvent]) -> list[_Pair]:
    wanted = [e for e in shown if e.kind == DELIVER and e.layer == "" and e.msg is not None]
    sent: dict[MessageKey | None, TraceEvent] = {}
    for event in events:
        if event.kind == MULTICAST and event.layer == "":
            sent.setdefault(event.msg, event)
    return [(sent[e.msg], e) for e in wanted if e.msg in sent]


def _missing(marks: int, arrows: int, processes: int) -> str:
    told = [
        f"{number:,} {what}"
        for number, what in (
            (marks, "multicasts and deliveries"),
            (arrows, "transmissions"),
            (processes, "processes"),
        )
        if number > 0
    ]
    return f"Not shown here, for lack of room: {', '.join(told)}." if told else ""
