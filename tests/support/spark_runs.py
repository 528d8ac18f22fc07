"""Many small runs as one table, so that a property of all of them is one job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.traces.reader import lives_of
from shmcast.multicast.traces.schema import table_of
from shmcast.pipeline.verify import Described, cast_of, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shmcast.pipeline.tables import Tables


# Compiling a query, and planning it anew between its stages, cost more than they save of so few
# rows.
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@contextlib.contextmanager
def for_small_tables(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _SMALL}
    for name, value in _SMALL.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


def as_tables(
    spark: SparkSession, runs: Mapping[str, Trace], bound: Callable[[str], int]
) -> Tables:
    parts = []
    for r, (name, trace) in enumerate(runs.items()):
        table = table_of(trace.events)
        for column in ("kind", "layer"):
            at = table.schema.get_field_index(column)
            table = table.set_column(at, column, table.column(column).cast(pa.string()))
        table = table.append_column("run", pa.array([name] * len(table), pa.string()))
        parts.append(table.append_column("r", pa.array([r] * len(table), pa.int16())))
    events = spark.createDataFrame(pa.concat_tables(parts).combine_chunks())
    return tables(
        events.repartition(2, "run").persist(),
        {
            run: Described(cast_of(t.groups, lives_of(t.events)), t.gaps, t.closed, bound(run))
            for run, t in runs.items()
        },
    )
