"""``shmcast calibrate`` and ``shmcast bench bounds``: that they run, and say what they must."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from helpers import wait_until
from shmcast.cli import (
    bounds_bench,
    bounds_plan,
    bounds_report,
    bounds_run,
    bounds_show,
    calibrate,
)
from shmcast.cli.bounds_run import CALIBRATED, Cell, Result, Round, Session, bounds_of
from shmcast.cli.main import app
from shmcast.realtime import calibrate as room
from shmcast.realtime.bounds import Bounds
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.measure import Driven, Worst, permitted_classes

FULL = bounds_plan.Size.of(1_000_000, quick=False)


def driven(ns: int, bound: int = 1000) -> Driven:
    values = [ns] * 100
    misses = sum(v > bound for v in values)
    return Driven(len(values), misses, 0, 0, bound, {}, Histogram.of(values), 0)


def record(cell: Cell, *rounds_ns: float) -> dict[str, Any]:
    """Of a cell whose operations took so long in each of its rounds."""
    rounds = [Round(driven(int(ns)), driven(int(ns)), 0, 0, 0) for ns in rounds_ns]
    return bounds_plan.record(Result(cell, tuple(rounds)))


def verdict(done: dict[str, Any], words: str, wanted: int = 1) -> bool:
    found = [v for v in bounds_report.summary(done, wanted)["verdicts"] if words in v["claim"]]
    assert found, words
    return all(v["holds"] for v in found)


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
    assert "wall clock: " in text


@pytest.mark.parametrize("message_size", [64, 5000, 40 << 20])
def test_a_full_calibration_has_every_size_class_and_load(message_size: int) -> None:
    plan = calibrate.plan_for(message_size=message_size, quick=False)
    assert {0, 64, 1 << 20, message_size} <= set(plan.sizes)
    assert max(plan.sizes) == max(1 << 20, message_size)
    assert list(plan.classes) == permitted_classes()
    assert set(plan.loads) == {"idle", "cpu", "memory", "io", "cpu+memory+io"}
    points = {(p.cold, p.kernel_class, p.load) for p in plan.points()}
    assert len(points) == 2 * len(plan.classes) * len(plan.loads)


@pytest.mark.parametrize("protocol", ["eager", "crash", "timing"])
def test_every_round_of_a_session_counts_every_operation(protocol: str) -> None:
    with Session(Cell(protocol, 2, (), 400)) as session:
        rounds = [session.run(400), session.run(200), session.run(300, apart=True)]
    for found, operations in zip(rounds, (400, 200, 300), strict=True):
        assert found.send.operations == found.send.histogram.total == operations
        assert found.receive.operations == found.receive.histogram.total == operations
        assert found.filled >= found.send.rejected
        assert sum(found.send.causes.values()) >= (1 if found.send.misses else 0)
    assert rounds[0].send.bound_ns == bounds_of(protocol, 2).send_ns
    mine = f"shmcast.bench-bounds-{os.getpid()}"
    assert not [path for path in os.listdir("/dev/shm") if path.startswith(mine)]


def test_the_longest_operations_of_all_rounds_say_why() -> None:
    """Only misses did: of a row without any, nobody knew why its worst took that long."""
    with Session(Cell("eager", 1, (), 400)) as session:
        result = Result(session.cell, tuple(session.run(200) for _ in range(2)))
    for end in (result.send, result.receive):
        took = [worst.took_ns for worst in end.worst]
        assert took == sorted(took, reverse=True)
        assert len(took) == 4
        assert took[0] == end.histogram.most_ns
        assert all(worst.causes for worst in end.worst)


@pytest.mark.parametrize("protocol", ["eager", "crash", "timing"])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_session_goes_on_when_a_copy_and_a_process_are_killed(protocol: str, copies: int) -> None:
    """Of one copy only the process."""
    with Session(Cell(protocol, copies, (), 3000, faults=True)) as session:
        found = session.run(3000)
    assert found.send.operations == 3000
    assert found.receive.operations == 6000  # what the victim did not live to send is filled up
    assert found.killed_after is not None and found.killed_after >= 0.5


class HalfSent:
    """A box and a receiver: one message is on its way for ever, and one is still wanted."""

    def __init__(self) -> None:
        self.sends, self.looks = 0, 0

    def has_spoken(self, _: float) -> bool:
        self.looks += 1
        return self.sends > 0 or self.looks > 100_000

    def sender(self, **_: object) -> contextlib.nullcontext[HalfSent]:
        return contextlib.nullcontext(self)

    def send(self, *_: object, **__: object) -> None:
        self.sends += 1


def test_what_never_comes_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session waited for it until its patience ended, after two minutes."""
    session, box = Session(Cell("timing", 1, (), 1, faults=True)), HalfSent()
    at_rest = SimpleNamespace(messages=1, depth=1)
    monkeypatch.setattr(bounds_run, "SETTLED_S", 0.01)
    monkeypatch.setattr(session, "_box", box)
    monkeypatch.setattr(session, "_workers", [box])
    monkeypatch.setattr(session, "_receiver_stats", lambda: at_rest)
    assert session._fill_up(2) == 1


