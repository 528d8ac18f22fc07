"""Causal order and its one-step form, as tables of violations.

m → m′ and "q delivers m′ before m, or without it" close a cycle of two kinds of edges, so a causal
violation lies inside one strongly connected component of both. A run in order has none; else each
component is searched for a cycle with one single q, which is what the property forbids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.pipeline.cycles import components
from shmcast.pipeline.tables import LIFE, MESSAGE, Tables
from shmcast.pipeline.tangles import MESSAGES_MAX, NEVER, Tangle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = (
    "run string, s int, n long, s2 int, n2 long, proc int, inc int, lseq long, real_t long, "
    "lseq2 long, real_t2 long, what string"
)
_ARROW = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
_ROWS_ARROW = pa.schema(
    [(name, _ARROW[kind]) for name, kind in (column.split() for column in _ROWS.split(", "))]
)


def causal(t: Tables, *, uniform: bool, local: bool = False) -> DataFrame:
    """The relation runs over all messages, or (local) over those to the same groups only."""
    dest = t.multicasts.select(*MESSAGE, "mproc", "minc", "mlseq", F.col("dest"))
    line = F.concat_ws("|", F.col("run").cast("string"), F.col("dest").cast("string"))
    scope = line if local else F.col("run").cast("string")
    sent = dest.select(*MESSAGE, "mproc", "minc", "mlseq", scope.alias("scope"))
    steps = t.keep(causal_steps(t, sent))
    bound = (F.col("inc") == 0) & (F.lit(uniform) | F.col("correct"))
    rows = t.deliveries.where(bound & F.col("first")).join(sent, MESSAGE)
    at = rows.select("scope", F.col("proc").alias("q"), "s", "n", "pos", "lseq", "real_t")
    owed = t.owed.join(sent.select(*MESSAGE, "scope"), MESSAGE).select(
        "scope", F.col("p").alias("q"), "s", "n", F.lit(True).alias("owed")
    )
    lines = t.keep(at.join(owed, ["scope", "q", "s", "n"], "left"))
    busy = lines.select("scope", "q").distinct()
    absent = t.keep(
        owed.join(lines, ["scope", "q", "s", "n"], "left_anti")
        .join(busy, ["scope", "q"], "left_semi")
        .withColumns(
            {
                "pos": F.lit(NEVER),
                "lseq": F.lit(None).cast("long"),
                "real_t": F.lit(None).cast("long"),
            }
        )
    )
    seen = lines.unionByName(absent.select(*lines.columns))
    edges = steps.union(_order_edges(lines, absent))
    potential = t.potential().join(sent.select(*MESSAGE, "scope"), MESSAGE)
    knots = t.keep(
        components(edges, potential.select(F.col("scope").alias("run"), "s", "n", "f"))
    ).select(F.col("run").alias("scope"), "component", "s", "n")
    found = _inside(knots, steps, seen)
    if local:
        found = found.withColumn("run", F.element_at(F.split("run", r"\|"), 1))
    return found


def causal_steps(t: Tables, sent: DataFrame) -> DataFrame:
    """run (the scope), s1, n1 → s2, n2: what its sender multicast last, or delivered since."""
    mine = sent.select("scope", F.col("mproc").alias("proc"), F.col("minc").alias("inc"),
                       F.col("mlseq").alias("lseq"), "s", "n", F.lit(1).alias("made"))  # fmt: skip
    read = t.deliveries.join(sent, MESSAGE).select(
        "scope", "proc", "inc", "lseq", "s", "n", F.lit(0).alias("made")
    )
    both = mine.union(read)
    # Backwards: Spark scans a frame that ends at "unbounded following" anew for each row.
    after = (
        Window.partitionBy("scope", "proc")
        .orderBy(F.desc("inc"), F.desc("lseq"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    made = F.when(F.col("made") == 1, F.struct("s", "n"))
    following = both.withColumn("next", F.last(made, ignorenulls=True).over(after))
    return following.where("next is not null").select(
        F.col("scope").alias("run"), F.col("s").alias("s1"), F.col("n").alias("n1"),
        F.col("next.s").alias("s2"), F.col("next.n").alias("n2"),
    ).where("s1 != s2 or n1 != n2")  # fmt: skip


def _order_edges(lines: DataFrame, absent: DataFrame) -> DataFrame:
    in_line = Window.partitionBy("scope", "q").orderBy("pos")
    steps = lines.select(
        F.col("scope").alias("run"), F.lag("s").over(in_line).alias("s1"),
        F.lag("n").over(in_line).alias("n1"), F.col("s").alias("s2"), F.col("n").alias("n2"),
    ).where("s1 is not null")  # fmt: skip
    last = lines.groupBy("scope", "q").agg(F.max_by(F.struct("s", "n"), "pos").alias("last"))
    never = absent.join(last, ["scope", "q"]).select(
        F.col("scope").alias("run"), F.col("last.s").alias("s1"), F.col("last.n").alias("n1"),
        F.col("s").alias("s2"), F.col("n").alias("n2"),
    )  # fmt: skip
    return steps.union(never)


def _inside(knots: DataFrame, steps: DataFrame, seen: DataFrame) -> DataFrame:
    """Hands each component, its causal steps and its members' positions to `_search`."""
    one = knots.withColumnsRenamed({"s": "s1", "n": "n1"})
    two = knots.select("scope", F.col("component").alias("component2"),
                       F.col("s").alias("s2"), F.col("n").alias("n2"))  # fmt: skip
    named = steps.withColumnRenamed("run", "scope")
    within = (
        named.join(one, ["scope", "s1", "n1"])
        .join(two, ["scope", "s2", "n2"])
        .where("component = component2")
        .select("scope", "component", "s1", "n1", "s2", "n2",
                F.lit(-1).alias("q"), F.lit(0).cast("long").alias("pos"),
                F.lit(False).alias("owed"), F.lit(None).cast("long").alias("lseq"),
                F.lit(None).cast("long").alias("real_t"))
    )  # fmt: skip
    places = seen.join(knots, ["scope", "s", "n"]).select(
        "scope", "component", F.col("s").alias("s1"), F.col("n").alias("n1"),
        F.col("s").alias("s2"), F.col("n").alias("n2"), "q", F.col("pos").cast("long"),
        F.coalesce("owed", F.lit(False)).alias("owed"), "lseq", "real_t",
    )  # fmt: skip
    return within.union(places).groupBy("scope", "component").applyInArrow(_search, schema=_ROWS)


