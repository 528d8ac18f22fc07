"""Judging a run while it goes on: the pure part, then the command on a real session's place."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs Arrow: make .venv/.pipeline")

import pyarrow.parquet as pq

from helpers import wait_until
from shmcast.cli.main import app
from shmcast.errors import Incompatible
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.writer import TraceWriter
from shmcast.pipeline.arrivals import Arrivals
from shmcast.pipeline.live import Finding, Live, LiveRow
from shmcast.pipeline.watch import follow, is_closed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_S = 240.0  # Spark on a busy machine; never asserted


def deliver(proc: int, lseq: int, seq: int, stamp: int, real_t: int = 10) -> LiveRow:
    return LiveRow(proc, 0, lseq, real_t, "deliver", (9, seq), (stamp, 0))


def multicast(lseq: int, seq: int, real_t: int = 0) -> LiveRow:
    return LiveRow(9, 0, lseq, real_t, "multicast", (9, seq), None)


def kinds(live: Live, *rows: LiveRow) -> list[str]:
    return [finding.kind for finding in live.feed(rows)]


def test_a_correct_run_gives_no_finding() -> None:
    live = Live(bound_ns=100)
    assert kinds(live, multicast(1, 1), multicast(2, 2), deliver(0, 1, 1, 5)) == []
    assert kinds(live, deliver(0, 2, 2, 6), deliver(1, 1, 1, 5), deliver(1, 2, 2, 6)) == []
    assert (live.deliveries, live.unjudged, live.unstamped, live.disordered) == (4, 0, 0, 0)


def test_a_delivery_against_the_order_of_timestamps_is_found_across_batches() -> None:
    live = Live(bound_ns=None)
    assert kinds(live, deliver(0, 1, 1, 5)) == []
    assert kinds(live, deliver(0, 2, 2, 4)) == ["order"]


def test_two_timestamps_of_one_message_are_found() -> None:
    assert kinds(Live(None), deliver(0, 1, 1, 5), deliver(1, 1, 1, 6)) == ["timestamp"]


def test_a_second_delivery_is_found() -> None:
    found = kinds(Live(None), deliver(0, 1, 1, 5), deliver(0, 2, 1, 5))
    assert sorted(found) == ["double", "order"]


def test_a_missed_bound_is_found_once_whichever_end_comes_first() -> None:
    first, last = multicast(1, 1, real_t=0), deliver(0, 1, 1, 5, real_t=101)
    for rows in ([first, last], [last, first]):
        live = Live(bound_ns=100)
        assert [kind for row in rows for kind in kinds(live, row)] == ["late"]
        assert kinds(live, first) == []
    assert kinds(Live(bound_ns=101), first, last) == []


def test_a_retry_does_not_make_a_late_delivery_early() -> None:
    """`verify` counts from the first try, whichever is read first."""
    first, again = multicast(1, 1, real_t=0), multicast(2, 1, real_t=90)
    last = deliver(0, 1, 1, 5, real_t=101)
    for rows in ([first, again, last], [again, last, first], [again, first, last]):
        assert kinds(Live(bound_ns=100), *rows) == ["late"]
    assert kinds(Live(bound_ns=101), first, again, last) == []


def test_what_nobody_delivers_is_found_once_when_its_time_is_over() -> None:
    live = Live(bound_ns=100)
    assert kinds(live, multicast(1, 1), multicast(2, 2), deliver(0, 1, 1, 5)) == []
    assert live.overdue(100) == []
    (found,) = live.overdue(101)
    assert (found.kind, found.proc, found.lseq) == ("overdue", 9, 2)
    assert "message (9, 2): 101 ns" in found.text
    assert live.overdue(1000) == []


def test_what_a_sender_that_crashed_or_was_refused_left_is_not_overdue() -> None:
    live = Live(bound_ns=100)
    assert kinds(live, multicast(1, 1), LiveRow(9, 0, 2, 5, "refuse", (9, 1), None)) == []
    assert kinds(live, multicast(3, 2), LiveRow(9, 0, 1 << 62, 5, "crash", None, None)) == []
    assert live.overdue(1000) == []


def test_what_is_forgotten_is_counted_and_memory_is_bounded() -> None:
    live = Live(bound_ns=1, messages_max=10)
    assert kinds(live, *(deliver(0, i, i, i) for i in range(1, 101))) == []
    assert len(live._messages) == 10
    assert live.unjudged == 90


def test_lost_rows_are_a_finding() -> None:
    assert kinds(Live(None), LiveRow(0, 0, 1, 0, "lost", None, None)) == ["lost"]


@pytest.fixture
def broken_run(tmp_path: Path) -> Path:
    """Process 1 delivers 2 before 1; everybody ends."""
    run = tmp_path / "run"
    info = RunInfo("r", "test", groups=((0, 1),), bound_ns=10**15)
    for proc, order in ((0, (1, 2)), (1, (2, 1))):
        writer = TraceWriter(run, info, proc)
        for seq in order:
            if proc == 0:
                writer.event("multicast", message_id=(0, seq), dest=(0,))
            writer.event("deliver", message_id=(0, seq), dest=(0,), ts=(seq, 0))
        writer.close()
    return run


def test_a_run_is_closed_when_every_life_on_disk_was_read_to_its_end(broken_run: Path) -> None:
    arrivals, live = Arrivals(broken_run, RunInfo.read(broken_run)), Live(None)
    assert not is_closed(arrivals, live)
    assert arrivals.look() == []
    live.feed([LiveRow(0, 0, 6, 0, "end", None, None)])
    assert not is_closed(arrivals, live)
    live.feed([LiveRow(1, 0, 4, 0, "end", None, None)])
    assert is_closed(arrivals, live)


def a_long_run(run: Path) -> list[Path]:
    """Two members; of the second one three files."""
    info = RunInfo("r", "test", groups=((0, 1),), bound_ns=10**15)
    with TraceWriter(run, info, 0) as one:
        for seq in (1, 2, 3):
            one.event("multicast", message_id=(0, seq), dest=(0,))
            one.event("deliver", message_id=(0, seq), dest=(0,), ts=(seq, 0))
    with TraceWriter(run, info, 1) as two:
        for seq in (1, 2, 3):
            two.event("deliver", message_id=(0, seq), dest=(0,), ts=(seq, 0))
            two.flush()
    return sorted((run / "process=1" / "incarnation=0").glob("*.parquet"))


def looks(run: Path) -> list[Finding]:
    arrivals = Arrivals(run, RunInfo.read(run))
    return [*arrivals.look(), *arrivals.look(), *arrivals.look()]


def test_a_file_that_is_missing_in_the_middle_is_told_once(tmp_path: Path) -> None:
    files = a_long_run(tmp_path)
    assert looks(tmp_path) == []
    files[1].unlink()
    (found,) = looks(tmp_path)
    assert (found.kind, found.proc) == ("lost", 1)
    assert "are missing" in found.text


def test_a_damaged_file_and_one_with_other_columns_are_told(tmp_path: Path) -> None:
    files = a_long_run(tmp_path)
    rename_a_column(files[0])
    files[1].write_bytes(files[1].read_bytes()[:-20])
    found = looks(tmp_path)
    assert [(one.kind, one.proc) for one in found] == [("damaged", 1)] * 2
    assert "lseq is missing" in found[0].text


def rename_a_column(path: Path) -> None:
    table = pq.read_table(path)
    names = ["number" if name == "lseq" else name for name in table.column_names]
    renamed = table.rename_columns(names).replace_schema_metadata(table.schema.metadata)
    pq.write_table(renamed, path)


def test_damaged_files_and_a_missing_member_neither_end_nor_prolong_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One file has no end, one has other columns, and of member 2 there is nothing."""
    files = a_long_run(tmp_path)
    described = tmp_path / "run.json"
    told = json.loads(described.read_text())
    described.write_text(json.dumps({**told, "groups": [[0, 1, 2]]}))
    rename_a_column(files[0])
    files[-1].write_bytes(files[-1].read_bytes()[:-20])
    found: list[Finding] = []
    live = follow(spark, tmp_path, lambda more, live: found.extend(more), settle_s=0.5)
    assert sorted((one.kind, one.proc) for one in found) == [
        ("damaged", 1), ("damaged", 1), ("missing", 2)
    ]  # fmt: skip
    assert live.deliveries > 3
    assert live.missing == [2]