@pytest.mark.parametrize("protocol", bounds_plan.PROTOCOLS)
def test_the_plan_has_enough_operations_of_every_protocol(protocol: str) -> None:
    plan = bounds_plan.parts(FULL)
    cells = [cell for part in plan for cell in part.cells if cell.protocol == protocol]
    for load in (True, False):
        mine = [c for c in cells if bool(c.load) == load and not c.faults and c.connected == 2]
        assert {c.copies for c in mine} == {1, 2, 3, 4, 5}
        assert {c.copies for c in cells if c.faults and bool(c.load) == load} == {1, 2, 3, 4, 5}
    by_turns = [p for p in plan if p.name in (f"{protocol}-idle", f"{protocol}-loaded")]
    assert sum(c.operations for p in by_turns for c in p.cells) >= 1_000_000
    assert {c.connected for c in cells} == {2, 32}
    for name in ("slope", "connected"):  # by turns, so that the machine's moods hit all alike
        assert next(p for p in plan if p.name == f"{protocol}-{name}").rounds >= 20


def test_parts_can_be_run_one_by_one() -> None:
    plan = bounds_plan.parts(FULL)
    assert len({p.name for p in plan}) == len(plan)
    assert [p.name for p in bounds_plan.chosen(plan, ["timing-idle", "cl"])] == [
        "timing-idle",
        "classes",
    ]
    with pytest.raises(ValueError, match="no such part; there is eager-idle, "):
        bounds_plan.chosen(plan, ["egger"])


def of_copies(nanoseconds: dict[int, int]) -> dict[str, Any]:
    cells = [record(Cell("eager", n, (), 100), ns, 9 * ns, ns) for n, ns in nanoseconds.items()]
    return {"eager-slope": {"cells": cells}}


def test_the_slope_is_that_of_a_straight_line_and_one_bad_round_does_not_bend_it() -> None:
    done = of_copies({n: 1000 * n for n in (1, 2, 3, 4, 5)})
    found = bounds_report.summary(done)["slope"]["eager"]["send"]
    assert found["ns_per_copy"] == pytest.approx(1000, rel=0.1)
    assert found["r2"] > 0.98
    assert found["ns_per_copy_by_round"]["most"] > 5000
    assert verdict(done, "linear in the copies")


def test_a_cost_that_is_not_linear_is_noticed() -> None:
    assert not verdict(of_copies({n: 100 * n**3 for n in (1, 2, 3, 4, 5)}), "linear in the copies")


def pair(few: list[float], many: list[float]) -> dict[str, Any]:
    cells = [
        record(Cell("eager", 3, (), 100, connected=2), *few),
        record(Cell("eager", 3, (), 100, connected=32), *many),
    ]
    return {"eager-connected": {"cells": cells}}


