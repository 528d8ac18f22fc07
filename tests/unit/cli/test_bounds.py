"""``shmcast calibrate`` and ``shmcast bench bounds``: that they run, and say what they must."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from shmcast.cli import bounds_bench
from shmcast.cli.bounds_run import Cell, Result, bounds_of, run
from shmcast.cli.main import app
from shmcast.realtime.bounds import Bounds
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.measure import Driven


def driven(values: list[int], bound: int = 1000) -> Driven:
    misses = sum(v > bound for v in values)
    return Driven(len(values), misses, 0, 0, bound, {}, Histogram.of(values), 0)


def result(cell: Cell, ns: int) -> Result:
    return Result(cell, driven([ns] * 100), driven([ns] * 100), 0)


def test_calibrate_stores_and_proposes_and_can_be_asked_again(tmp_path: Path) -> None:
    where = tmp_path / "c.json"
    words = ["calibrate", "--quick", "--json", "--out", str(where), "--message-size", "64"]
    first = json.loads(CliRunner().invoke(app, words).stdout)
    again = json.loads(CliRunner().invoke(app, [*words, "--stored"]).stdout)
    assert first["proposal"] == again["proposal"]
    assert first["proposal"]["calibration"] == first["calibration"]["number"]
    constants = ("write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns", "poll_ns", "copies")
    bounds = Bounds(**{name: first["proposal"][name] for name in constants})
    assert bounds.send_ns == first["proposal"]["send_ns"]
    assert {p["load"] for p in first["calibration"]["points"]} == {"idle", "cpu+memory+io"}
    text = CliRunner().invoke(app, [*words[:1], *words[3:], "--stored"]).stdout
    assert "proposed for timing" in text


@pytest.mark.parametrize("protocol", ["eager", "crash", "timing"])
def test_a_cell_counts_every_operation(protocol: str) -> None:
    found = run(Cell(protocol, 2, (), 400))
    assert found.send.operations == 400
    assert found.send.histogram.total == 400
    assert found.receive.operations + found.send.rejected <= 400
    assert found.receive.histogram.total == found.receive.operations
    assert sum(found.send.causes.values()) >= (1 if found.send.misses else 0)
    assert found.send.bound_ns == bounds_of(protocol, 2).send_ns
    assert not [
        path
        for path in os.listdir("/dev/shm")
        if path.startswith("shmcast.bench-bounds-" + str(os.getpid()))
    ]


def test_a_cell_goes_on_when_a_copy_and_a_process_are_killed() -> None:
    found = run(Cell("eager", 3, (), 5000, faults=True))
    assert found.send.operations == 5000
    assert found.receive.operations >= 5000 - found.send.rejected


def test_the_plan_has_enough_operations_of_every_protocol() -> None:
    plan = bounds_bench.cells(1_000_000, quick=False)
    for protocol in bounds_bench.PROTOCOLS:
        mine = [c for c in plan if c.protocol == protocol]
        assert sum(c.operations for c in mine) >= 1_000_000
        assert {c.copies for c in mine} == {1, 2, 3, 4, 5}
        assert any(c.faults for c in mine)
    assert {c.connected for c in plan} == {2, 32}


def test_the_slope_is_that_of_a_straight_line() -> None:
    results = [result(Cell("eager", n, (), 100), 1000 * n) for n in (1, 2, 3, 4, 5)]
    found = bounds_bench.slope(results, "eager")
    assert found["ns_per_copy"] == pytest.approx(1000, rel=0.1)
    assert found["r2"] > 0.98


def test_the_comparisons_are_of_cells_of_the_same_run() -> None:
    results = [
        result(Cell("eager", 3, (), 100, connected=2), 1000),
        result(Cell("eager", 3, (), 100, connected=32), 1100),
        result(Cell("eager", 3, ("cpu",), 100, kernel_class="other"), 8000),
        result(Cell("eager", 3, ("cpu",), 100, kernel_class="fifo"), 1000),
    ]
    assert bounds_bench.connected(results)["processes"] == [2, 32]
    assert bounds_bench.connected(results)["send_ratio"] == pytest.approx(1.1, rel=0.15)
    assert bounds_bench.classes(results)["send_ratio"] == pytest.approx(8, rel=0.15)
    assert "no comparison" in bounds_bench.classes(results[:3])["note"]


def test_the_picture_has_the_bound_where_it_belongs() -> None:
    out = StringIO()
    screen = Console(file=out, width=120)
    bounds_bench.draw(screen, "x", Histogram.of([100] * 50 + [5000]), 1000)
    lines = out.getvalue().splitlines()
    marked = next(line for line in lines if "bound" in line)
    assert marked.strip().startswith("512 ns")
    assert lines[-1].strip().startswith("4096 ns")
