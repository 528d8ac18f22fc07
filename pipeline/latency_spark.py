"""The figures of latency.py in Spark: for runs that do not fit into memory.

Two passes over the messages. The first finds when each fault was over; the second counts spans by
measure, part, phase and bucket, so what comes to the driver does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import CRASH, DELIVER, MULTICAST
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.pipeline.latency import (
    BEFORE,
    COMPLETION,
    DELIVERY,
    FAULTS,
    NO_GROUP,
    ORDERED,
    FaultWindow,
    Key,
    Latencies,
    Summary,
    group_of,
    merged,
)
from shmcast.pipeline.latency_memory import Spans, phases
from shmcast.pipeline.verify import read_rows, sound_parts
from shmcast.realtime.histogram import WORDS, Histogram

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MESSAGE = ["msg_sender", "msg_seq"]
FAULTS_MAX = 100_000  # windows that are told apart; the driver holds them
_SPAN = "measure string, part int, began bigint, ended bigint"
_NEVER = (1 << 63) - 1


def latencies(spark: SparkSession, directory: str | Path) -> Latencies:
    """What `shmcast report` shows of a recorded run, of any size; damaged files are left out."""
    info = RunInfo.read(directory)
    good, _ = sound_parts(Path(directory))
    if not good:
        raise FileNotFoundError(f"{directory} holds no readable rows: was the run recorded at all?")
    return of_rows(read_rows(spark, good), info)


def of_rows(rows: DataFrame, info: RunInfo) -> Latencies:
    groups = group_of(info.groups)
    sent = _multicasts(rows).persist()
    try:
        deliveries = _deliveries(rows, sent, groups)
        faults = _windows(rows, deliveries, groups)
        spans = deliveries.union(_completions(rows, sent))
        cells = _cells(spans, merged(faults), info.bound_ns)
        seen = rows.where(_is(DELIVER)).select(*MESSAGE).distinct()
        return Latencies(
            run=info.run,
            protocol=info.protocol,
            bound_ns=info.bound_ns,
            multicasts=sent.count(),
            undelivered=sent.join(seen, MESSAGE, "left_anti").count(),
            cells=cells,
            faults=faults,
        )
    finally:
        sent.unpersist()


def _is(kind: str) -> Column:
    return (F.col("kind") == kind) & (F.col("layer") == "") & F.col("msg_sender").isNotNull()


def _multicasts(rows: DataFrame) -> DataFrame:
    """By message; of a retry the first attempt."""
    first = F.min(F.struct("real_t", "proc", F.size("dest").alias("width"))).alias("first")
    found = rows.where(_is(MULTICAST)).groupBy(*MESSAGE).agg(first)
    return found.select(
        *MESSAGE,
        F.col("first.real_t").alias("began"),
        F.col("first.proc").alias("sender"),
        F.col("first.width").alias("width"),
    )


def _deliveries(rows: DataFrame, sent: DataFrame, groups: dict[int, int]) -> DataFrame:
    """measure, part, began, ended."""
    spark = rows.sparkSession
    parts = spark.createDataFrame(list(groups.items()), "proc int, part int")
    got = rows.where(_is(DELIVER)).select("proc", *MESSAGE, F.col("real_t").alias("ended"))
    placed = got.join(sent, MESSAGE).join(F.broadcast(parts), "proc", "left")
    part = F.coalesce("part", F.lit(NO_GROUP))
    return placed.select(F.lit(DELIVERY).alias("measure"), part.alias("part"), "began", "ended")


def _completions(rows: DataFrame, sent: DataFrame) -> DataFrame:
    done = rows.where(_is(ORDERED)).select(F.col("proc").alias("sender"), *MESSAGE, "real_t")
    first = done.groupBy("sender", *MESSAGE).agg(F.min("real_t").alias("ended"))
    both = first.join(sent, ["sender", *MESSAGE])
    return both.select(
        F.lit(COMPLETION).alias("measure"), F.col("width").alias("part"), "began", "ended"
    )


def _windows(
    rows: DataFrame, deliveries: DataFrame, groups: dict[int, int]
) -> tuple[FaultWindow, ...]:
    """In order of time. A crash that several have witnessed is one."""
    told = rows.where(F.col("kind").isin(*FAULTS)).select(
        "proc", "incarnation", "real_t", "kind", "detail"
    )
    found = told.limit(FAULTS_MAX + 1).collect()
    if len(found) > FAULTS_MAX:
        raise ValueError(f"more than {FAULTS_MAX} faults: too many to tell their windows apart")
    crashes: dict[tuple[int, int], Any] = {}
    for row in sorted(found, key=lambda row: row["real_t"]):
        if row["kind"] == CRASH:
            crashes.setdefault((row["proc"], row["incarnation"]), row)
    faults = [*(row for row in found if row["kind"] != CRASH), *crashes.values()]
    if not faults:
        return ()
    ends = _recoveries(deliveries, [(row["real_t"], groups.get(row["proc"])) for row in faults])
    last = rows.agg(F.max("real_t").alias("last")).collect()[0]["last"]
    windows = []
    for number, row in enumerate(faults):
        began, end = row["real_t"], ends.get(number)
        over = last if end is None else max(began, end)
        windows.append(
            FaultWindow(began, over, row["proc"], row["kind"], row["detail"] or "", end is not None)
        )
    return tuple(sorted(windows))


def _recoveries(deliveries: DataFrame, faults: list[tuple[int, int | None]]) -> dict[int, int]:
    """By number of the fault: when its group first delivers what was multicast since. Of what was
    multicast between two faults, only each group's first delivery counts."""
    starts = np.array(sorted({at for at, _ in faults}), np.int64)
    found = (
        _with_stretch(deliveries, starts)
        .where("stretch > 0")
        .groupBy("part", "stretch")
        .agg(F.min("ended").alias("ended"))
        .collect()
    )
    ends: dict[int | None, npt.NDArray[np.int64]] = {}
    for row in found:
        for part in (None, row["part"]):  # a fault of no group's member is over when any goes on
            its = ends.setdefault(part, np.full(len(starts), _NEVER))
            its[row["stretch"] - 1] = min(its[row["stretch"] - 1], row["ended"])
    first = {part: np.minimum.accumulate(its[::-1])[::-1] for part, its in ends.items()}
    over = {}
    for number, (at, group) in enumerate(faults):
        end = int(first[group][np.searchsorted(starts, at)]) if group in first else _NEVER
        if end != _NEVER:
            over[number] = end
    return over


