"""Follows the traces of a run in progress with Structured Streaming; live.py judges.

Spark finds new parts and reads, filters and sorts them; one micro-batch at a time comes to the
driver, never more than `_PARTS` files, so memory is bounded however long the run is. What Spark
cannot read it skips; arrivals.py says what that was.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shmcast.errors import Corrupt
from shmcast.multicast.checks.trace import CRASH, DELIVER, END, LOST, MULTICAST, REFUSE, START
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.pipeline.arrivals import Arrivals
from shmcast.pipeline.live import Finding, Live, LiveRow
from shmcast.pipeline.session import plain, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[list[Finding], Live], None]

_PARTS = 64  # files of one micro-batch
_KINDS = (MULTICAST, REFUSE, DELIVER, START, END, LOST, CRASH)
_COLUMNS = ("proc", "incarnation", "lseq", "real_t", "kind", "msg_sender", "msg_seq",
            "ts_time", "ts_group")  # fmt: skip
_SCHEMA = (
    "proc int, incarnation int, lseq bigint, real_t bigint, kind string, layer string, "
    "msg_sender int, msg_seq bigint, ts_time bigint, ts_group int"
)
_FILE = r"process=\d+/incarnation=\d+/[^/]+$"  # of its path, what is inside the run
_POLL_S = 0.1
_SETTLE_S = 10.0  # without anything new, what is missing will not come
_BEHIND_NS = 3 * 10**9  # a row is on disk that much later at most: writers rotate each second


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


def follow(
    spark: SparkSession,
    run: Path,
    report: Report,
    *,
    seconds: float | None = None,
    settle_s: float = _SETTLE_S,
) -> Live:
    """Calls `report` after each micro-batch, until every life has ended and all of it is read, or
    for so many seconds. Where a member or the end of a life is missing: until nothing new has come
    for `settle_s`."""
    info = RunInfo.read(run)
    follower = Follower(run, info, report)
    with tempfile.TemporaryDirectory(prefix="shmcast-watch-") as notes:
        query = (
            spark.readStream.schema(_SCHEMA)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", str(_PARTS))
            .option("ignoreCorruptFiles", "true")
            .parquet(str(run))
            .select("*", "_metadata.file_path")
            .writeStream.foreachBatch(follower.judge)
            .option("checkpointLocation", notes)
            .start()
        )
        try:
            _wait(query, run, lambda: follower.is_done(settle_s), seconds)
        finally:
            query.stop()
    return follower.live


class Follower:
    """Judges micro-batches, in a thread of Spark's, and looks at the directory, in the caller's."""

    def __init__(self, run: Path, info: RunInfo, report: Report) -> None:
        self.live = Live(info.bound_ns)
        self._arrivals = Arrivals(run, info)
        self._report = report
        self._turn = threading.Lock()
        self._read = 0  # rows
        self._mark = (0, 0)  # rows on disk at some moment, and the newest time read by then
        self._moved_s = time.monotonic()
        self._failed: Exception | None = None

    def judge(self, batch: Any, number: int) -> None:
        with self._turn:
            try:
                self._judge(batch)
            except Exception as error:
                self._failed = error
                raise

    def _judge(self, batch: Any) -> None:
        found = self._arrivals.look()  # so every file of this batch was looked at
        count, rows = _rows(batch, self._arrivals.damaged)
        self._read += count
        found += self.live.feed(rows)
        found += self._overdue()
        self._moved_s = time.monotonic()
        self._report(found, self.live)

    def _overdue(self) -> list[Finding]:
        """Judged when all is read that was on disk at the mark: files come in any order."""
        rows, newest_t = self._mark
        if self._read < rows:
            return []
        self._mark = (self._arrivals.rows, self.live.newest_t)
        return self.live.overdue(newest_t - _BEHIND_NS)

    def is_done(self, settle_s: float) -> bool:
        with self._turn:
            if self._failed is not None:
                return self._spark_tells(self._failed)
            files = self._arrivals.files
            found = self._arrivals.look()
            if self._arrivals.refused is not None:
                raise self._arrivals.refused
            if self._arrivals.files > files:
                self._moved_s = time.monotonic()
            is_done = is_closed(self._arrivals, self.live)
            is_still = time.monotonic() - self._moved_s > settle_s
            if not is_done and is_still and self._has_ended():
                is_done = True
                found += [_absent(proc) for proc in self._arrivals.missing]
            if is_done:
                found += self.live.overdue(self.live.newest_t)
            self.live.missing = self._arrivals.missing
            if found:
                self._report(found, self.live)
            return is_done

    @staticmethod
    def _spark_tells(error: Exception) -> bool:
        """What was no fault of Spark's is raised as it was; else the query's own end says more."""
        if plain(error) is None:
            raise error
        return False

    def _has_ended(self) -> bool:
        """As far as can be seen: what is not there, or cannot be read, holds no end."""
        lives = self._arrivals.lives
        return bool(lives) and all(
            self.live.is_over(life) or self._arrivals.is_cut_short(life) for life in lives
        )


def _absent(proc: int) -> Finding:
    return Finding("missing", proc, 0, 0, "nothing is on record of it, and the others have ended")


def _rows(batch: Any, damaged: list[str]) -> tuple[int, Iterator[LiveRow]]:
    """How many rows sound files gave, and those that are judged, in order."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    counted = Observation()
    file = F.regexp_extract(F.replace("file_path", F.lit("%3D"), F.lit("=")), _FILE, 0)
    sound = batch.where(~file.isin(damaged)) if damaged else batch
    table = (
        sound.observe(counted, F.count(F.lit(1)).alias("rows"))
        .where(F.col("kind").isin(*_KINDS) & (F.col("layer") == ""))
        .orderBy("proc", "incarnation", "lseq")
        .toArrow()
    )
    columns = [table.column(name).to_pylist() for name in _COLUMNS]
    return counted.get["rows"], map(_row, zip(*columns, strict=True))


def is_closed(arrivals: Arrivals, live: Live) -> bool:
    """Every member has been there, and every life on disk has ended and was read to its end."""
    return not arrivals.missing and all(live.is_over(life) for life in arrivals.lives)


def _wait(query: Any, run: Path, is_done: Callable[[], bool], seconds: float | None) -> None:
    end = None if seconds is None else time.monotonic() + seconds
    while (end is None or time.monotonic() < end) and not is_done():
        error = query.exception()
        if error is not None:
            raise Corrupt(f"following {run} has failed: {plain(error)}; try shmcast verify {run}")
        time.sleep(_POLL_S)