def test_files_of_another_version_are_refused_as_verify_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = a_long_run(tmp_path)
    table = pq.read_table(files[0])
    pq.write_table(table.replace_schema_metadata({b"shmcast.trace.version": b"9"}), files[0])
    with pytest.raises(Incompatible, match="version 9"):
        follow(spark, tmp_path, lambda found, live: None)


def test_a_report_that_fails_ends_it_with_its_own_error(
    spark: SparkSession, broken_run: Path
) -> None:
    def fail(found: list[Finding], live: Live) -> None:
        raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        follow(spark, broken_run, fail)


def test_what_is_wrong_is_reported_while_the_run_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command on the session of the tests: order is broken and a bound missed, and told
    before anything has ended."""
    run, told = tmp_path / "run", tmp_path / "told"
    info = RunInfo("r", "test", groups=((0, 1),), bound_ns=10**15)
    lent = contextlib.nullcontext(spark)
    monkeypatch.setattr("shmcast.pipeline.watch.spark_session", lambda *args, **more: lent)
    with TraceWriter(run, info, 0) as one, TraceWriter(run, info, 1) as two:
        for seq in (1, 2):
            one.event("multicast", message_id=(0, seq), dest=(0,))
            one.event("deliver", message_id=(0, seq), dest=(0,), ts=(seq, 0))
        code: list[int] = []

        def command() -> None:
            with told.open("w", buffering=1) as out, contextlib.redirect_stdout(out):
                code.append(run_command(["watch", str(run), "--json"]))

        thread = threading.Thread(target=command)
        thread.start()
        try:
            two.event("deliver", message_id=(0, 2), dest=(0,), ts=(2, 0))
            two.event("deliver", message_id=(0, 1), dest=(0,), ts=(1, 0))
            late = time.monotonic_ns() + 2 * 10**15
            one.event("multicast", message_id=(0, 3), dest=(0,))
            two.event("deliver", message_id=(0, 3), dest=(0,), ts=(3, 0), real_t=late)
            wait_until(
                lambda: [line["kind"] for line in findings(told)] == ["order", "late"],
                "both findings",
                LONG_S,
            )
            assert not code
        finally:
            one.close()
            two.close()
            thread.join(LONG_S)
    assert code == [1]
    assert [line["proc"] for line in findings(told)] == [1, 1]
    assert json.loads(told.read_text().splitlines()[-1])["deliveries"] == 5


def findings(told: Path) -> list[dict[str, Any]]:
    lines = told.read_text().split("\n")[:-1] if told.exists() else []
    return [line for line in map(json.loads, lines) if "kind" in line]


def run_command(words: list[str]) -> int:
    """A command as the shell would run it, in this process. Its exit code."""
    found = app(words, standalone_mode=False)
    return int(found or 0)


def test_a_directory_without_a_run_and_a_master_that_is_not_there_are_one_sentence(
    broken_run: Path, tmp_path: Path
) -> None:
    for words, code, says in (
        ([str(tmp_path / "nothing")], 3, "no recorded run"),
        ([str(broken_run), "--master", "spark://127.0.0.1:1"], 3, "no Spark master answers"),
        ([str(broken_run), "--master", "nowhere"], 2, "no Spark master is called 'nowhere'"),
    ):
        done = CliRunner().invoke(app, ["watch", *words])
        assert done.exit_code == code
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
