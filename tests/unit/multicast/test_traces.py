"""Traces on disk: what is written is what is read, and what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import wait_until
from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.trace import CRASH, DELIVER, END, LOST, MULTICAST, START
from shmcast.multicast.checks.written import Written
from shmcast.multicast.sim import simulate
from shmcast.multicast.traces import writer as writer_module
from shmcast.multicast.traces.convert import write_trace
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.reader import read_record, read_run
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import SCHEMA, parts
from shmcast.multicast.traces.writer import TraceWriter, witness_crash

INFO = RunInfo("r1", "eager", ((0, 1),), (7,), {0: "g.a"}, ("fifo",), 1_000_000, meta={"k": "v"})


def record_a_run(run: Path) -> None:
    with (
        TraceWriter(run, INFO, 7) as client,
        TraceWriter(run, INFO, 0) as a,
        TraceWriter(run, INFO, 1) as b,
    ):
        for n in range(1, 4):
            client.event(MULTICAST, message_id=(7, n), dest=(0,))
            for replica in (a, b):
                replica.event(DELIVER, message_id=(7, n), dest=(0,), ts=(n, 0))


def test_the_description_of_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    INFO.write(tmp_path / "run")
    assert RunInfo.read(tmp_path / "run") == INFO


def test_the_first_description_of_a_run_stays(tmp_path: Path) -> None:
    INFO.write(tmp_path)
    RunInfo("other", "eager", ((0,),)).write(tmp_path)
    assert RunInfo.read(tmp_path).run == "r1"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "groups": 3}'])
def test_a_damaged_description_is_corrupt(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(Corrupt, match="restore"):
        RunInfo.read(tmp_path)


def test_a_description_of_another_version_is_incompatible(tmp_path: Path) -> None:
    INFO.write(tmp_path)
    found = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**found, "version": 99}))
    with pytest.raises(Incompatible, match="version 99"):
        RunInfo.read(tmp_path)


def test_a_directory_without_a_run_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"run\.json"):
        read_run(tmp_path)


def test_what_is_written_is_read_in_causal_order(tmp_path: Path) -> None:
    record_a_run(tmp_path)
    trace = read_run(tmp_path)
    assert trace.closed
    assert [event.idx for event in trace] == list(range(len(trace)))
    sent = {event.msg: event.idx for event in trace if event.kind == MULTICAST}
    delivered = [event for event in trace if event.kind == DELIVER]
    assert len(delivered) == 6
    assert all(sent[event.msg] < event.idx for event in delivered)
    verdicts = check(trace, ["uniform-agreement", "uniform-integrity", "fifo", "timestamp-order"])
    assert {v.outcome.value for v in verdicts.values()} == {"passed"}


def test_every_column_survives_the_disk(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, INFO, 0, 2) as one:
        one.event(
            "send",
            layer="low",
            peer=1,
            copy=1 << 40,
            about=((7, 1 << 35), (8, 2)),
            detail="é",
            real_t=-5,
        )
    start, sent, end = read_record(tmp_path).trace.events
    assert (start.kind, sent.kind, end.kind) == (START, "send", END)
    assert (sent.layer, sent.peer, sent.copy, sent.detail) == ("low", 1, 1 << 40, "é")
    assert sent.about == ((7, 1 << 35), (8, 2))
    assert (sent.incarnation, sent.lseq, sent.real_t) == (2, 2, -5)
    assert (sent.msg, sent.ts, sent.dest) == (None, None, ())
    assert sent.local_t >= start.local_t


def test_a_trace_of_the_simulator_is_judged_alike_from_disk(tmp_path: Path) -> None:
    run = simulate("wbcast", groups=2, replicas=3, messages=20, seed=3)
    info = RunInfo("sim", "wbcast", run.trace.groups, promises=run.scenario.spec.promises)
    write_trace(tmp_path, info, run.trace)
    again = read_run(tmp_path)
    framing = (START, END)
    assert again.closed == run.trace.closed
    assert sum(event.kind not in framing for event in again) == len(run.trace)
    promised = run.scenario.spec.promises
    assert check(again, promised).keys() == check(run.trace, promised).keys()
    for name, verdict in check(run.trace, promised).items():
        assert check(again, [name])[name].outcome == verdict.outcome, name


def test_parts_appear_while_the_run_goes_on(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, INFO, 0, rotate_rows=10, rotate_s=1000) as one:
        for n in range(25):
            one.event(DELIVER, message_id=(7, n), ts=(n, 0))
        wait_until(lambda: len(parts(tmp_path)) >= 2, "parts of a run in progress")
        record = read_record(tmp_path)
        assert not record.trace.closed
        assert record.gaps.open == {(0, 0)}


def test_flush_leaves_nothing_behind(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, INFO, 0, rotate_s=1000) as one:
        one.event("note", detail="here")
        one.flush()
        assert [event.detail for event in read_record(tmp_path).trace] == ["", "here"]


def test_a_life_without_end_leaves_the_run_open_until_somebody_saw_it_crash(tmp_path: Path) -> None:
    for process in (1, 7):
        TraceWriter(tmp_path, INFO, process).close()
    TraceWriter(tmp_path, INFO, 0).close(orderly=False)
    assert not read_run(tmp_path).closed
    witness_crash(tmp_path, 0, 0, observer=1, detail="killed by 9")
    trace = read_run(tmp_path)
    assert trace.closed
    assert [(e.proc, e.detail) for e in trace if e.kind == CRASH] == [(0, "killed by 9")]


def test_rows_for_which_the_disk_is_too_slow_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = signal_of_the_disk(monkeypatch)
    one = TraceWriter(tmp_path, INFO, 0, rotate_rows=4, rotate_s=1000)
    for n in range(100):
        one.event("note", detail=str(n))
    assert one.lost > 0
    let_go.append(True)
    one.close()
    rows = read_record(tmp_path).trace.events
    said = [int(row.detail) for row in rows if row.kind == LOST]
    assert sum(said) == one.lost
    assert sum(row.kind == "note" for row in rows) == 100 - one.lost
    assert "lost" in read_record(tmp_path).gaps.holes[0]


def signal_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A disk that takes nothing until the list holds something."""
    let_go: list[bool] = []
    write = writer_module.write_part

    def slow(path: Path, rows: list[tuple[object, ...]]) -> int:
        wait_until(lambda: let_go, "the disk")
        return write(path, rows)

    monkeypatch.setattr(writer_module, "write_part", slow)
    return let_go


