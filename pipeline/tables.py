"""The rows of one or many recorded runs as the tables that checks ask for.

All tables have a column `run`, so that thousands of small runs are checked in one job as one large
run is. Short names: `s`, `n` are a message's sender and number, `p` a member it is addressed to,
`inc` a life, `pos` the place of a delivery among those of its life.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import DELIVER, MULTICAST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shmcast.pipeline.roster import Roster

MESSAGE = ["run", "s", "n"]
LIFE = ["run", "proc", "inc"]


class Tables:
    """`events`: run, its number r and the columns of traces/schema.py. `groups`: run, g, p.
    `runs`: run, closed, bound_ns. `gaps`: run, proc, inc, what: the lives that lack rows, "cut" by
    a crash, "open", or with a "hole". `faulty`: run, proc. Sets of members are words of bits, as
    roster.py numbers them: `bits`: r, proc, inc, word, bit; `masks`: r, g, size, first<w>,
    later<w>; `correct`: r, run, correct<w>."""

    def __init__(
        self,
        events: DataFrame,
        *,
        groups: DataFrame,
        runs: DataFrame,
        gaps: DataFrame,
        faulty: DataFrame,
        roster: Roster,
    ) -> None:
        self.events = events.withColumnsRenamed(
            {"incarnation": "inc", "msg_sender": "s", "msg_seq": "n"}
        )
        self.groups = F.broadcast(groups)
        self.faulty = F.broadcast(faulty.withColumn("faulty", F.lit(True)))
        self.roster = roster
        self.runs = F.broadcast(runs)
        self.gaps = F.broadcast(gaps)
        self._kept: list[DataFrame] = []

    def _small(self, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        return F.broadcast(self.events.sparkSession.createDataFrame(list(rows), schema))

    @cached_property
    def bits(self) -> DataFrame:
        return self._small(self.roster.bits, "r short, proc int, inc short, word int, bit bigint")

    @cached_property
    def masks(self) -> DataFrame:
        sets = f"{self.roster.columns('first')}, {self.roster.columns('later')}"
        return self._small(self.roster.masks, f"r short, g int, size int, {sets}")

    @cached_property
    def correct(self) -> DataFrame:
        return self._small(
            self.roster.correct, f"r short, run string, {self.roster.columns('correct')}"
        )

    def keep(self, frame: DataFrame) -> DataFrame:
        """Used by several checks: computed once, spilled to disk where memory ends."""
        self._kept.append(frame.persist())
        return frame

    def release(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    @cached_property
    def unfinished(self) -> DataFrame:
        """run, s: senders of which rows may be missing."""
        return F.broadcast(self.gaps.select("run", F.col("proc").alias("s")).distinct())

    @cached_property
    def killed(self) -> DataFrame:
        """run, p: members or clients that lost their last rows."""
        rows = self.gaps.where("what = 'cut'")
        return F.broadcast(rows.select("run", F.col("proc").alias("p")).distinct())

    @cached_property
    def multicasts(self) -> DataFrame:
        """One row per message, as its sender handed it in first; a retry is the same multicast."""
        rows = self.events.where((F.col("kind") == MULTICAST) & (F.col("layer") == ""))
        first = F.min(F.struct("inc", "lseq", "proc", "real_t", "local_t", "dest")).alias("first")
        found = (
            rows.groupBy(*MESSAGE)
            .agg(first)
            .select(
                *MESSAGE,
                F.col("first.proc").alias("mproc"),
                F.col("first.inc").alias("minc"),
                F.col("first.lseq").alias("mlseq"),
                F.col("first.real_t").alias("mreal"),
                F.col("first.local_t").alias("mlocal"),
                F.col("first.dest").alias("dest"),
            )
        )
        sender = self.faulty.withColumnRenamed("proc", "mproc")
        found = found.join(sender, ["run", "mproc"], "left").withColumn(
            "from_correct", F.col("faulty").isNull() & (F.col("minc") == 0)
        )
        return self.keep(found.drop("faulty"))

    @cached_property
    def deliveries(self) -> DataFrame:
        rows = self.events.where((F.col("kind") == DELIVER) & (F.col("layer") == ""))
        in_life = Window.partitionBy(*LIFE).orderBy("lseq")
        again = Window.partitionBy(*LIFE, "s", "n").orderBy("lseq")
        found = rows.select(
            *LIFE, "lseq", "s", "n", "real_t", "local_t", "ts_time", "ts_group",
            F.row_number().over(in_life).alias("pos"),
            F.lag("s").over(in_life).alias("prev_s"),
            F.lag("n").over(in_life).alias("prev_n"),
            F.lag(F.struct("ts_time", "ts_group")).over(in_life).alias("prev_ts"),
        ).withColumn("first", F.row_number().over(again) == 1)  # fmt: skip
        found = found.join(self.faulty, ["run", "proc"], "left").withColumn(
            "correct", F.col("faulty").isNull() & (F.col("inc") == 0)
        )
        return self.keep(found.drop("faulty"))

    @cached_property
    def owed(self) -> DataFrame:
        """One row per message and member of its groups."""
        rows = self.multicasts.select(
            *MESSAGE, "mproc", "minc", "mlseq", "dest", F.explode("dest").alias("g")
        )
        found = rows.join(self.groups, ["run", "g"]).drop("g").dropDuplicates([*MESSAGE, "p"])
        faulty = self.faulty.withColumnsRenamed({"proc": "p", "faulty": "p_faulty"})
        return self.keep(found.join(faulty, ["run", "p"], "left"))

    def delivered(self, uniform: bool) -> DataFrame:
        return self.deliveries if uniform else self.deliveries.where("correct")

    @cached_property
    def in_first_life(self) -> DataFrame:
        """run, p, s, n, pos: the first delivery of each message in each first life."""
        rows = self.deliveries.where((F.col("inc") == 0) & F.col("first"))
        return rows.select("run", F.col("proc").alias("p"), "s", "n", "pos")

    def unsent(self) -> DataFrame:
        """run, s, n: messages that were delivered, and whose multicast may be lost."""
        rows = self.events.where((F.col("kind") == DELIVER) & (F.col("layer") == ""))
        seen = rows.select(*MESSAGE).join(self.unfinished, ["run", "s"], "left_semi")
        return seen.join(self.multicasts, MESSAGE, "left_anti").distinct()

    def resumed(self) -> DataFrame:
        """run, mproc: senders that multicast again after a life that was cut."""
        cut = self.gaps.where("what = 'cut'").select("run", F.col("proc").alias("mproc"), "inc")
        later = self.multicasts.join(cut, ["run", "mproc"]).where("minc > inc")
        return later.select("run", "mproc").distinct()

    def closed(self, frame: DataFrame) -> DataFrame:
        """Liveness is decided of runs that are over."""
        return frame.join(self.runs.where("closed").select("run"), "run")

    def potential(self) -> DataFrame:
        """run, s, n, f: any number will do for finding cycles; one that nearly grows along the
        order, as a timestamp should, makes it cheap."""
        when = F.coalesce(F.col("ts_time"), F.col("real_t"))
        sent = self.multicasts.select(*MESSAGE, F.lit(None).cast("long").alias("f"))
        seen = self.deliveries.select(*MESSAGE, when.alias("f"))
        lowest: Any = F.min("f")
        last = F.lit((1 << 63) - 1)  # nobody delivers it: it comes after everything
        return seen.union(sent).groupBy(*MESSAGE).agg(F.coalesce(lowest, last).alias("f"))
