"""``shmcast bench bounds`` for people: tables, verdicts, pictures; and the page beside the JSON."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shmcast.cli.bounds_plan import CLASSES, PROTOCOLS
from shmcast.cli.bounds_run import CALIBRATED, MARGIN, PERCENTILE
from shmcast.cli.output import millis
from shmcast.realtime.histogram import Histogram, low_of

_WIDTH = 50
_PAGE_WIDTH = 190


def _short(ns: float) -> str:
    return f"{ns:.0f} ns" if ns < 10_000 else millis(ns)


def _columns(*left: str) -> Table:
    table = Table(box=None, pad_edge=False)
    titles = (*left, "operations", "p50", "p99", "p99.9", "p99.99", "worst", "bound", "misses")
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", no_wrap=True)
    return table


def _times(figures: dict[str, Any]) -> list[str]:
    names = ("p50_ns", "p99_ns", "p99.9_ns", "p99.99_ns", "maximum_ns", "bound_ns")
    return ["—" if figures[name] is None else _short(figures[name]) for name in names]


def _cells(done: dict[str, Any]) -> Table:
    table = _columns("cell", "")
    table.add_column("rejected", justify="right")
    table.add_column("misses because of (several may be true of one)")
    for name, part in done.items():
        if "cells" in part:
            table.add_row(f"[bold]{name}[/]")
        for cell in part.get("cells", ()):
            for what in ("send", "receive"):
                f = cell[what]
                causes = sorted(f["causes"].items(), key=lambda item: -item[1])
                table.add_row(
                    cell["title"] if what == "send" else "",
                    what,
                    str(f["operations"]),
                    *_times(f),
                    f"[red]{f['misses']}[/]" if f["misses"] else "0",
                    str(cell["decided_against"] if what == "receive" else f["rejected"]),
                    ", ".join(f"{cause} {count}" for cause, count in causes),
                )
    return table


def _why(causes: list[str]) -> str:
    return " + ".join(causes)


def _worst(done: dict[str, Any]) -> Table:
    """The longest operations, kept bounds or not, and what the kernel says of each."""
    table = Table(box=None, pad_edge=False)
    for title in ("cell", "", "longest operations, and why"):
        table.add_column(title)
    for name, part in done.items():
        for cell in part.get("cells", ()):
            for what in ("send", "receive"):
                each = [
                    f"{_short(w['took_ns'])} {_why(w['causes'])}"
                    for w in cell[what].get("worst", ())
                ]
                title = f"{name}, {cell['title']}" if what == "send" else ""
                table.add_row(title, what, ", ".join(each))
    return table


def _classes(found: dict[str, Any]) -> Table:
    table = _columns("every", "", "class")
    period = f"{found['period_ns'] / 1e6:g} ms"
    for task in ("send", "receive"):
        for name, f in found[task].items():
            table.add_row(period, task, name, str(f["jobs"]), *_times(f), str(f["beyond_bound"]))
    return table


def draw(screen: Console, title: str, h: Histogram, bound_ns: int) -> None:
    """One line per power of two; the bound where it belongs; the length is logarithmic."""
    screen.print(f"\n[bold]{title}[/]: {h.total} operations")
    octaves: dict[int, int] = {}
    for bucket, count in h.pairs():
        octave = max(1, low_of(bucket)).bit_length() - 1
        octaves[octave] = octaves.get(octave, 0) + count
    if not octaves:
        return
    at = bound_ns.bit_length() - 1
    for octave in range(min(octaves), max(*octaves, at) + 1):
        count = octaves.get(octave, 0)
        bar = "█" * round(_WIDTH * np.log1p(count) / np.log1p(h.total))
        mark = f"  ◀ bound {_short(bound_ns)}" if octave == at else ""
        colour = "red" if octave > at else "green"
        screen.print(f"{_short(1 << octave):>9} [{colour}]{bar}[/] {count or ''}{mark}")


def _pictures(done: dict[str, Any]) -> Iterator[tuple[str, Histogram, int]]:
    for protocol in PROTOCOLS:
        for name in ("idle", "loaded"):
            for cell in done.get(f"{protocol}-{name}", {}).get("cells", ()):
                if cell["copies"] == 3:
                    for what in ("send", "receive"):
                        h = Histogram.sparse(cell[what]["histogram"], cell[what]["maximum_ns"])
                        yield f"{protocol}, {what}, n=3, {name}", h, cell[what]["bound_ns"]


def show(screen: Console, report: dict[str, Any]) -> None:
    done, found = report["parts"], report["summary"]
    if any("cells" in part for part in done.values()):
        screen.print(_cells(done))
        screen.print()
        screen.print(_worst(done))
    if CLASSES in done:
        screen.print("\nfrom release to completion, under load, by scheduling class:")
        screen.print(_classes(done[CLASSES]["classes"]))
    for title, h, bound_ns in _pictures(done):
        draw(screen, title, h, bound_ns)
    screen.print()
    for protocol, by_end in found["slope"].items():
        for what, line in by_end.items():
            each = line["ns_per_copy_by_round"]
            screen.print(
                f"{protocol}, {what}: {line['ns_per_copy']} ns per copy + {line['ns_fixed']} ns, "
                f"r² {line['r2']}; by round {each['quarter']} to {each['three_quarters']} ns"
            )
    for row in found["verdicts"]:
        mark = "[green]yes[/]" if row["holds"] else "[red]no [/]"
        screen.print(f"{mark} {row['claim']}: {row['figure']}", soft_wrap=True)
    if report["missing"]:
        screen.print(f"not measured: {', '.join(report['missing'])}")


def _bounds(settings: dict[str, Any]) -> str:
    if settings["bounds"] == CALIBRATED:
        return (
            f"Bounds: as calibration {settings['calibration']} proposes them, "
            f"p{PERCENTILE:g} × {MARGIN:g}."
        )
    return "Bounds: fixed ones, so short that ordinary processes under load break them."


def page(report: dict[str, Any], command: str) -> str:
    """The same as a file."""
    text = StringIO()
    show(Console(file=text, width=_PAGE_WIDTH, color_system=None), report)
    machine = report["settings"]["machine"]
    body = "\n".join(line.rstrip() for line in text.getvalue().splitlines())
    return (
        "# Bounded completion time\n\n"
        f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, clock "
        f"{machine['clock_source']}, {report['finished']}, {report['took_s']:.0f} s.\n"
        f"Made by `{command}`. {_bounds(report['settings'])}\n\n```text\n{body}\n```\n"
    )
