"""Follows the traces of a run in progress with Structured Streaming; live.py judges.

Spark finds new parts and reads, filters and sorts them; one micro-batch at a time comes to the
driver, never more than `_PARTS` files, so memory is bounded however long the run is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shmcast.errors import Corrupt
from shmcast.multicast.checks.trace import CRASH, DELIVER, END, LOST, MULTICAST, START
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import parts
from shmcast.pipeline.live import Finding, Live, LiveRow
from shmcast.pipeline.session import plain, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[list[Finding], Live], None]

_PARTS = 64  # files of one micro-batch
_KINDS = (MULTICAST, DELIVER, START, END, LOST, CRASH)
_COLUMNS = ("proc", "incarnation", "lseq", "real_t", "kind", "msg_sender", "msg_seq",
            "ts_time", "ts_group")  # fmt: skip
_SCHEMA = (
    "proc int, incarnation int, lseq bigint, real_t bigint, kind string, msg_sender int, "
    "msg_seq bigint, ts_time bigint, ts_group int"
)
_POLL_S = 0.1


def _row(values: tuple[Any, ...]) -> LiveRow:
    proc, incarnation, lseq, real_t, kind, sender, seq, ts_time, ts_group = values
    msg = None if sender is None or seq is None else (sender, seq)
    ts = None if ts_time is None or ts_group is None else (ts_time, ts_group)
    return LiveRow(proc, incarnation, lseq, real_t, kind, msg, ts)


def watch(
    run: Path, report: Report, *, seconds: float | None = None, master: str = "local[2]"
) -> Live:
    RunInfo.read(run)  # a wrong directory is noticed before Spark has started
    with spark_session("shmcast watch", master=master) as spark:
        return follow(spark, run, report, seconds=seconds)


def follow(spark: SparkSession, run: Path, report: Report, *, seconds: float | None = None) -> Live:
    """Calls `report` after each micro-batch, until every life has ended and all of it is read, or
    for so many seconds."""
    info = RunInfo.read(run)
    live = Live(info.bound_ns)

    def judge(batch: Any, number: int) -> None:
        table = batch.orderBy("proc", "incarnation", "lseq").toArrow()
        columns = [table.column(name).to_pylist() for name in _COLUMNS]
        report(live.feed(map(_row, zip(*columns, strict=True))), live)

    with tempfile.TemporaryDirectory(prefix="shmcast-watch-") as notes:
        query = (
            spark.readStream.schema(_SCHEMA)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", str(_PARTS))
            .parquet(str(run))
            .where("kind in (" + ", ".join(f"'{kind}'" for kind in _KINDS) + ")")
            .writeStream.foreachBatch(judge)
            .option("checkpointLocation", notes)
            .start()
        )
        try:
            _wait(query, run, lambda: is_closed(run, info, live), seconds)
        finally:
            query.stop()
    return live


def is_closed(run: Path, info: RunInfo, live: Live) -> bool:
    """Every member has been there, and every life on disk has ended and was read to its end."""
    lives = {(part.proc, part.incarnation) for part in parts(run)}
    seen = {proc for proc, _ in lives}
    return info.members <= seen and all(live.is_over(life) for life in lives)


def _wait(query: Any, run: Path, is_done: Callable[[], bool], seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    while (end is None or time.monotonic() < end) and not is_done():
        error = query.exception()
        if error is not None:
            raise Corrupt(f"following {run} has failed: {plain(error)}")
        time.sleep(_POLL_S)