def test_few_and_many_processes_are_compared_round_by_round() -> None:
    done = pair([1000, 2000, 4000, 1000], [1100, 2200, 4400, 9000])
    found = bounds_report.summary(done)["connected"]["eager"]
    assert found["processes"] == [2, 32]
    assert found["send"]["median"] == pytest.approx(1.1, abs=0.07)
    assert found["send"]["most"] > 8
    assert verdict(done, "with 32 processes")


def test_half_of_the_many_processes_are_receivers() -> None:
    """Only idle senders were connected, though receivers cost something, too."""
    with Session(Cell("eager", 2, (), 100, connected=6)) as session:
        for _ in range(2):
            found = session.run(100, apart=True)
            assert found.receive.operations == 100
        assert session._box is not None
        stats = session._box.stats()
    assert (len(stats.receivers), len(stats.senders)) == (3, 3)
    assert [r.messages for r in stats.receivers] == [200] * 3


def of_calibrated(misses: int) -> dict[str, Any]:
    cell = record(Cell("eager", 3, (), 100, bounds=CALIBRATED), 500)
    for end in ("send", "receive"):
        cell[end].update(operations=1_000_000, misses=misses)
    return {"eager-idle": {"cells": [cell]}}


def test_calibrated_bounds_that_do_not_hold_are_noticed() -> None:
    assert verdict(of_calibrated(100), "keeps calibrated bounds")
    assert not verdict(of_calibrated(101), "keeps calibrated bounds")


def test_a_percentile_that_the_samples_do_not_support_is_not_shown() -> None:
    """The largest of a hundred was shown as p99.99."""
    found = record(Cell("eager", 3, (), 100), 500)["send"]
    assert found["p99_ns"] == 500 and found["p99.9_ns"] is found["p99.99_ns"] is None
    assert Histogram.of([1] * 10_000).supports(99.99)
    assert not Histogram.of([1] * 9_999).supports(99.99)
    assert Histogram.of([1] * 97).highest_percentile == pytest.approx(98.97, abs=0.01)


def test_a_cost_that_grows_with_the_processes_is_noticed() -> None:
    assert not verdict(pair([1000] * 3, [1400] * 3), "with 32 processes")


def test_too_few_operations_are_noticed() -> None:
    cells = {"cells": [record(Cell("eager", 3, (), 100), 500)]}
    done = {"eager-idle": cells, "eager-loaded": cells}
    assert verdict(done, "at least 200", 200)
    assert not verdict(done, "at least 201", 201)


def test_operations_that_never_ended_are_noticed() -> None:
    cell = {**record(Cell("eager", 3, (), 100, faults=True), 500), "killed_after": 0.5}
    done = {"eager-killed": {"cells": [cell]}}
    assert not verdict(done, "killed midway")  # the receiver has 100, not twice as many
    cell["receive"]["operations"] = 200
    assert verdict(done, "killed midway")
    cell["killed_after"] = 1.1  # when it was all over
    assert not verdict(done, "killed midway")


def of_class(ns: int) -> dict[str, Any]:
    return {"p99.9_ns": ns, "rounds_p99.9_ns": [ns, 2 * ns]}


def test_classes_are_compared_by_what_one_run_measured() -> None:
    row = {"other": of_class(8000), "fifo": of_class(1000)}
    found = bounds_report.summary({"classes": {"classes": {"send": row, "receive": row}}})
    assert found["classes"]["send, other/fifo"]["ratio"] == 8
    assert found["classes"]["send, other/fifo"]["by_round"]["median"] == 8
    assert "not permitted" in found["classes"]["send, other/deadline"]


def bench(*words: str) -> Any:
    return CliRunner().invoke(app, ["bench", "bounds", "--quick", "--operations", "2000", *words])


