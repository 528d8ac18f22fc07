"""Whether the times of a record can be compared: multicast/traces/clocks.py, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import DELIVER, MULTICAST
from shmcast.pipeline.tables import LIFE, MESSAGE, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def backwards(t: Tables) -> DataFrame:
    """run, proc, lseq, by_ns."""
    rows = t.events.where((F.col("layer") == "") & F.col("kind").isin(MULTICAST, DELIVER))
    before = Window.partitionBy(*LIFE).orderBy("lseq")
    steps = rows.select(
        "run", "proc", "lseq", (F.lag("local_t").over(before) - F.col("local_t")).alias("by_ns")
    )
    return steps.where("by_ns > 0")


def too_early(t: Tables) -> DataFrame:
    """run, proc, s, n, by_ns."""
    rows = t.deliveries.join(t.multicasts, MESSAGE)
    found = rows.withColumn("by_ns", F.col("mreal") - F.col("real_t")).where("by_ns > 0")
    return found.select("run", "proc", "s", "n", "by_ns")
