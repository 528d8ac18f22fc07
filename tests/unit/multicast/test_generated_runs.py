"""Generated runs keep every property, and each flaw breaks exactly what it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from shmcast.multicast.checks.trace import CRASH, DELIVER, MULTICAST, RESTART
from shmcast.multicast.traces import generate as generator
from shmcast.multicast.traces.flaws import FLAWS
from shmcast.multicast.traces.generate import generate
from shmcast.multicast.traces.judge import check_record, wanted
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import parts
from shmcast.multicast.traces.writer import TraceWriter, witness_crash


def outcomes(run: Path) -> dict[str, str]:
    record = read_record(run)
    found = check_record(record)
    return {name: verdict.outcome.value for name, verdict in found.items()}


@pytest.mark.parametrize("seed", range(3))
def test_a_generated_run_keeps_every_property(tmp_path: Path, seed: int) -> None:
    generate(tmp_path, messages=150, seed=seed, transmissions=True)
    assert set(outcomes(tmp_path).values()) == {"passed"}


def test_a_long_run_is_made_in_stretches_and_keeps_every_property(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "STRETCH", 40)
    generate(tmp_path, messages=150, transmissions=True)
    sizes = Counter(part.proc for part in parts(tmp_path))
    assert set(sizes.values()) == {4}
    assert sum(event.kind == MULTICAST for event in read_record(tmp_path).trace) == 150
    assert set(outcomes(tmp_path).values()) == {"passed"}


@pytest.mark.parametrize("stretch", [40, 1000])
def test_processes_that_crash_and_come_back_keep_every_property(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(generator, "STRETCH", stretch)
    generate(tmp_path, messages=150, transmissions=True, crashes=2)
    record = read_record(tmp_path)
    assert sum(event.kind == MULTICAST for event in record.trace) == 150
    lives = Counter(event.proc for event in record.trace if event.kind == RESTART)
    assert lives == {0: 1, 3: 1}
    for process in lives:
        its = [e for e in record.trace if e.participant == (process, 1) and e.kind == DELIVER]
        assert its, "it delivers in its second life"
    assert not record.gaps
    assert set(outcomes(tmp_path).values()) == {"passed"}


@pytest.mark.parametrize("name", FLAWS)
def test_a_run_of_several_stretches_can_be_wrong_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(generator, "STRETCH", 100)
    generate(tmp_path, messages=250, break_=name, transmissions=True)
    found = outcomes(tmp_path)
    assert {p for p, outcome in found.items() if outcome == "violated"} == set(FLAWS[name].breaks)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FLAWS)
def test_each_flaw_breaks_what_it_says_and_nothing_else(
    tmp_path: Path, name: str, seed: int
) -> None:
    generate(tmp_path, messages=150, seed=seed, break_=name, transmissions=True)
    found = outcomes(tmp_path)
    assert {p for p, outcome in found.items() if outcome == "violated"} == set(FLAWS[name].breaks)
    # An effect before its cause: no clocks that agree show that, so nothing is said about time.
    in_doubt = {"uniform-real-time"} if name == "causal" else set()
    assert {p for p, outcome in found.items() if outcome == "undetermined"} == in_doubt


def test_a_run_with_a_hole_passes_nothing(tmp_path: Path) -> None:
    generate(tmp_path, messages=50, transmissions=True)
    parts(tmp_path)[4].path.unlink()
    assert set(outcomes(tmp_path).values()) == {"undetermined"}


def test_a_hole_does_not_hide_two_orders(tmp_path: Path) -> None:
    generate(tmp_path, messages=150, break_="total")
    strangers = [part for part in parts(tmp_path) if part.proc == 0]
    whole = strangers[0].path.read_bytes()
    strangers[0].path.write_bytes(whole[:100])
    found = outcomes(tmp_path)
    assert found["uniform-global-total"] == "violated"
    assert found["uniform-fifo"] == "undetermined"


def test_a_message_whose_sender_was_killed_before_it_could_record_is_not_invented(
    tmp_path: Path,
) -> None:
    info = RunInfo("r", "eager", ((0,),), promises=("uniform-integrity",))
    with TraceWriter(tmp_path, info, 0) as one:
        one.event(DELIVER, message_id=(7, 1), dest=(0,), ts=(1, 0))
    TraceWriter(tmp_path, info, 7).close(orderly=False)
    assert outcomes(tmp_path) == {"uniform-integrity": "undetermined"}
    witness_crash(tmp_path, 7, 0, observer=0)
    assert outcomes(tmp_path) == {"uniform-integrity": "undetermined"}
    assert any(event.kind == CRASH for event in read_record(tmp_path).trace)


def test_a_message_of_a_sender_with_a_whole_record_is_invented(tmp_path: Path) -> None:
    info = RunInfo("r", "eager", ((0,),), promises=("uniform-integrity",))
    with TraceWriter(tmp_path, info, 0) as one, TraceWriter(tmp_path, info, 7) as client:
        client.event(MULTICAST, message_id=(7, 2), dest=(0,))
        one.event(DELIVER, message_id=(7, 1), dest=(0,), ts=(1, 0))
    assert outcomes(tmp_path) == {"uniform-integrity": "violated"}


def test_an_unknown_property_is_an_error_if_asked_for_and_undetermined_if_promised(
    tmp_path: Path,
) -> None:
    info = RunInfo("r", "eager", ((0,),), promises=("speed",))
    with pytest.raises(ValueError, match="no property 'speed'"):
        wanted(info, ["speed"])
    TraceWriter(tmp_path, info, 0).close()
    assert outcomes(tmp_path) == {"speed": "undetermined"}


def test_a_delivery_before_its_multicast_leaves_real_time_open(tmp_path: Path) -> None:
    info = RunInfo("r", "eager", ((0,),), promises=("uniform-real-time",), bound_ns=10)
    with TraceWriter(tmp_path, info, 0) as one, TraceWriter(tmp_path, info, 7) as client:
        client.event(MULTICAST, message_id=(7, 1), dest=(0,), real_t=1000)
        one.event(DELIVER, message_id=(7, 1), dest=(0,), ts=(1, 0), real_t=900)
    verdict = check_record(read_record(tmp_path))["uniform-real-time"]
    assert verdict.outcome.value == "undetermined"
    assert "p0 delivers m7.1 100 ns before it is multicast" in verdict.reason


def test_a_run_too_small_for_a_flaw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too small"):
        generate(tmp_path, processes=1, groups=1, messages=1, break_="total")
