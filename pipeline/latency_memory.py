"""The figures of latency.py and rates.py, in memory: for runs that fit there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shmcast.multicast.checks.trace import CRASH, DELIVER, MULTICAST, MessageKey, Trace, TraceEvent
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.pipeline.latency import (
    AFTER,
    BEFORE,
    COMPLETION,
    DELIVERY,
    DURING,
    FAULTS,
    NO_GROUP,
    ORDERED,
    FaultWindow,
    Key,
    Latencies,
    Summary,
    group_of,
    merged,
)
from shmcast.realtime.histogram import WORDS, Histogram

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """What was measured: `part` as in latency.Key."""

    part: Times
    began: Times
    ended: Times

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]]) -> Spans:
        columns = np.array(list(rows), dtype=np.int64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2])


def latencies(info: RunInfo, trace: Trace) -> Latencies:
    groups = group_of(info.groups)
    sent = first_multicasts(trace)
    deliveries, completions, delivered = _spans(trace, sent, groups)
    faults = fault_windows(trace, deliveries, groups)
    busy = merged(faults)
    cells = {
        **_cells(DELIVERY, deliveries, busy, info.bound_ns),
        **_cells(COMPLETION, completions, busy, info.bound_ns),
    }
    return Latencies(
        run=info.run,
        protocol=info.protocol,
        bound_ns=info.bound_ns,
        multicasts=len(sent),
        undelivered=len(sent.keys() - delivered),
        cells=cells,
        faults=faults,
    )


def first_multicasts(trace: Trace) -> dict[MessageKey, TraceEvent]:
    """By message; of a retry the first attempt."""
    found: dict[MessageKey, TraceEvent] = {}
    for event in trace.events:
        if event.kind == MULTICAST and event.layer == "" and event.msg is not None:
            known = found.get(event.msg)
            if known is None or event.real_t < known.real_t:
                found[event.msg] = event
    return found


def _spans(
    trace: Trace, sent: dict[MessageKey, TraceEvent], groups: dict[int, int]
) -> tuple[Spans, Spans, set[MessageKey]]:
    deliveries: list[tuple[int, int, int]] = []
    ordered: dict[MessageKey, int] = {}
    delivered: set[MessageKey] = set()
    for event in trace.events:
        if event.layer != "" or event.msg is None or event.msg not in sent:
            continue
        began = sent[event.msg]
        if event.kind == DELIVER:
            delivered.add(event.msg)
            deliveries.append((groups.get(event.proc, NO_GROUP), began.real_t, event.real_t))
        elif event.kind == ORDERED and event.proc == began.proc:
            ordered[event.msg] = min(event.real_t, ordered.get(event.msg, event.real_t))
    completions = ((len(sent[m].dest), sent[m].real_t, at) for m, at in ordered.items())
    return Spans.of(deliveries), Spans.of(completions), delivered


def fault_windows(
    trace: Trace, deliveries: Spans, groups: dict[int, int]
) -> tuple[FaultWindow, ...]:
    """In order of time. A crash that several have witnessed is one."""
    if not trace.events:
        return ()
    last = max(event.real_t for event in trace.events)
    fresh = {part: _Fresh(deliveries, part) for part in (None, *set(groups.values()))}
    found: list[FaultWindow] = []
    crashes: dict[tuple[int, int], TraceEvent] = {}
    rows = []
    for event in trace.events:
        if event.kind == CRASH:
            known = crashes.get(event.participant)
            if known is None or event.real_t < known.real_t:
                crashes[event.participant] = event
        elif event.kind in FAULTS:
            rows.append(event)
    for event in (*rows, *crashes.values()):
        end = fresh[groups.get(event.proc)].delivered_after(event.real_t)
        found.append(
            FaultWindow(
                event.real_t,
                last if end is None else end,
                event.proc,
                event.kind,
                event.detail,
                end is not None,
            )
        )
    return tuple(sorted(found))


class _Fresh:
    """When a group first delivers something that was multicast at some time or later."""

    def __init__(self, deliveries: Spans, part: int | None) -> None:
        mine = slice(None) if part is None else deliveries.part == part
        began, ended = deliveries.began[mine], deliveries.ended[mine]
        order = np.argsort(began, kind="stable")
        self.began = began[order]
        self.first_end = np.minimum.accumulate(ended[order][::-1])[::-1]

    def delivered_after(self, at: int) -> int | None:
        index = int(np.searchsorted(self.began, at, side="left"))
        return None if index == len(self.began) else max(at, int(self.first_end[index]))


def _cells(
    measure: str, spans: Spans, busy: list[tuple[int, int]], bound_ns: int | None
) -> dict[Key, Summary]:
    phase_of = phases(spans, busy)
    took = spans.ended - spans.began
    found = {}
    for part in np.unique(spans.part):
        for phase in (BEFORE, DURING, AFTER):
            mine = took[(spans.part == part) & (phase_of == phase)]
            if len(mine):
                found[Key(measure, int(part), phase)] = summary_of(mine, bound_ns)
    return found


def phases(spans: Spans, busy: list[tuple[int, int]]) -> npt.NDArray[np.str_]:
    if not busy:
        return np.full(len(spans.began), BEFORE)
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*busy, strict=True))
    # The first interval that ends no earlier than the span begins is the one it can overlap.
    candidate = np.searchsorted(ends, spans.began, side="left")
    inside = candidate < len(starts)
    over = np.zeros(len(spans.began), dtype=bool)
    over[inside] = starts[candidate[inside]] <= spans.ended[inside]
    calm = np.where(spans.ended < starts[0], BEFORE, AFTER)
    return np.where(over, DURING, calm)


def summary_of(took_ns: Times, bound_ns: int | None) -> Summary:
    misses = 0 if bound_ns is None else int((took_ns > bound_ns).sum())
    backwards = int((took_ns < 0).sum())
    times = np.maximum(took_ns, 0)
    return Summary(histogram_of(times), misses, backwards)


def histogram_of(times_ns: Times) -> Histogram:
    if not len(times_ns):
        return Histogram((0,) * WORDS)
    counts = np.bincount(buckets_of(times_ns), minlength=WORDS)
    return Histogram(tuple(int(count) for count in counts), int(times_ns.max()))


def buckets_of(times_ns: Times) -> npt.NDArray[np.int64]:
    """realtime.histogram.bucket_of, for many; whole numbers all the way, so it is exact."""
    exponent = np.zeros(len(times_ns), dtype=np.int64)
    rest = times_ns.copy()
    for step in (32, 16, 8, 4, 2, 1):
        large = rest >> step > 0
        exponent[large] += step
        rest[large] >>= step
    shift = np.maximum(exponent - 3, 0)
    wide = (exponent - 2) << 3 | (times_ns >> shift & 7)
    return np.minimum(np.where(times_ns < 8, times_ns, wide), WORDS - 1)
