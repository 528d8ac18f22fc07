"""Total order in all its forms, and order by timestamp, as tables of violations."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.pipeline.cycles import EDGE, components
from shmcast.pipeline.tables import LIFE, MESSAGE, Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_AT = ("proc", "inc", "lseq", "real_t")  # where and when
_WHOLE = (Window.unboundedPreceding, Window.unboundedFollowing)


def timestamp_order(t: Tables) -> DataFrame:
    """The certificate of checks/total.py: equal at all deliverers, one message each, growing."""
    rows = t.deliveries.withColumn("ts", F.struct("ts_time", "ts_group"))
    bare = F.col("ts_time").isNull()
    step = rows.where(bare | (F.col("prev_ts") >= F.col("ts"))).select(
        *LIFE, "s", "n", F.col("prev_s").alias("s2"), F.col("prev_n").alias("n2"), "lseq", "real_t",
        F.when(~bare, F.col("ts")).alias("ts"), F.when(~bare, F.col("prev_ts")).alias("ts2"),
        F.when(bare, "no-timestamp").otherwise("backwards").alias("what"),
    )  # fmt: skip
    # With each timestamp a delivery that shows it.
    shown = F.struct("ts", "proc", "inc", "lseq", "real_t")
    stamps = rows.groupBy(*MESSAGE).agg(F.min(shown).alias("a"), F.max(shown).alias("b"))
    twice = stamps.where("a.ts != b.ts").select(
        *MESSAGE, *_both("ts", *_AT), F.lit("two-timestamps").alias("what")
    )
    owner = F.struct("s", "n", *(F.col(f"a.{name}").alias(name) for name in _AT))
    owners = stamps.groupBy("run", F.col("a.ts").alias("ts")).agg(
        F.min(owner).alias("a"), F.max(owner).alias("b")
    )
    shared = owners.where("struct(a.s, a.n) != struct(b.s, b.n)").select(
        "run", "ts", *_both("s", "n", *_AT), F.lit("shared-timestamp").alias("what")
    )
    return step.unionByName(twice, True).unionByName(shared, True)


def _both(*names: str) -> list[Column]:
    return [F.col(f"a.{name}") for name in names] + [
        F.col(f"b.{name}").alias(f"{name}2") for name in names
    ]


def delivery_edges(t: Tables, uniform: bool) -> DataFrame:
    """Consecutive deliveries; the same message twice is integrity's business."""
    rows = t.delivered(uniform).where("prev_s is not null and (prev_s != s or prev_n != n)")
    return rows.select(
        "run", F.col("prev_s").alias("s1"), F.col("prev_n").alias("n1"),
        F.col("s").alias("s2"), F.col("n").alias("n2"), *_AT,
    )  # fmt: skip


@lru_cache(maxsize=8)
def _entangled(t: Tables, uniform: bool) -> DataFrame:
    return t.keep(components(delivery_edges(t, uniform), t.potential()))


def _cycles(found: DataFrame, edges: DataFrame) -> DataFrame:
    """With each message of a cycle, where it comes right after the one before it: after the last
    one, if it is the first."""
    ring = Window.partitionBy("run", "component").orderBy("place")
    message = F.struct("s", "n")
    last = F.last(message).over(ring.rowsBetween(*_WHOLE))
    before = F.coalesce(F.lag(message).over(ring), last).alias("before")
    steps = (
        found.where("place is not null")
        .select("run", "component", "place", "s", "n", before)
        .select("run", "component", "place", F.col("before.s").alias("s1"),
                F.col("before.n").alias("n1"), F.col("s").alias("s2"), F.col("n").alias("n2"))
    )  # fmt: skip
    shown = edges.join(F.broadcast(steps), EDGE).groupBy(
        "run", "component", "place", F.col("s2").alias("s"), F.col("n2").alias("n")
    )
    step = F.struct("place", "s", "n", *(F.col(f"at.{name}").alias(name) for name in _AT))
    cycles = shown.agg(F.min(F.struct(*_AT)).alias("at")).groupBy("run", "component")
    rows = cycles.agg(F.sort_array(F.collect_list(step)).alias("cycle"))
    return rows.select("run", "cycle", F.lit("cycle").alias("what"))


def global_total(t: Tables, *, uniform: bool) -> DataFrame:
    return _cycles(_entangled(t, uniform), delivery_edges(t, uniform))


def ordering(t: Tables) -> DataFrame:
    """Paper 000: what p never delivers comes after all that p delivers."""
    life = t.deliveries.where("inc = 0")
    last = life.groupBy("run", F.col("proc").alias("p")).agg(
        F.max_by(F.struct("s", "n"), "pos").alias("last")
    )
    somewhere = t.deliveries.select(*MESSAGE).distinct()
    missing = (
        t.owed.join(somewhere, MESSAGE, "left_semi")
        .join(t.in_first_life, ["run", "p", "s", "n"], "left_anti")
        .join(F.broadcast(last), ["run", "p"])
        .select(
            "run", F.col("last.s").alias("s1"), F.col("last.n").alias("n1"),
            F.col("s").alias("s2"), F.col("n").alias("n2"), F.col("p").alias("proc"),
            F.lit(0).alias("inc"), *(F.lit(None).cast("long").alias(name) for name in _AT[2:]),
        )
    )  # fmt: skip
    edges = delivery_edges(t, uniform=True).union(missing.select(*EDGE, *_AT))
    return _cycles(components(edges, t.potential()), edges)


def pairwise_total(t: Tables, *, uniform: bool, local: bool = False) -> DataFrame:
    """Two messages in two orders are a cycle, so only messages on cycles are compared."""
    suspects = _entangled(t, uniform).select(*MESSAGE).distinct()
    rows = t.delivered(uniform).where("first").join(suspects, MESSAGE, "left_semi")
    if local:
        rows = rows.join(t.multicasts.select(*MESSAGE, "dest"), MESSAGE)
    mine = rows.select(*LIFE, "s", "n", "pos", "lseq", "real_t", *(["dest"] if local else []))
    other = rows.select(
        *MESSAGE, F.col("proc").alias("proc2"), F.col("inc").alias("inc2"),
        F.col("pos").alias("pos2"),
    )  # fmt: skip
    both = mine.join(other, MESSAGE).where("struct(proc, inc) < struct(proc2, inc2)")
    pair = Window.partitionBy(
        *LIFE, "proc2", "inc2", *(["dest"] if local else [])
    ).orderBy("pos")  # fmt: skip
    compared = both.select(
        "*", F.lag("pos2").over(pair).alias("before"),
        F.lag("s").over(pair).alias("s2"), F.lag("n").over(pair).alias("n2"),
    )  # fmt: skip
    return compared.where("before > pos2").select(
        *LIFE, "s", "n", "s2", "n2", "lseq", "real_t", "proc2", "inc2",
        F.lit("two-orders").alias("what"),
    )  # fmt: skip
