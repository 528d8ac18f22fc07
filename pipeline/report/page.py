"""A recorded run as one HTML file: nothing is fetched, and everything of the record is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmcast.multicast.checks.trace import DELIVER, MULTICAST, Trace
from shmcast.multicast.traces.reader import Record
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.pipeline.latency import (
    COMPLETION,
    DELIVERY,
    MEASURES,
    PHASES,
    FaultWindow,
    Latencies,
    Summary,
    merged,
)
from shmcast.pipeline.latency_memory import latencies
from shmcast.pipeline.rates import Rates, rates
from shmcast.pipeline.regression import FIGURES, Regression, compare
from shmcast.pipeline.report import svg
from shmcast.pipeline.report.histograms import histograms
from shmcast.pipeline.report.spacetime import Picture, around
from shmcast.pipeline.report.throughput import throughput
from shmcast.pipeline.report.verdict import Judgement

FAULTS_LISTED, PICTURES_MAX = 40, 3
QUIET_PICTURE_EVENTS = 60
_PHASE_TITLES = {"before": "before faults", "during": "during faults", "after": "after faults"}
_TITLES = {DELIVERY: "Delivery", COMPLETION: "Completion"}
_MEANINGS = {
    DELIVERY: "from a multicast to each delivery of it",
    COMPLETION: "from a multicast until its sender knows that it is ordered",
}


@dataclass(frozen=True, slots=True)
class Extent:
    """Of a whole run, which its record in memory is but a sample of."""

    start_ns: int
    end_ns: int
    clients: int
    rates: Rates


@dataclass(frozen=True, slots=True)
class Report:
    record: Record
    judgement: Judgement
    latencies: Latencies
    regression: Regression | None
    earlier: Latencies | None
    extent: Extent

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run": self.record.info.run,
            "protocol": self.record.info.protocol,
            "verdict": self.judgement.word,
            "properties": self.judgement.to_json(),
            "gaps": self.record.gaps.words(),
            "latencies": self.latencies.to_json(),
        }
        if self.regression is not None:
            found["against"] = {
                "run": self.regression.earlier,
                "notes": list(self.regression.notes),
                "changes": [c._asdict() for c in self.regression.changes],
            }
        return found


def analyse(record: Record, judgement: Judgement, earlier: Latencies | None = None) -> Report:
    found = latencies(record.info, record.trace)
    regression = None if earlier is None else compare(earlier, found)
    return Report(record, judgement, found, regression, earlier, _extent(record))


def _extent(record: Record) -> Extent:
    times = [event.real_t for event in record.trace.events]
    clients = len(record.trace.processes()) - len(record.info.members)
    whole = rates(record.trace, record.info.groups)
    return Extent(min(times, default=0), max(times, default=0), clients, whole)


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands above several runs that belong together."""

    title: str
    facts: str
    word: str  # passed, violated, undetermined
    sentence: str
    tiles: tuple[Mapping[str, str], ...]
    table_title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def html(*reports: Report, opening: Opening | None = None) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["duration"] = svg.duration
    environment.filters["drawing"] = Markup  # made by svg.py, which escapes what it is given
    run = environment.from_string(_beside("run.html.j2"))
    named = (f"{report.record.info.run}: {report.judgement.word}" for report in reports)
    title = opening.title if opening else ", ".join(named)
    return environment.from_string(_beside("page.html.j2")).render(
        style=Markup(_beside("page.css")),
        title=title,
        opening=opening,
        runs=[Markup(run.render(**_content(report))) for report in reports],
    )


def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _content(report: Report) -> dict[str, Any]:
    info, trace, found = report.record.info, report.record.trace, report.latencies
    group_names = _group_names(info)
    zero, its = report.extent.start_ns, report.extent.rates
    return {
        "info": info,
        "shape": _shape(info, report.extent),
        "judgement": report.judgement,
        "gaps": report.record.gaps.words(),
        "tiles": _tiles(report),
        "faults": _fault_rows(found.faults, info.names, zero),
        "faults_left_out": max(0, len(found.faults) - FAULTS_LISTED),
        "pictures": _pictures(trace, found.faults, zero, info.names),
        "measures": [_measure(report, m, group_names) for m in MEASURES if found.of(m).count],
        "throughput": (
            throughput(its, found.faults, group_names)
            if any(map(any, its.deliveries.values()))
            else ""
        ),
        "regression": report.regression,
        "figures": FIGURES,
        "changes": _changes(report.regression, group_names),
    }


def _group_names(info: RunInfo) -> dict[int, str]:
    """What its members have in common: g1.a and g1.b are g1."""
    found = {-1: "no group"}
    for number, group in enumerate(info.groups):
        firsts = {info.names.get(member, "").rpartition(".")[0] for member in group}
        common = firsts.pop() if len(firsts) == 1 else ""
        taken = common in found.values()
        found[number] = common if common and not taken else f"group {number}"
    return found


