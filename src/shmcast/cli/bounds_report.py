"""What the parts of ``shmcast bench bounds`` add up to: totals, slopes, ratios, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from shmcast.cli.bounds_plan import CLASSES, PROTOCOLS
from shmcast.cli.bounds_run import CALIBRATED, PERCENTILE

Record = dict[str, Any]  # of a cell, see bounds_plan.record
WANTED = 1_000_000
STRAIGHT = 0.10  # of a median from the line, in something that is called linear
ALIKE = 0.20


def _rounded(values: Sequence[float], digits: int = 3) -> list[float]:
    return [round(float(v), digits) for v in values]


def spread(values: Sequence[float]) -> dict[str, float]:
    least, low, middle, high, most = np.percentile(values, [0, 25, 50, 75, 100])
    names = ("median", "quarter", "three_quarters", "least", "most")
    return dict(zip(names, _rounded([middle, low, high, least, most]), strict=True))


def slope(cells: Sequence[Record], what: str) -> dict[str, Any]:
    """Of the medians over the number of copies, in rounds that were disturbed least: strangers on
    the cores only add time, so the lower quartile of the rounds. Every round also gives a slope
    of its own, since its cells were measured one after another. r² says how straight it is."""
    n = np.array([cell["copies"] for cell in cells], dtype=float)
    rounds = np.array([cell[what]["rounds_p50_ns"] for cell in cells])
    y = np.percentile(rounds, 25, axis=1)
    a, b = np.polyfit(n, y, 1)
    line = a * n + b
    variation = float(((y - y.mean()) ** 2).sum())
    r2 = 1 - float(((y - line) ** 2).sum()) / variation if variation else 1.0
    return {
        "p50_ns": dict(zip((int(k) for k in n), _rounded(y, 1), strict=True)),
        "ns_per_copy": round(float(a), 1),
        "ns_fixed": round(float(b), 1),
        "r2": round(r2, 4),
        "furthest_from_line": round(float(np.max(np.abs(y - line) / line)), 4),
        "ns_per_copy_by_round": spread([float(np.polyfit(n, r, 1)[0]) for r in rounds.T]),
    }


def connected(few: Record, many: Record) -> dict[str, Any]:
    """Ratios of rounds that follow each other; their median, because a round may be disturbed."""
    found: dict[str, Any] = {"processes": [few["connected"], many["connected"]]}
    for what in ("send", "receive"):
        a, b = (np.array(r[what]["rounds_p50_ns"]) for r in (few, many))
        found[what] = {"p50_ns": _rounded([np.median(a), np.median(b)], 1), **spread(b / a)}
    return found


def classes(found: dict[str, Any]) -> dict[str, Any]:
    """p99.9 of SCHED_OTHER over that of the real-time class."""
    ratios: dict[str, Any] = {}
    for task in ("send", "receive"):
        other = found[task]["other"]
        for name in ("fifo", "deadline"):
            if name not in found[task]:
                ratios[f"{task}, other/{name}"] = "this class is not permitted here"
                continue
            mine = found[task][name]
            pairs = zip(other["rounds_p99.9_ns"], mine["rounds_p99.9_ns"], strict=True)
            ratios[f"{task}, other/{name}"] = {
                "p99.9_ns": [other["p99.9_ns"], mine["p99.9_ns"]],
                "ratio": round(other["p99.9_ns"] / max(1, mine["p99.9_ns"]), 2),
                "by_round": spread([a / max(1, b) for a, b in pairs]),
            }
    return ratios


def totals(cells: Sequence[Record]) -> dict[str, int]:
    found = {"cells": len(cells)}
    for what in ("send", "receive"):
        for count in ("operations", "misses"):
            found[f"{what}_{count}"] = sum(cell[what][count] for cell in cells)
        found[f"{what}_worst_ns"] = max(cell[what]["maximum_ns"] for cell in cells)
    for count in ("decided_against", "violations"):
        found[count] = sum(cell[count] for cell in cells)
    return found


def summary(done: dict[str, Any], wanted: int = WANTED) -> dict[str, Any]:
    """Of all parts that were measured, by name."""
    found: dict[str, Any] = {"totals": {}, "slope": {}, "connected": {}}
    for protocol in PROTOCOLS:
        mine = [c for name, part in done.items() if name.startswith(protocol + "-")
                for c in part["cells"]]  # fmt: skip
        if mine:
            found["totals"][protocol] = totals(mine)
        if f"{protocol}-slope" in done:
            cells = done[f"{protocol}-slope"]["cells"]
            found["slope"][protocol] = {what: slope(cells, what) for what in ("send", "receive")}
        if f"{protocol}-connected" in done:
            found["connected"][protocol] = connected(*done[f"{protocol}-connected"]["cells"])
    if CLASSES in done:
        found["classes"] = classes(done[CLASSES]["classes"])
    return {**found, "verdicts": list(_verdicts(found, done, wanted))}


def _verdict(claim: str, figure: Any, holds: bool) -> Record:
    return {"claim": claim, "figure": figure, "holds": bool(holds)}


def kept(done: dict[str, Any], protocol: str) -> dict[str, Any]:
    """Operations against the bounds that calibration proposes, where nothing was killed."""
    found: dict[str, Any] = {}
    for name, part in done.items():
        cells = [c for c in part.get("cells", ()) if c["bounds"] == CALIBRATED and not c["faults"]]
        if not name.startswith(protocol + "-") or not cells:
            continue
        for what in ("send", "receive"):
            counts = found.setdefault(what, {"operations": 0, "misses": 0})
            for count in counts:
                counts[count] += sum(c[what][count] for c in cells)
    return found


def _kept_verdicts(done: dict[str, Any]) -> Iterator[Record]:
    """What a percentile promises of each step is asked of the whole operation."""
    may = 1 - PERCENTILE / 100
    for protocol in PROTOCOLS:
        for what, counts in kept(done, protocol).items():
            claim = f"{protocol}: {what} keeps calibrated bounds, but for {may:.2%} at most"
            share = counts["misses"] / max(1, counts["operations"])
            rows = {**counts, "share": round(share, 6)}
            yield _verdict(claim, rows, share <= may + 1e-12)


def _verdicts(found: dict[str, Any], done: dict[str, Any], wanted: int) -> list[Record]:
    rows = []
    for protocol, t in found["totals"].items():
        if not {f"{protocol}-idle", f"{protocol}-loaded"} <= done.keys():
            continue
        counts = [t["send_operations"], t["receive_operations"]]
        claim = f"{protocol}: at least {wanted} sends and receives"
        rows.append(_verdict(claim, counts, min(counts) >= wanted))
    killed = [c for part in done.values() for c in part.get("cells", ()) if c["faults"]]
    if killed:
        after = [c["killed_after"] for c in killed]
        claim = (
            "with a process and, of several, a copy killed midway every operation came to its end"
        )
        ended = all(
            c["send"]["operations"] == c["operations"]
            and c["receive"]["operations"] == 2 * c["operations"]
            and not c["send"]["error"] | c["receive"]["error"]
            for c in killed
        )
        figure = {"killed_after": _rounded([min(after), max(after)])}
        rows.append(_verdict(claim, figure, ended and max(after) < 1))
    for protocol, by_end in found["slope"].items():
        for what, line in by_end.items():
            claim = f"{protocol}: the cost of a {what} is linear in the copies, ± 10 %"
            off = line["furthest_from_line"]
            rows.append(_verdict(claim, off, off <= STRAIGHT))
    for protocol, pair in found["connected"].items():
        few, many = pair["processes"]
        for what in ("send", "receive"):
            claim = f"{protocol}: {what} with {many} processes as with {few}, ± 20 %"
            ratio = pair[what]["median"]
            rows.append(_verdict(claim, ratio, abs(ratio - 1) <= ALIKE))
    rows += _kept_verdicts(done)
    for name, ratio in found.get("classes", {}).items():
        if isinstance(ratio, dict):
            claim = f"under load p99.9 is smaller in the real-time class: {name}"
            rows.append(_verdict(claim, ratio["ratio"], ratio["ratio"] > 1))
    return rows
