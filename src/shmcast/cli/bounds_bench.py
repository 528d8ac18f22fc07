"""``shmcast bench bounds``: how long operations really take, against the bound that they have."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from shmcast.cli.bounds_run import Cell, Result, run
from shmcast.cli.output import console, emit_json, millis
from shmcast.realtime.calibrate import this_machine
from shmcast.realtime.histogram import EMPTY, Histogram, low_of
from shmcast.realtime.load import KINDS
from shmcast.realtime.measure import permitted_classes

PROTOCOLS = ("eager", "crash", "timing")
COPIES = (1, 2, 3, 4, 5)
_WIDTH = 50

app = typer.Typer(no_args_is_help=True, help="Measure; for figures against peers see bench/.")


@app.callback()
def _family() -> None:
    pass


def cells(operations: int, *, quick: bool) -> list[Cell]:
    """At least `operations` sends and receives per protocol, shared by copies and loads; then one
    copy and one process killed; then what the table of §4.1 says has no influence; then classes."""
    each = -(-operations // (2 * len(COPIES)))
    found = [
        Cell(protocol, copies, load, each)
        for protocol in PROTOCOLS
        for load in ((), KINDS)
        for copies in COPIES
    ]
    found += [Cell(protocol, 3, (), each, faults=True) for protocol in PROTOCOLS]
    many = 8 if quick else 32
    found += [Cell("eager", 3, (), each, connected=count) for count in (2, many)]
    found += [Cell("eager", 3, KINDS, each, kernel_class=c) for c in permitted_classes()]
    return found


def slope(results: Iterable[Result], protocol: str) -> dict[str, float]:
    """Of the median send over the number of copies, idle; r² says how straight the line is."""
    plain = [r for r in results if r.cell.protocol == protocol and _is_plain(r.cell)]
    n = np.array([r.cell.copies for r in plain], dtype=float)
    ns = np.array([_median(r.send.histogram) for r in plain], dtype=float)
    a, b = np.polyfit(n, ns, 1)
    spread = float(((ns - ns.mean()) ** 2).sum())
    r2 = 1 - float(((ns - (a * n + b)) ** 2).sum()) / spread if spread else 1.0
    return {"ns_per_copy": round(float(a), 1), "ns_fixed": round(float(b), 1), "r2": round(r2, 4)}


def _median(h: Histogram) -> float:
    """Inside its bucket by the share of counts: a bucket is too wide for slopes."""
    half, seen = h.total / 2, 0
    for bucket, count in enumerate(h.counts):
        if seen + count >= half and count:
            low, high = low_of(bucket), low_of(bucket + 1)
            return low + (high - low) * (half - seen) / count
        seen += count
    return 0.0


def _is_plain(cell: Cell) -> bool:
    return not cell.load and not cell.faults and cell.connected == 2 and cell.operations > 0


def connected(results: list[Result]) -> dict[str, Any]:
    first, second = [r for r in results if _asks_connected(results, r)][-2:]
    a, b = _median(first.send.histogram), _median(second.send.histogram)
    ra, rb = _median(first.receive.histogram), _median(second.receive.histogram)
    return {
        "processes": [first.cell.connected, second.cell.connected],
        "send_p50_ns": [round(a), round(b)],
        "send_ratio": round(b / a, 3),
        "receive_p50_ns": [round(ra), round(rb)],
        "receive_ratio": round(rb / ra, 3),
    }


def _asks_connected(results: list[Result], r: Result) -> bool:
    at = results.index(r)
    here = r.cell.connected != 2
    after = at + 1 < len(results) and results[at + 1].cell.connected != 2
    return here or after


def classes(results: list[Result]) -> dict[str, Any]:
    """SCHED_FIFO against SCHED_OTHER under load, in this run."""
    found = {r.cell.kernel_class: r for r in results[-2:] if r.cell.load}
    if set(found) != {"other", "fifo"}:
        return {"note": "SCHED_FIFO is not permitted here: no comparison"}
    other, fifo = (found[c].send.histogram.percentile(99.9) for c in ("other", "fifo"))
    rother, rfifo = (found[c].receive.histogram.percentile(99.9) for c in ("other", "fifo"))
    return {
        "send_p99.9_ns": {"other": other, "fifo": fifo},
        "send_ratio": round(other / max(1, fifo), 2),
        "receive_p99.9_ns": {"other": rother, "fifo": rfifo},
        "receive_ratio": round(rother / max(1, rfifo), 2),
    }


def report(results: list[Result]) -> dict[str, Any]:
    totals = {}
    for protocol in PROTOCOLS:
        mine = [r for r in results if r.cell.protocol == protocol]
        totals[protocol] = {
            "sends": sum(r.send.operations for r in mine),
            "receives": sum(r.receive.operations for r in mine),
            "send_misses": sum(r.send.misses for r in mine),
            "receive_misses": sum(r.receive.misses for r in mine),
            "slope": slope(results, protocol),
        }
    return {
        "machine": asdict(this_machine()),
        "totals": totals,
        "connected": connected(results),
        "classes": classes(results),
        "cells": [r.to_json() for r in results],
    }


# ---- for people ----


def _table(results: list[Result]) -> Table:
    table = Table(box=None, pad_edge=False)
    titles = ("cell", "", "operations", "p50", "p99", "p99.9", "p99.99", "worst", "bound", "misses")
    for title in titles:
        table.add_column(title, justify="left" if title in ("cell", "") else "right")
    table.add_column("rejected", justify="right")
    table.add_column("why")
    for r in results:
        for what, d in (("send", r.send), ("receive", r.receive)):
            h = d.histogram
            times = (h.percentile(p) for p in (50, 99, 99.9, 99.99))
            table.add_row(
                r.cell.title() if what == "send" else "",
                what,
                str(d.operations),
                *(_short(ns) for ns in (*times, h.most_ns, d.bound_ns)),
                f"[red]{d.misses}[/]" if d.misses else "0",
                str(d.rejected or ""),
                ", ".join(f"{c} {n}" for c, n in sorted(d.causes.items(), key=lambda i: -i[1])),
            )
    return table


def _short(ns: float) -> str:
    return f"{ns:.0f} ns" if ns < 10_000 else millis(ns)


def draw(screen: Console, title: str, h: Histogram, bound_ns: int) -> None:
    """One line per power of two; the bound where it belongs; the length is logarithmic."""
    screen.print(f"\n[bold]{title}[/]: {h.total} operations")
    octaves: dict[int, int] = {}
    for bucket, count in h.pairs():
        octaves.setdefault(max(1, low_of(bucket)).bit_length() - 1, 0)
        octaves[max(1, low_of(bucket)).bit_length() - 1] += count
    if not octaves:
        return
    at = bound_ns.bit_length() - 1
    for octave in range(min(octaves), max(*octaves, at) + 1):
        count = octaves.get(octave, 0)
        bar = "█" * round(_WIDTH * np.log1p(count) / np.log1p(h.total))
        mark = f"  ◀ bound {_short(bound_ns)}" if octave == at else ""
        colour = "red" if octave > at else "green"
        screen.print(f"{_short(1 << octave):>9} [{colour}]{bar}[/] {count or ''}{mark}")


def _show(results: list[Result], found: dict[str, Any]) -> None:
    screen = console()
    screen.print(_table(results))
    for protocol in PROTOCOLS:
        for loaded in (False, True):
            mine = [r for r in results if r.cell.protocol == protocol and r.cell.copies == 3
                    and bool(r.cell.load) == loaded and r.cell.kernel_class == "other"]  # fmt: skip
            total = sum((r.send.histogram for r in mine), EMPTY)
            name = f"{protocol}, sends, n=3, {'loaded' if loaded else 'idle'}"
            draw(screen, name, total, mine[0].send.bound_ns)
    screen.print()
    for protocol, t in found["totals"].items():
        s = t["slope"]
        screen.print(
            f"{protocol}: {t['sends']} sends, {t['receives']} receives, {t['send_misses']} and "
            f"{t['receive_misses']} beyond their bound; {s['ns_per_copy']} ns per copy + "
            f"{s['ns_fixed']} ns, r² {s['r2']}"
        )
    screen.print(f"connected: {found['connected']}")
    screen.print(f"SCHED_OTHER / SCHED_FIFO under load: {found['classes']}")


@app.command()
def bounds(
    *,
    operations: Annotated[int, typer.Option(help="Sends and receives per protocol.")] = 1_000_000,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of them.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Figures for machines.")] = False,
) -> None:
    """Bounded completion time: sends and receives of each protocol, 1 to 5 copies, idle, loaded,
    with a copy and a process killed; against their bounds, with the causes of misses."""
    todo = cells(operations // 10 if quick else operations, quick=quick)
    results = []
    started = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), disable=json, transient=True) as bar:
        task = bar.add_task("", total=len(todo))
        for i, cell in enumerate(todo):
            bar.update(task, completed=i, description=f"{cell.title():<50}")
            results.append(run(cell))
    found = {**report(results), "took_s": round(time.monotonic() - started, 1)}
    if json:
        emit_json(found, indent=None)
    else:
        _show(results, found)