def _with_stretch(spans: DataFrame, starts: npt.NDArray[np.int64]) -> DataFrame:
    """Column `stretch`: how many of the starts are no later than `began`."""

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            place = np.searchsorted(starts, batch.column("began").to_numpy(), side="right")
            yield batch.append_column("stretch", pa.array(place, pa.int64()))

    return spans.mapInArrow(marked, f"{_SPAN}, stretch bigint")


def _with_phase(spans: DataFrame, busy: list[tuple[int, int]]) -> DataFrame:
    if not busy:
        return spans.withColumn("phase", F.lit(BEFORE))

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part, began, ended = (batch.column(i).to_numpy() for i in (1, 2, 3))
            phase = phases(Spans(part, began, ended), busy)
            yield batch.append_column("phase", pa.array(phase, pa.string()))

    return spans.mapInArrow(marked, f"{_SPAN}, phase string")


def _cells(
    spans: DataFrame, busy: list[tuple[int, int]], bound_ns: int | None
) -> dict[Key, Summary]:
    took = F.col("ended") - F.col("began")
    counted = (
        _with_phase(spans, busy)
        .withColumn("took", took)
        .groupBy("measure", "part", "phase", _bucket(F.greatest("took", F.lit(0))).alias("bucket"))
        .agg(
            F.count("*").alias("count"),
            F.max(F.greatest("took", F.lit(0))).alias("most"),
            F.count_if(F.lit(False) if bound_ns is None else F.col("took") > bound_ns).alias(
                "late"
            ),
            F.count_if(F.col("took") < 0).alias("backwards"),
        )
    )
    found: dict[Key, Summary] = {}
    for row in counted.collect():
        key = Key(row["measure"], row["part"], row["phase"])
        histogram = Histogram.sparse([(row["bucket"], row["count"])], row["most"])
        one = Summary(histogram, row["late"], row["backwards"])
        found[key] = found.get(key, Summary()) + one
    return found


def _bucket(took: Column) -> Column:
    """realtime.histogram.bucket_of; whole numbers all the way, so it is exact."""
    exponent = F.length(F.bin(took)) - 1
    wide = F.shiftleft(exponent - 2, 3).bitwiseOR(
        F.call_function("shiftright", took, F.greatest(exponent - 3, F.lit(0))).bitwiseAND(F.lit(7))
    )
    return F.least(F.when(took < 8, took).otherwise(wide), F.lit(WORDS - 1)).cast("int")