def test_a_record_has_a_largest_size_and_says_what_it_left_out(tmp_path: Path) -> None:
    one = TraceWriter(tmp_path, INFO, 0, rotate_s=1000, bytes_max=1)
    one.flush()
    for _ in range(3):
        one.event("note")
        one.flush()
    assert len(parts(tmp_path)) == 2  # the first one, and the one that says it
    one.close()
    rows = read_record(tmp_path).trace.events
    assert [row.kind for row in rows] == [START, LOST, LOST, END]
    assert sum(int(row.detail) for row in rows if row.kind == LOST) == 3


def test_a_disk_that_refuses_is_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, rows: list[tuple[object, ...]]) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer_module, "write_part", refuse)
    one = TraceWriter(tmp_path, INFO, 0)
    with pytest.raises(OSError, match="No space"):
        one.close()
    assert parts(tmp_path) == []
    assert one.lost == 2


def test_a_second_writer_of_one_life_is_refused(tmp_path: Path) -> None:
    TraceWriter(tmp_path, INFO, 0).close()
    with pytest.raises(FileExistsError, match="number of its own"):
        TraceWriter(tmp_path, INFO, 0)


def test_a_damaged_part_is_a_hole_in_the_record(tmp_path: Path) -> None:
    record_a_run(tmp_path)
    [part] = [part for part in parts(tmp_path) if part.proc == 1]
    whole = part.path.read_bytes()
    part.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Corrupt, match="part-00000"):
        read_run(tmp_path)
    record = read_record(tmp_path)
    assert "damaged" in record.gaps.holes[1]
    assert not record.trace.closed


def test_a_part_of_another_version_is_incompatible(tmp_path: Path) -> None:
    record_a_run(tmp_path)
    path = parts(tmp_path)[0].path
    table = pq.read_table(path).replace_schema_metadata({b"shmcast.trace.version": b"7"})
    pq.write_table(table, path)
    with pytest.raises(Incompatible, match="version 7"):
        read_record(tmp_path)


def test_a_table_of_something_else_is_corrupt(tmp_path: Path) -> None:
    record_a_run(tmp_path)
    path = parts(tmp_path)[0].path
    table = pa.table({"proc": [0]}).replace_schema_metadata(SCHEMA.metadata)
    pq.write_table(table, path)
    with pytest.raises(Corrupt, match="columns"):
        read_run(tmp_path)


def test_a_missing_part_and_a_missing_process_are_noticed(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, INFO, 0, rotate_s=1000) as one:
        one.flush()
        one.event("note")
        one.flush()
    (parts(tmp_path)[1]).path.unlink()
    holes = read_record(tmp_path).gaps.holes
    assert "missing" in holes[0]
    assert "nothing is on record" in holes[1]


def test_a_record_that_contradicts_itself_is_ordered_all_the_same() -> None:
    """p0 delivers its own message before it multicasts it."""
    t = Written(groups=((0,),))
    t.multicast(0, "m").deliver(0, "m")
    sent, delivered = t.trace().events
    rows = in_causal_order([delivered._replace(lseq=0), sent._replace(lseq=1)])
    assert [row.kind for row in rows] == [DELIVER, MULTICAST]


def test_an_event_is_cheap() -> None:
    """Not a measurement: only that nothing of Arrow or of the disk is in its way."""
    names = set(TraceWriter.event.__code__.co_names)
    assert names <= {"time", "monotonic_ns", "_rows", "len", "_rotate_rows", "_wake", "set",
                     "_backlog_rows", "_lose", "append"}  # fmt: skip