def _search(table: Any) -> Any:
    """One violation inside a component, if there is one."""
    run = table.column("scope")[0].as_py()
    tangle = Tangle(table)
    if tangle.messages > MESSAGES_MAX:
        return _answer(run=run, what="too-entangled")
    found = tangle.violation()
    if found is None:
        return _ROWS_ARROW.empty_table()
    effect, cause = table.slice(found.effect_row, 1), table.slice(found.cause_row, 1)
    (s, n), (s2, n2) = found.effect, found.cause
    at = {"lseq": effect.column("lseq")[0].as_py(), "real_t": effect.column("real_t")[0].as_py()}
    at2 = {"lseq2": cause.column("lseq")[0].as_py(), "real_t2": cause.column("real_t")[0].as_py()}
    who = {"proc": found.q, "inc": 0, **at, **at2}
    return _answer(run=run, s=s, n=n, s2=s2, n2=n2, what="effect-first", **who)


def _answer(**values: Any) -> Any:
    return pa.Table.from_pylist([values], schema=_ROWS_ARROW)


def local_order(t: Tables, *, uniform: bool) -> DataFrame:
    """One step: what a life delivered before it multicast m′ comes before m′ at every receiver."""
    place = t.in_first_life.withColumnRenamed("p", "q")
    read = t.deliveries.select("run", "proc", "inc", "lseq", "s", "n")
    addressed = t.owed.select(*MESSAGE, F.col("p").alias("q"))
    values = (
        read.join(addressed, MESSAGE)
        .join(place, ["run", "q", "s", "n"], "left")
        .select(*LIFE, "q", "lseq", F.coalesce("pos", F.lit(NEVER)).alias("value"),
                "s", "n", F.lit(None).cast("long").alias("pos"))
        .withColumn("at", F.lit(None).cast("struct<lseq: bigint, real_t: bigint>"))
    )  # fmt: skip
    bound = t.deliveries.where("inc = 0 and first").where(F.lit(uniform) | F.col("correct"))
    receivers = bound.select(
        "run", F.col("proc").alias("q"), "s", "n", "pos", F.struct("lseq", "real_t").alias("at")
    )
    sent = t.multicasts.join(receivers, MESSAGE).select(
        "run", F.col("mproc").alias("proc"), F.col("minc").alias("inc"), "q",
        F.col("mlseq").alias("lseq"), F.lit(-1).cast("long").alias("value"), "s", "n",
        F.col("pos").cast("long"), "at",
    )  # fmt: skip
    upto = Window.partitionBy(*LIFE, "q").orderBy("lseq")
    both = values.union(sent).select(
        "*", F.max(F.struct("value", "s", "n")).over(upto).alias("latest")
    )
    return both.where("pos is not null and latest.value > pos").select(
        "run", F.col("q").alias("proc"), "s", "n", F.col("latest.s").alias("s2"),
        F.col("latest.n").alias("n2"), F.lit(0).alias("inc"), "at.lseq", "at.real_t",
        F.lit("effect-first").alias("what"),
    )  # fmt: skip
