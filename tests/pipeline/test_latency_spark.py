"""How long things took: Spark and memory give the same figures, to the last bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

from shmcast.multicast.checks.trace import Trace, TraceEvent
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import table_of
from shmcast.pipeline.latency import ORDERED, Latencies
from shmcast.pipeline.latency_memory import latencies as in_memory
from shmcast.pipeline.latency_spark import of_rows
from shmcast.realtime.histogram import WORDS, bucket_of, low_of
from support.random_runs import random_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOUND_NS = 250


@pytest.fixture(autouse=True, scope="module")
def uncompiled(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    spark.conf.unset("spark.sql.codegen.wholeStage")


def long_run(seed: int) -> Trace:
    """Random runs one behind the other, so that faults have a before and an after; spans of every
    length; retries, crashes that are told twice, clocks that step back."""
    rng = Random(seed)
    rows: list[TraceEvent] = []
    start = 0
    for k in range(12):
        some = random_trace(seed * 100 + k)
        scale = 7 ** rng.randrange(1, 9)
        for row in some.events if k not in (0, 1) else [e for e in some if e.kind != "crash"]:
            msg = None if row.msg is None else (row.msg[0], row.msg[1] + 100 * k)
            at = start + row.real_t * scale - (50 * scale if rng.random() < 0.02 else 0)
            rows.append(row._replace(msg=msg, real_t=at, proc=row.proc % 4))
            if row.kind == "multicast" and rng.random() < 0.5:
                done = at + rng.randrange(1 << rng.randrange(1, 40))
                rows.append(rows[-1]._replace(kind=ORDERED, real_t=done))
        start = max([start, *(row.real_t for row in rows)]) + rng.randrange(1000)
    crashes = [row for row in rows if row.kind == "crash"]
    rows += [row._replace(real_t=row.real_t + 5, lseq=row.lseq + (1 << 62)) for row in crashes]
    rows.append(rows[0]._replace(kind="fault", msg=None, proc=1, real_t=start, lseq=10**6))
    return Trace(((0, 1), (2, 3)), (9,), in_causal_order(rows), True)


def in_spark(spark: SparkSession, info: RunInfo, trace: Trace) -> Latencies:
    import pyarrow as pa

    table = table_of(trace.events)
    for column in ("kind", "layer"):
        at = table.schema.get_field_index(column)
        table = table.set_column(at, column, table.column(column).cast(pa.string()))
    return of_rows(spark.createDataFrame(table), info)


def test_both_engines_give_the_same_figures(spark: SparkSession) -> None:
    trace = long_run(4)
    info = RunInfo("r", "test", trace.groups, bound_ns=BOUND_NS)
    expected = in_memory(info, trace)
    found = in_spark(spark, info, trace)
    assert found.to_json() == expected.to_json()
    assert {key.phase for key in found.cells} == {"before", "during", "after"}
    whole = [found.of(measure) for measure in ("delivery", "completion")]
    assert all(one.count and one.misses and one.misses < one.count for one in whole)
    assert whole[0].backwards
    assert [fault.recovered for fault in found.faults] == [True, True, False]


def test_every_bucket_is_the_one_of_the_histograms(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from shmcast.pipeline.latency_spark import _bucket

    edges = {low_of(bucket) + by for bucket in range(WORDS) for by in (-1, 0, 1)}
    values = sorted(value for value in edges | {(1 << 63) - 1} if 0 <= value < 1 << 63)
    frame = spark.createDataFrame([(value,) for value in values], "took bigint")
    found = frame.select("took", _bucket(F.col("took")).alias("bucket")).collect()
    assert {row["took"]: row["bucket"] for row in found} == {v: bucket_of(v) for v in values}


def test_a_run_without_faults_is_all_before(spark: SparkSession) -> None:
    calm = [e for e in long_run(1).events if e.kind not in ("crash", "fault", "link")]
    trace = replace(long_run(1), events=calm)
    info = RunInfo("r", "test", trace.groups)
    found = in_spark(spark, info, trace)
    assert found.to_json() == in_memory(info, trace).to_json()
    assert {key.phase for key in found.cells} == {"before"}


def test_thousands_of_faults_cost_what_one_costs(spark: SparkSession) -> None:
    """Their windows were literals of the query, and scanned for every row."""
    rows, groups = [], ((0, 1), (2, 3))
    for n in range(3000):
        at = n * 1000
        first = TraceEvent(
            -1, at, at, n % 4, 0, 3 * n + 1, "multicast", msg=(n % 4, n), dest=(0, 1)
        )
        rows += [first, first._replace(kind="fault", msg=None, lseq=3 * n + 2, proc=(n + 1) % 4)]
        for proc in range(4):
            late = at + 300 + 2000 * (n % 7 == proc)
            rows.append(first._replace(kind="deliver", proc=proc, lseq=3 * n + 3, real_t=late))
    trace = Trace(groups, (), in_causal_order(rows), True)
    info = RunInfo("r", "test", groups, bound_ns=BOUND_NS)
    found = in_spark(spark, info, trace)
    assert found.to_json() == in_memory(info, trace).to_json()
    assert len(found.faults) == 3000
    assert {key.phase for key in found.cells} == {"during"}