def test_a_run_goes_on_where_it_was_and_mixes_no_settings(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "bounds.json"
    bench("--only", "eager-killed", "--out", str(out))
    first = json.loads(out.read_text())
    assert set(first["parts"]) == {"eager-killed"}
    assert "eager-idle" in first["missing"]
    again = json.loads(bench("--only", "eager-k", "--out", str(out), "--json").stdout)
    assert again["parts"] == first["parts"]  # not measured twice
    assert out.with_suffix(".md").read_text().startswith("# Bounded completion time")
    assert sorted(path.name for path in out.parent.iterdir()) == ["bounds.json", "bounds.md"]
    other = bench("--only", "eager-killed", "--out", str(out), "--operations", "3000")
    assert other.exit_code != 0 and "other options" in other.output
    out.write_text("{}")
    damaged = bench("--only", "eager-killed", "--out", str(out))
    assert damaged.exit_code != 0 and "choose another --out" in damaged.output


def test_operations_are_measured_against_the_bounds_that_calibration_proposes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    refused = bench("--bounds", "calibrated", "--only", "eager-slope")
    assert refused.exit_code != 0 and "shmcast calibrate" in refused.output
    found = room.calibrate(
        room.Plan(sizes=(64,), classes=("other",), loads=("idle",), samples=100),
        measure=lambda point, _samples, _limit_s: Histogram.of([1000] * 100),
        load=lambda _: contextlib.nullcontext(),
        epsilon=lambda: 0,
    )
    room.store(found)
    assert set(found.thin(message_bytes=64, percentile=99.99)) == {*room.SIZED, *room.FIXED}
    with Session(Cell("eager", 2, (), 100, bounds=CALIBRATED)) as session:
        assert session.run(100, apart=True).send.bound_ns == 2 * (2000 + 2000)
    size = bounds_plan.Size.of(1000, quick=True, bounds=CALIBRATED)
    settings = bounds_bench.settings_of(size)
    assert settings["calibration"] == found.number
    assert {c.bounds for p in bounds_plan.parts(size) for c in p.cells} == {CALIBRATED}
    text = bounds_show.page(bounds_bench.report(settings, [], {}), "shmcast bench bounds")
    assert f"Bounds: as calibration {found.number} proposes them, p99.99 × 2." in text


def test_a_run_that_is_ended_leaves_nothing_behind() -> None:
    words = ["bench", "bounds", "--quick", "--only", "eager-idle"]
    program = subprocess.Popen(
        [sys.executable, "-m", "shmcast.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def segments() -> list[str]:
        mine = f"shmcast.bench-bounds-{program.pid}-"
        return [path for path in os.listdir("/dev/shm") if path.startswith(mine)]

    wait_until(segments, "its first mailbox")
    program.terminate()
    assert program.wait(60) != 0
    assert segments() == []


def test_classes_are_measured_from_the_release_of_a_periodic_send() -> None:
    from shmcast.cli.bounds_periodic import compare_classes

    found = compare_classes(1, 0.2)
    assert found["send"]["other"]["jobs"] > 0
    assert found["receive"]["other"]["dropped"] == 0  # a late one is late, not left out
    for figures in found["send"].values():
        assert len(figures["rounds_p99.9_ns"]) == 1
        assert figures["maximum_ns"] >= figures["p50_ns"] > 0


def test_the_longest_operations_are_shown_with_their_causes() -> None:
    worst = (Worst(7000, ("preempted", "stolen")), Worst(900, ("own work",)))
    found = Round(driven(900)._replace(worst=worst), driven(900), 0, 0, 0)
    cell = bounds_plan.record(Result(Cell("eager", 1, (), 100), (found,)))
    out = StringIO()
    report = {
        "parts": {"eager-idle": {"cells": [cell]}},
        "summary": {"slope": {}, "verdicts": []},
        "missing": [],
    }
    bounds_show.show(Console(file=out, width=190), report)
    assert "7000 ns preempted + stolen, 900 ns own work" in out.getvalue()


def test_the_picture_has_the_bound_where_it_belongs() -> None:
    out = StringIO()
    screen = Console(file=out, width=120)
    bounds_show.draw(screen, "x", Histogram.of([100] * 50 + [5000]), 1000)
    lines = out.getvalue().splitlines()
    marked = next(line for line in lines if "bound" in line)
    assert marked.strip().startswith("512 ns")
    assert lines[-1].strip().startswith("4096 ns")
