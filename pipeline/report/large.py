"""A report of a run that does not fit into memory: figures from Spark, pictures from samples.

What comes to the driver does not grow with the run: verdicts, counts by bucket and by step, and the
rows around the longest pauses (or the first ones), some thousands at most.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import DELIVER, MULTICAST, Trace, TraceEvent
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.reader import Record
from shmcast.multicast.traces.schema import SCHEMA, rows_of
from shmcast.pipeline.latency import NO_GROUP, Latencies, group_of, merged
from shmcast.pipeline.latency_spark import of_rows
from shmcast.pipeline.rates import STEPS_WANTED, Rates, step_for
from shmcast.pipeline.regression import compare
from shmcast.pipeline.report.page import (
    PICTURES_MAX,
    QUIET_PICTURE_EVENTS,
    Extent,
    Report,
    margin_of,
    quiet_margin,
)
from shmcast.pipeline.report.spacetime import MARKS
from shmcast.pipeline.report.verdict import Judgement, judged
from shmcast.pipeline.verify import read_rows, verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shmcast.multicast.traces.run_info import RunInfo

SAMPLE_ROWS_MAX = 5_000  # of one picture
_CHEAPEST = "timestamp-order"


def analyse(
    spark: SparkSession,
    directory: Path,
    judgement: Judgement | None = None,
    earlier: Latencies | None = None,
) -> Report:
    """`judgement`: found before; else all that the run promises is checked."""
    # What the record lacks, and which files can be read, is found on the way to any verdict.
    found = verify(spark, directory, () if judgement is None else (_CHEAPEST,))
    info = found.info
    rows = read_rows(spark, found.files)
    spent = of_rows(rows, info)
    extent = _extent(rows, info)
    sample = in_causal_order(_sample(rows, spent))
    clients = tuple(sorted({row.proc for row in sample} - info.members))
    trace = Trace(info.groups, clients, sample, found.gaps.closed, found.gaps)
    return Report(
        Record(info, trace),
        judgement or judged(found.verdicts, "spark"),
        spent,
        None if earlier is None else compare(earlier, spent),
        earlier,
        extent,
    )


def _extent(rows: DataFrame, info: RunInfo) -> Extent:
    ends = rows.agg(F.min("real_t").alias("start"), F.max("real_t").alias("end")).collect()[0]
    outside = ~F.col("proc").isin(sorted(info.members))
    clients = rows.where(outside).select("proc").distinct().count()
    start, end = ends["start"] or 0, ends["end"] or 0
    return Extent(start, end, clients, _rates(rows, info, start, end))


def _rates(rows: DataFrame, info: RunInfo, start: int, end: int) -> Rates:
    """As rates.rates() has them, counted where the rows are."""
    step = step_for(end - start + 1, STEPS_WANTED)
    count = (end - start) // step + 1
    group = group_of(info.groups)
    counted = (
        rows.where((F.col("layer") == "") & F.col("kind").isin(MULTICAST, DELIVER))
        .groupBy("kind", "proc", F.expr(f"(real_t - {start}) div {step}").alias("at"))
        .count()
    )
    sent = [0] * count
    got = {g: [0] * count for g in range(len(info.groups))}
    for row in counted.collect():
        into = sent
        if row["kind"] == DELIVER:
            into = got.setdefault(group.get(row["proc"], NO_GROUP), [0] * count)
        into[row["at"]] += row["count"]
    return Rates(start, step, tuple(sent), {g: tuple(steps) for g, steps in got.items()})


def _sample(rows: DataFrame, spent: Latencies) -> list[TraceEvent]:
    """What the pictures of page.py show: the longest pauses, or the first messages."""
    marks = rows.where((F.col("layer") == "") & F.col("kind").isin(*MARKS))
    windows = sorted(merged(spent.faults), key=lambda w: w[0] - w[1])[:PICTURES_MAX]
    spans = [(start, end, margin_of(start, end)) for start, end in windows] or _quiet(marks)
    found: set[TraceEvent] = set()
    for start, end, margin in spans:
        near = marks.where(F.col("real_t").between(start - margin, end + margin))
        found.update(_events(near.orderBy("real_t").limit(SAMPLE_ROWS_MAX)))
    return list(found)


def _quiet(marks: DataFrame) -> list[tuple[int, int, int]]:
    """Start, end and margin of the first messages."""
    moving = marks.where(F.col("kind").isin(MULTICAST, DELIVER)).select("real_t")
    times = [row[0] for row in moving.orderBy("real_t").limit(QUIET_PICTURE_EVENTS).collect()]
    return [(times[0], times[-1], quiet_margin(times[0], times[-1]))] if times else []


def _events(rows: DataFrame) -> list[TraceEvent]:
    return rows_of(rows.toArrow().select(SCHEMA.names).cast(SCHEMA))
