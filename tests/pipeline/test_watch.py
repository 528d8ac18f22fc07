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

from helpers import wait_until
from shmcast.cli.main import app
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.writer import TraceWriter
from shmcast.pipeline.live import Live, LiveRow
from shmcast.pipeline.watch import is_closed

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
    info, live = RunInfo.read(broken_run), Live(None)
    live.feed([LiveRow(0, 0, 6, 0, "end", None, None)])
    assert not is_closed(broken_run, info, live)
    live.feed([LiveRow(1, 0, 4, 0, "end", None, None)])
    assert is_closed(broken_run, info, live)


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