def _shape(info: RunInfo, extent: Extent) -> str:
    sizes = sorted({len(group) for group in info.groups})
    each = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}–{sizes[-1]}" if sizes else "0"
    return " · ".join(
        (
            f"{_many(len(info.groups), 'group')} of {each}",
            _many(extent.clients, "client"),
            svg.duration(extent.end_ns - extent.start_ns),
        )
    )


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _tiles(report: Report) -> list[dict[str, str]]:
    found = report.latencies
    delivery = found.of(DELIVERY)
    tiles = [
        tile("messages", f"{found.multicasts:,}", _undelivered(found)),
        tile("deliveries", f"{delivery.count:,}", ""),
        tile("worst delivery", _worst(delivery), _against(delivery, found.bound_ns),
              "bad" if delivery.misses else ""),
    ]  # fmt: skip
    completion = found.of(COMPLETION)
    if completion.count:
        tiles.append(
            tile("worst completion", _worst(completion), _against(completion, found.bound_ns),
                  "bad" if completion.misses else "")
        )  # fmt: skip
    pauses = [fault.pause_ns for fault in found.faults]
    longest = f"longest pause {svg.duration(max(pauses))}" if pauses else "none on record"
    tiles.append(tile("faults", f"{len(pauses):,}", longest))
    return tiles


def tile(name: str, value: str, note: str, word: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "note": note, "word": word}


def _undelivered(found: Latencies) -> str:
    return f"{found.undelivered:,} not delivered" if found.undelivered else "all delivered"


def _worst(summary: Summary) -> str:
    return svg.duration(summary.most_ns) if summary.count else "–"


def _against(summary: Summary, bound_ns: int | None) -> str:
    if bound_ns is None:
        return "no bound"
    if summary.misses:
        return f"{summary.misses:,} beyond {svg.duration(bound_ns)}"
    return f"bound {svg.duration(bound_ns)}"


def _fault_rows(
    faults: Sequence[FaultWindow], names: Mapping[int, str], zero: int
) -> list[dict[str, str]]:
    return [
        {
            "number": str(number),
            "at": svg.duration(fault.start_ns - zero),
            "who": names.get(fault.proc, f"p{fault.proc}"),
            "kind": fault.kind,
            "detail": fault.detail,
            "pause": svg.duration(fault.pause_ns) if fault.recovered else "until the end",
        }
        for number, fault in enumerate(faults[:FAULTS_LISTED], 1)
    ]


def _pictures(
    trace: Trace, faults: Sequence[FaultWindow], zero: int, names: Mapping[int, str]
) -> list[tuple[str, Picture]]:
    """The longest pauses, with as much time before and after as they took; or the beginning."""
    if not trace.events:
        return []
    if not faults:
        marked = [e.real_t for e in trace.events if e.kind in (MULTICAST, DELIVER)]
        if not marked:
            return []
        start, end = min(marked), sorted(marked)[min(len(marked), QUIET_PICTURE_EVENTS) - 1]
        margin = quiet_margin(start, end)
        found = around(trace, start - margin, end + margin, zero, names)
        return [("The first messages: no fault is on record", found)]
    longest = sorted(merged(faults), key=lambda w: w[0] - w[1])[:PICTURES_MAX]
    pictures = []
    for start, end in sorted(longest):
        inside = [str(n) for n, f in enumerate(faults, 1) if start <= f.start_ns <= end]
        margin = margin_of(start, end)
        told = "Faults" if len(inside) > 1 else "Fault"
        span = inside[0] if len(inside) == 1 else f"{inside[0]} to {inside[-1]}"
        picture = around(trace, start - margin, end + margin, start, names, since="the fault")
        pictures.append((f"{told} {span}, at {svg.duration(start - zero)}", picture))
    return pictures


def quiet_margin(start_ns: int, end_ns: int) -> int:
    return max(1, (end_ns - start_ns) // 20)


def margin_of(start_ns: int, end_ns: int) -> int:
    """What a picture shows before and after."""
    return max(1, (end_ns - start_ns) // 3)


def _measure(report: Report, measure: str, group_names: Mapping[int, str]) -> dict[str, Any]:
    found = report.latencies
    if found.faults:
        panels = [(_PHASE_TITLES[p], found.of(measure, phase=p)) for p in PHASES]
    else:
        panels = [("whole run", found.of(measure))]
    earlier = None if report.earlier is None else report.earlier.of(measure)
    overlay = [("whole run", found.of(measure)), *panels] if earlier and found.faults else panels
    rows = [
        (_part_name(measure, part, group_names), found.of(measure, part=part))
        for part in found.parts(measure)
    ]
    if found.faults:
        rows += [(title, summary) for title, summary in panels if summary.count]
    rows.append(("whole run", found.of(measure)))
    return {
        "title": _TITLES[measure],
        "meaning": _MEANINGS[measure],
        "drawing": histograms(
            overlay, found.bound_ns, f"{_TITLES[measure]} times",
            earlier if earlier and earlier.count else None,
        ),
        "rows": rows,
        "bound_ns": found.bound_ns,
        "backwards": found.of(measure).backwards,
    }  # fmt: skip


def _part_name(measure: str, part: int | None, group_names: Mapping[int, str]) -> str:
    if part is None:
        return "whole run"
    if measure == COMPLETION:
        return f"to {_many(part, 'group')}"
    return group_names.get(part, f"group {part}")


def _changes(regression: Regression | None, group_names: Mapping[int, str]) -> list[dict[str, Any]]:
    """A row per measure and part, with a cell per figure."""
    rows: dict[str, list[dict[str, str]]] = {}
    for change in regression.changes if regression is not None else ():
        what = f"{_TITLES[change.measure]}, {_part_name(change.measure, change.part, group_names)}"
        ratio = f"{change.ratio:.2f} ×" if change.earlier_ns else "–"
        rows.setdefault(what, []).append(
            {
                "now": svg.duration(change.now_ns),
                "earlier": svg.duration(change.earlier_ns),
                "ratio": ratio,
                "word": change.word,
            }
        )
    return [{"what": what, "cells": cells} for what, cells in rows.items()]
