"""``shmcast calibrate``: measure the time constants of this machine, propose bounds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from shmcast.cli.output import console, emit_json
from shmcast.mailbox.core import Protocol
from shmcast.realtime import calibrate as room
from shmcast.realtime import measure
from shmcast.realtime.bounds import Bounds
from shmcast.realtime.clock import epsilon_of_host, kernel_error
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.load import Load

_SYMBOLS = {"write": "δs", "flag": "δf", "decide": "δd", "read": "δr", "clear": "δfd"}


_LEFT_OUT = (
    "each step alone, on memory of this process: without intents, bells, figures, and cache lines "
    "that others use; `shmcast bench bounds --bounds calibrated` shows whether whole operations "
    "keep these bounds"
)


def measure_point(point: room.Point, samples: int, limit_s: float) -> Histogram:
    return measure.step(
        point.step,
        size=point.size,
        cold=point.cold,
        samples=samples,
        kernel_class=point.kernel_class,
        limit_s=limit_s,
    )


def _load(kinds: Sequence[str]) -> Load:
    return Load(*kinds)


_SIZES = (0, 64, 1024, 4096, 65536, 1 << 20)


def plan_for(*, message_size: int, quick: bool) -> room.Plan:
    """All sizes at least up to a mebibyte, so that other mailboxes can use the result as well."""
    beyond = takewhile(lambda size: size < message_size, (1 << at for at in range(24, 31, 4)))
    loads = ("idle", "cpu+memory+io") if quick else ("idle", "cpu", "memory", "io", "cpu+memory+io")
    return room.Plan(
        sizes=tuple(sorted({0, message_size} if quick else {*_SIZES, *beyond, message_size})),
        classes=tuple(measure.permitted_classes()),
        loads=loads,
        samples=2_000 if quick else 100_000,
    )


def run(plan: room.Plan, *, quiet: bool) -> room.Calibration:
    points = plan.points()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("calibrating", total=len(points))
        done = iter(range(len(points)))

        def tell(point: room.Point) -> None:
            size = f" {point.size} B" if point.step in room.SIZED else ""
            text = f"{point.step}{size}, {point.kernel_class}, {point.load}"
            bar.update(task, completed=next(done), description=f"{text:<40}")

        return room.calibrate(
            plan,
            measure=measure_point,
            load=_load,
            epsilon=lambda: epsilon_of_host(rounds=2_000, limit_s=20).observed_ns,
            progress=tell,
        )


def _rows(found: room.Calibration) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", "step", "size", "cache", "class", "load", "p50", "p99.9", "worst", "samples"):
        right = title in ("size", "p50", "p99.9", "worst", "samples")
        table.add_column(title, justify="right" if right else "left")
    for point, h in sorted(found.points.items(), key=lambda item: (item[0].load, item[0])):
        table.add_row(
            _SYMBOLS.get(point.step, "—"),
            point.step,
            str(point.size) if point.step in room.SIZED else "",
            "cold" if point.cold else "warm",
            point.kernel_class,
            point.load,
            f"{h.percentile(50)} ns",
            f"{h.percentile(99.9)} ns" if h.supports(99.9) else "—",
            f"{h.most_ns} ns",
            str(h.total),
        )
    return table


def _wall_clock() -> str:
    """Across hosts shmcast measures offsets itself; this is for those who trust NTP or PTP."""
    try:
        error = kernel_error()
    except OSError as refused:  # a container's filter
        return f"wall clock: the kernel does not say how good it is ({refused})"
    if not error.synchronised:
        return "wall clock: not synchronised by NTP or PTP"
    return (
        f"wall clock: within {error.most_ns / 1e6:g} ms of the true time, says NTP or PTP "
        f"(estimated: {error.estimated_ns / 1e6:g} ms)"
    )


def _proposal(bounds: Bounds, protocol: str) -> dict[str, Any]:
    constants = ("write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns", "epsilon_ns", "poll_ns")
    return {
        **{name: getattr(bounds, name) for name in constants},
        "copies": bounds.copies,
        "expiry_ns": bounds.expiry_ns,
        "calibration": bounds.calibration,
        "protocol": protocol,
        "send_ns": bounds.send_ns,
        "receive_ns": bounds.receive_ns(protocol),
        "latency_ns": bounds.latency_ns(protocol),
    }


def _stored_or_new(
    plan: room.Plan, *, stored: bool, quiet: bool, out: Path | None
) -> tuple[room.Calibration, Path]:
    if stored:
        path = out or room.default_path()
        return room.load_stored(path), path
    found = run(plan, quiet=quiet)
    return found, room.store(found, out)


def calibrate(
    *,
    copies: Annotated[int, typer.Option(help="Copies of the mailbox to propose bounds for.")] = 3,
    message_size: Annotated[int, typer.Option(help="Largest message, in bytes.")] = 4096,
    protocol: Annotated[Protocol, typer.Option()] = Protocol.TIMING,
    percentile: Annotated[float, typer.Option(help="Of the measured times; 100: worst.")] = 99.99,
    margin: Annotated[float, typer.Option(help="The percentile is multiplied by this.")] = 2.0,
    kernel_class: Annotated[str, typer.Option(help="other, fifo or deadline.")] = "other",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples, sizes, loads.")] = False,
    stored: Annotated[bool, typer.Option("--stored", help="Propose from the stored one.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to store it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Figures for machines.")] = False,
) -> None:
    """Measure the time constants of this machine, idle and under load; propose bounds.

    Every size, with warm and cold cache, in every scheduling class that is permitted: some minutes;
    seconds with --quick. Leave the machine alone meanwhile: it makes its own load.
    """
    started = time.monotonic()
    plan = plan_for(message_size=message_size, quick=quick)
    found, path = _stored_or_new(plan, stored=stored, quiet=json, out=out)
    bounds = found.propose(
        copies=copies,
        message_bytes=message_size,
        protocol=protocol,
        percentile=percentile,
        margin=margin,
        kernel_class=kernel_class,
    )
    thin = found.thin(message_bytes=message_size, percentile=percentile, kernel_class=kernel_class)
    if json:
        proposal = {**_proposal(bounds, protocol), "highest_percentiles": thin}
        emit_json({"stored": str(path), "proposal": proposal, "calibration": found.to_json()})
        return
    screen, m = console(), found.machine
    when = datetime.fromtimestamp(found.created_s, UTC).isoformat()
    screen.print(
        f"{m.processor}, {m.cores} cores, Linux {m.kernel}, clock {m.clock_source}, {when}"
    )
    screen.print(_rows(found))
    screen.print(f"ε observed between cores: {found.epsilon_ns} ns")
    screen.print(_wall_clock())
    if found.others > room.BUSY:
        screen.print(
            f"[yellow]other programs used {found.others:.0%} of this machine while it was to be "
            "idle: these bounds are wider than it needs; calibrate again when it is quiet[/]"
        )
    screen.print(f"\nproposed for {protocol}, {copies} copies, {message_size} bytes, class "
                 f"{kernel_class}: p{percentile} × {margin}")  # fmt: skip
    for name, value in _proposal(bounds, protocol).items():
        screen.print(f"  {name} = {value}")
    for step, highest in thin.items():
        screen.print(
            f"[yellow]{step}: too few samples for p{percentile:g}; they support p{highest:g}, so "
            "their largest value was taken[/]"
        )
    screen.print(_LEFT_OUT)
    took = time.monotonic() - started
    screen.print(f"\ncalibration {found.number}, stored in {path} ({took:.0f} s)")
