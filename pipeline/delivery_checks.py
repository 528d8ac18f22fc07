"""Validity, agreement, integrity, termination, FIFO, time, genuineness, as tables of violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import RECEIVE, SEND
from shmcast.pipeline.invented import before_their_multicast
from shmcast.pipeline.tables import LIFE, MESSAGE, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def validity(t: Tables) -> DataFrame:
    sent = t.multicasts.where("from_correct").withColumn("p", F.col("mproc"))
    missing = sent.join(t.in_first_life, ["run", "p", "s", "n"], "left_anti")
    return t.closed(missing).select(
        *MESSAGE, F.col("p").alias("proc"), F.col("mreal").alias("real_t"),
        F.lit("own-missing").alias("what"),
    )  # fmt: skip


def multicast_validity(t: Tables) -> DataFrame:
    sent = t.multicasts.where("from_correct").select(*MESSAGE, F.col("mreal").alias("real_t"))
    there = t.in_first_life.withColumn("there", F.lit(1))
    members = t.owed.where("p_faulty is null").join(there, ["run", "p", "s", "n"], "left")
    nobody = members.groupBy(*MESSAGE).agg(F.count("there").alias("there")).where("there = 0")
    found = sent.join(nobody.select(*MESSAGE), MESSAGE, "left_semi")
    return t.closed(found).withColumn("what", F.lit("nobody"))


def agreement(t: Tables, *, uniform: bool) -> DataFrame:
    somewhere = t.delivered(uniform).groupBy(*MESSAGE).agg(
        F.min(F.struct("real_t", "proc", "inc")).alias("by")
    )  # fmt: skip
    missing = t.owed.where("p_faulty is null").join(
        t.in_first_life, ["run", "p", "s", "n"], "left_anti"
    )
    return t.closed(missing.join(somewhere, MESSAGE)).select(
        *MESSAGE, F.col("p").alias("proc"), F.col("by.proc").alias("proc2"),
        F.col("by.inc").alias("inc2"), F.col("by.real_t").alias("real_t"),
        F.lit("missing").alias("what"),
    )  # fmt: skip


def integrity(t: Tables, *, uniform: bool) -> DataFrame:
    rows = t.delivered(uniform)
    known = rows.join(t.multicasts, MESSAGE, "left")
    early = (F.col("proc") == F.col("mproc")) & (
        F.struct("inc", "lseq") < F.struct("minc", "mlseq")
    )
    made_up = before_their_multicast(t).withColumn("made_up", F.lit(True))
    invented = known.join(made_up, [*LIFE, "lseq"], "left").where(
        F.col("mproc").isNull() | early | F.col("made_up")
    )
    unsent = invented.join(t.unfinished, ["run", "s"], "left_anti")
    unsent = unsent.withColumn("what", F.lit("unsent"))
    again = rows.where("not first").withColumn("what", F.lit("twice"))
    member = t.owed.select(*MESSAGE, F.col("p").alias("proc"))
    sent = rows.join(t.multicasts.select(*MESSAGE), MESSAGE, "left_semi")
    stray = sent.join(member, [*MESSAGE, "proc"], "left_anti").withColumn("what", F.lit("stray"))
    columns = [*LIFE, "s", "n", "lseq", "real_t", "what"]
    return unsent.select(columns).union(again.select(columns)).union(stray.select(columns))


def termination(t: Tables) -> DataFrame:
    reached = t.deliveries.select(*MESSAGE, F.col("proc").alias("p")).distinct()
    somewhere = reached.select(*MESSAGE).distinct().withColumn("somewhere", F.lit(True))
    wanted = t.multicasts.join(somewhere, MESSAGE, "left").where("from_correct or somewhere")
    due = wanted.select(*MESSAGE, F.explode("dest").alias("g")).join(t.groups, ["run", "g"])
    lacks = F.col("there").isNull() & F.col("unseen").isNull()
    counted = (
        due.join(reached.withColumn("there", F.lit(1)), [*MESSAGE, "p"], "left")
        .join(t.killed.withColumn("unseen", F.lit(1)), ["run", "p"], "left")
        .groupBy(*MESSAGE, "g")
        .agg(
            F.count(F.coalesce("there", "unseen")).alias("count"),
            F.count("*").alias("size"),
            F.sort_array(F.collect_set(F.when(F.col("there") == 1, F.col("p")))).alias("members"),
            F.sort_array(F.collect_set(F.when(lacks, F.col("p")))).alias("lacking"),
        )
    )
    few = counted.where("count <= floor(size / 2)").withColumn("what", F.lit("no-quorum"))
    return t.closed(few)


def fifo(t: Tables, *, uniform: bool, local: bool = False) -> DataFrame:
    """What q delivers of a line is a prefix of it; a later life begins anywhere, without gaps."""
    line = ["mproc", "dest"] if local else ["mproc"]
    in_line = Window.partitionBy("run", "p", *line).orderBy("minc", "mlseq")
    owed = t.owed.select(
        *MESSAGE, F.col("p").alias("proc"), *line, F.row_number().over(in_line).alias("index")
    )
    rows = t.delivered(uniform).where("first").join(owed, [*MESSAGE, "proc"])
    by_line = Window.partitionBy(*LIFE, *line).orderBy("pos")
    placed = rows.select(
        *LIFE, "s", "n", "lseq", "real_t", "index",
        F.row_number().over(by_line).alias("count"),
        F.first("index").over(by_line).alias("begin"),
        F.lag("s").over(by_line).alias("s2"), F.lag("n").over(by_line).alias("n2"),
    )  # fmt: skip
    expected = F.when(F.col("inc") == 0, F.col("count")).otherwise(
        F.col("begin") + F.col("count") - 1
    )
    return placed.where(F.col("index") != expected).withColumn("what", F.lit("out-of-line"))


def timely(t: Tables, *, uniform: bool, clock: str) -> DataFrame:
    sent = {"real_t": "mreal", "local_t": "mlocal"}[clock]
    rows = t.delivered(uniform).join(t.multicasts, MESSAGE).join(t.runs, "run")
    late = rows.withColumn("took", F.col(clock) - F.col(sent)).where("took > bound_ns")
    return late.select(
        *LIFE, "s", "n", "lseq", "real_t", "took", "bound_ns", F.lit("late").alias("what")
    )


def genuineness(t: Tables) -> DataFrame:
    rows = t.events.where(F.col("kind").isin(SEND, RECEIVE)).select(
        *LIFE, "lseq", "real_t", "detail", F.explode("about").alias("m")
    )
    named = rows.select(
        *LIFE, "lseq", "real_t", "detail", F.col("m.sender").alias("s"), F.col("m.seq").alias("n")
    ).where("proc != s")
    homes = t.groups.groupBy("run", F.col("p").alias("proc")).agg(F.collect_set("g").alias("homes"))
    lost = t.unfinished.withColumn("lost", F.lit(True))
    known = (
        named.join(t.multicasts.select(*MESSAGE, "dest"), MESSAGE, "left")
        .join(F.broadcast(homes), ["run", "proc"], "left")
        .join(lost, ["run", "s"], "left")
    )
    is_member = F.coalesce(F.arrays_overlap("dest", "homes"), F.lit(False))
    is_decided = F.col("dest").isNotNull() | F.col("lost").isNull()
    return known.where(~is_member & is_decided).select(
        *LIFE, "s", "n", "lseq", "real_t", "detail", F.lit("stranger").alias("what")
    )


def without_transmissions(t: Tables) -> DataFrame:
    """Runs of which genuineness cannot be decided: messages, and no transmission on record."""
    faulty = t.faulty.withColumnRenamed("proc", "mproc")
    sent = t.multicasts.join(faulty, ["run", "mproc"], "left_anti").select("run")
    busy = sent.union(t.deliveries.select("run")).distinct()
    heard = t.events.where(F.col("kind").isin(SEND, RECEIVE)).select("run").distinct()
    return busy.join(heard, "run", "left_anti")
