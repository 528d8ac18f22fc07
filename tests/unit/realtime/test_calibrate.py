"""Calibration: the plan, the proposals, the file; and that real steps can be measured."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import shmcast
from helpers import wait_until
from shmcast.realtime import calibrate as room
from shmcast.realtime import measure
from shmcast.realtime.admission import Overhead
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.load import Load

PLAN = room.Plan(sizes=(0, 1024), classes=("other",), loads=("idle", "cpu"), samples=100)


def pretend(point: room.Point, samples: int, limit_s: float) -> Histogram:
    """100 ns, ten times as much when cold, a hundred times under load, 1 ns per byte."""
    base = 100 * (10 if point.cold else 1) * (100 if point.load != "idle" else 1) + point.size
    return Histogram.of([base] * samples)


def pretended() -> room.Calibration:
    loads: list[Sequence[str]] = []

    def load(kinds: Sequence[str]) -> contextlib.nullcontext[None]:
        loads.append(kinds)
        return contextlib.nullcontext()

    found = room.calibrate(PLAN, measure=pretend, load=load, epsilon=lambda: 7)
    assert loads == [[], ["cpu"]]
    return found


def test_what_others_used_while_the_machine_was_to_be_idle_is_kept(tmp_path: Path) -> None:
    def run(used_s: float) -> room.Calibration:
        readings = iter([100.0, 100.0 + used_s, 0.0, 0.0])
        return room.calibrate(
            PLAN,
            measure=pretend,
            load=lambda _: contextlib.nullcontext(),
            epsilon=lambda: 0,
            others=lambda: next(readings),
        )

    assert run(0.0).others == 0
    busy = run(3600.0)
    assert busy.others == 1
    assert room.load_stored(room.store(busy, tmp_path / "c.json")).others == 1


def test_the_time_that_others_use_grows_with_them_and_not_with_us() -> None:
    before, mine = room.others_s(), time.process_time()
    with Load("cpu"):
        wait_until(lambda: room.others_s() > before + 0.2, "others to be seen at work")
    before, mine = room.others_s(), time.process_time()
    while time.process_time() < mine + 0.1:
        pass
    assert room.others_s() >= before - 0.05  # both are counted in ticks


def test_every_condition_of_the_plan_is_measured_once() -> None:
    told: list[room.Point] = []
    found = room.calibrate(
        PLAN,
        measure=pretend,
        load=lambda _: contextlib.nullcontext(),
        epsilon=lambda: 0,
        progress=told.append,
    )
    # write and read in two sizes, warm and cold; flag, decide, clear warm and cold; wake, turn once
    assert len(told) == len(found.points) == 2 * (2 * 2 * 2 + 3 * 2 + 2)


def test_a_proposal_is_the_worst_condition_times_the_margin() -> None:
    bounds = pretended().propose(
        copies=3, message_bytes=1000, percentile=100, margin=3, protocol="crash"
    )
    assert bounds.write_ns == 3 * (100_000 + 1024)  # cold, loaded, the next larger size
    assert bounds.flag_ns == 3 * 100_000
    assert bounds.epsilon_ns == 7
    assert 0 < bounds.calibration < 1 << 63


def test_in_timing_a_late_thread_is_part_of_deciding() -> None:
    found = pretended()
    crash = found.propose(copies=2, message_bytes=0, protocol="crash", percentile=100, margin=1)
    timing = found.propose(copies=2, message_bytes=0, protocol="timing", percentile=100, margin=1)
    assert timing.decide_ns == crash.decide_ns + 10_000 // 2


def test_what_a_dispatcher_takes_is_a_percentile_with_a_margin() -> None:
    found = pretended().overhead(kernel_class="other", percentile=100, margin=3)
    assert found == Overhead(wake_ns=30_000, turn_ns=30_000)
    with pytest.raises(ValueError, match="class fifo"):
        pretended().overhead()


def test_what_was_not_measured_is_not_proposed() -> None:
    with pytest.raises(ValueError, match="with a --message-size that covers it"):
        pretended().propose(copies=3, message_bytes=4096)
    with pytest.raises(ValueError, match="class fifo"):
        pretended().propose(copies=3, message_bytes=0, kernel_class="fifo")
    with pytest.raises(ValueError, match="margin"):
        pretended().propose(copies=3, message_bytes=0, margin=0.5)


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    found = pretended()
    path = room.store(found, tmp_path / "deep" / "c.json")
    assert room.load_stored(path) == found
    assert [p.name for p in path.parent.iterdir()] == ["c.json"]  # nothing temporary is left


def test_a_changed_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = room.store(pretended(), tmp_path / "c.json")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "epsilon_ns": 1}))
    with pytest.raises(ValueError, match="changed after it was written"):
        room.load_stored(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="not a calibration"):
        room.load_stored(path)
    path.write_text(json.dumps({"format": room.FORMAT}))
    with pytest.raises(ValueError, match="not a calibration"):
        room.load_stored(path)
    path.write_text(json.dumps({"format": 1}))
    with pytest.raises(ValueError, match="format 1, not 3: calibrate again"):
        room.load_stored(path)
    found = pretended()
    foreign = replace(found, machine=replace(found.machine, kernel="2.6.32"))
    room.store(foreign, path)
    with pytest.raises(ValueError, match="another kernel: calibrate again"):
        room.load_stored(path)


def test_the_file_is_per_machine_in_the_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    path = room.default_path()
    assert path.parent == Path("/somewhere/shmcast")
    assert room.this_machine().identity in path.name


@pytest.mark.parametrize("step", measure.STEPS)
@pytest.mark.parametrize("cold", [False, True])
def test_every_step_can_be_measured(step: str, cold: bool) -> None:
    found = measure.step(step, size=1000, cold=cold, samples=50, limit_s=20)
    assert found.total == 50
    assert found.most_ns >= found.percentile(50) > 0


@pytest.mark.parametrize("kernel_class", measure.permitted_classes())
def test_steps_are_measured_in_every_class_that_is_permitted(kernel_class: str) -> None:
    found = measure.step(
        "write", size=64, cold=False, samples=50, limit_s=20, kernel_class=kernel_class
    )
    assert found.total == 50


def test_a_measurement_ends_at_its_limit() -> None:
    found = measure.step("write", size=1 << 20, cold=True, samples=10**9, limit_s=0.2)
    assert found.total < 10**9


def test_the_ordinary_class_is_always_permitted() -> None:
    assert measure.permitted_classes()[0] == "other"


def test_load_runs_while_it_is_wanted_and_ends_with_its_block() -> None:
    with Load("cpu", "memory", "io") as load:
        pids = load.pids
        assert len(pids) == len(os.sched_getaffinity(0)) + 2
        assert all(psutil.pid_exists(pid) for pid in pids)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "the end of the load")
    with pytest.raises(ValueError, match="no such load: gpu"):
        Load("gpu")


def test_a_mailbox_takes_what_calibration_proposes_and_says_where_it_came_from(name: str) -> None:
    bounds = pretended().propose(copies=2, message_bytes=64, protocol="eager")
    with shmcast.Mailbox.create(name, copies=2, message_size=64, bounds=bounds) as box:
        assert box.stats().calibration == bounds.calibration > 0
        assert box.stats().send_bound_ns == bounds.send_ns
