"""Properties proved in one pass over the deliveries, for runs in which nothing is wrong.

Two shuffles, whatever is asked: by process, where each delivery meets the one before it, and by
message, where all deliveries of a message meet its multicast. What is left is one row per message.

The witness is the recorded timestamp. It is not trusted: equal at all deliverers, one message each
and growing along every life, it proves one order and no second delivery. Causal order follows
when each multicast is stamped after all that its process had delivered and multicast before, and
when what a receiver lacks is stamped after all that it delivers.

A lemma that fails convicts nobody: its properties are then decided by the exact checks. So every
lemma may be stricter than it need be, and none may be weaker (decision 0042).
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import DELIVER, MULTICAST
from shmcast.pipeline.roster import WORDS_MAX
from shmcast.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LIFE_SHIFT = 44  # a row's place in its process in one number: life, then lseq
_LSEQ_MAX = 1 << _LIFE_SHIFT
_KEY = ["r", "s", "n"]  # numbers, so that keys are words and not strings
_EVER = (1 << 63) - 1

# What rows of a message may say, as bits of one word.
_SENT, _SEEN, _ODD, _BARE, _FALLS, _STRANGER, _BACK = (1 << k for k in range(7))

_ORDER = ("stamped", "stepping", "unique")
_INTEGRITY = ("stamped", "stepping", "sent", "addressed", "causes")  # causes: none rests on itself
_FIFO = (*_ORDER, "plain", "lines", "one-life")
_CAUSAL = (*_ORDER, "plain", "lines", "causes", "prefix")

NEEDS: dict[str, tuple[str, ...]] = {
    "timestamp-order": _ORDER,
    "total": _ORDER,
    "pairwise-total": _ORDER,
    "local-total": _ORDER,
    "global-total": _ORDER,
    "ordering": (*_ORDER, "plain", "prefix"),
    "integrity": (*_INTEGRITY, "plain"),
    "agreement": ("plain", "all"),
    "multicast-validity": ("plain", "some"),
    "validity": ("plain", "own"),
    "termination": ("plain", "quorum"),
    "fifo": _FIFO,
    "global-fifo": _FIFO,
    "local-fifo": _FIFO,
    "causal": _CAUSAL,
    "global-causal": _CAUSAL,
    "local-causal": _CAUSAL,
    "local-order": _CAUSAL,
    "real-time": ("plain", "in-time"),
}
"""Which lemmas prove a property; its uniform version as well."""


class Certificate:
    """What of many runs is proved. `wide`: too many lives for the pass, nothing is."""

    def __init__(self, t: Tables) -> None:
        self._t = t
        self._words = t.roster.words
        self.failed: dict[str, set[str]] = defaultdict(set)  # lemma -> runs
        self.is_wide = self._words > WORDS_MAX
        if not self.is_wide:
            self._prove()

    def proves(self, run: str, name: str) -> bool:
        lemmas = NEEDS.get(name.removeprefix("uniform-"))
        if lemmas is None or self.is_wide:
            return False
        return all(run not in self.failed[lemma] for lemma in lemmas)

    def trusts_clocks(self, run: str, *, across: bool) -> bool:
        """`across`: also those of different processes, compared."""
        lemmas = ("onward", "after") if across else ("onward",)
        return not self.is_wide and all(run not in self.failed[lemma] for lemma in lemmas)

    def _prove(self) -> None:
        t, words = self._t, self._words
        messages = t.keep(_messages(t, words))
        self._note(_of_messages(t, messages, words))
        self._note(_of_lines(messages, words))
        self._note(_shared(messages))
        if self.failed["complete"]:
            self._note(_left_out(t, messages, words))
            self._note(_too_few(t, messages, words))
        if self.failed["tried-once"]:
            self._note(_other_retries(t, messages))
        self.failed["one-life"] |= t.roster.restarted

    def _note(self, frame: DataFrame) -> None:
        """`frame`: r, and for each lemma a column that is true where it fails."""
        for row in frame.collect():
            for lemma, is_broken in row.asDict().items():
                if lemma != "r" and is_broken is not False:  # null: not even to be decided
                    self.failed[lemma].add(self._t.roster.names[row["r"]])


def _each(words: int, one: Any) -> Iterable[Column]:
    return (one(w) for w in range(words))


def _any_bit(words: int, one: Any) -> Column:
    """Whether a bit is set in any word: `one(w)` is the expression of a word."""
    found = (F.coalesce(one(w), F.lit(0)) != 0 for w in range(words))
    return functools.reduce(operator.or_, found)


def _steps(t: Tables) -> DataFrame:
    """Multicasts and deliveries, each beside the last delivery of its life before it."""
    is_delivery = F.col("kind") == DELIVER
    rows = t.events.where((F.col("layer") == "") & F.col("kind").isin(MULTICAST, DELIVER)).select(
        "r", "proc", F.col("inc").try_cast("short").alias("inc"), "lseq", "s", "n", "real_t",
        "local_t",
        is_delivery.alias("is_d"),
        F.when(is_delivery, F.col("ts_time")).alias("time"),
        F.when(is_delivery, F.col("ts_group")).alias("group"),
    )  # fmt: skip
    before = (
        Window.partitionBy("r", "proc", "inc")
        .orderBy("lseq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return rows.select(
        "*",
        F.last("time", ignorenulls=True).over(before).alias("last_time"),
        F.last("group", ignorenulls=True).over(before).alias("last_group"),
        F.max("local_t").over(before).alias("last_local"),
    )


def _grows() -> Column:
    """(last_time, last_group) < (time, group); null where one is missing."""
    same_time = F.col("time") == F.col("last_time")
    return (F.col("time") > F.col("last_time")) | (
        same_time & (F.col("group") > F.col("last_group"))
    )


def _flags(pairs: Iterable[tuple[Column, int]]) -> Column:
    words = (F.when(wrong, F.lit(flag)).otherwise(F.lit(0)) for wrong, flag in pairs)
    return functools.reduce(lambda a, b: a.bitwiseOR(b), words)


def _has(flag: int) -> Column:
    return F.col("flags").bitwiseAND(F.lit(flag)) != 0


def _messages(t: Tables, words: int) -> DataFrame:
    """One row per message: its multicast, its timestamps, and who of its members delivered it."""
    rows = _steps(t).join(t.bits, ["r", "proc", "inc"], "left")
    is_d, is_m = F.col("is_d"), ~F.col("is_d")
    later = F.col("inc") > 0  # what it knew in an earlier life is not looked up
    at = F.shiftleft(F.col("inc").cast("long"), _LIFE_SHIFT) + F.col("lseq")
    odd = F.col("inc").isNull() | ~F.col("lseq").between(0, _LSEQ_MAX - 1)
    odd = odd | (is_m & (F.col("proc") != F.col("s")))
    flags = _flags(
        [
            (is_m, _SENT),
            (is_d, _SEEN),
            (odd, _ODD),
            (is_d & (F.col("time").isNull() | F.col("group").isNull()), _BARE),
            (is_d & F.col("last_time").isNotNull() & ~F.coalesce(_grows(), F.lit(False)), _FALLS),
            (is_d & F.col("word").isNull(), _STRANGER),
            (F.col("last_local") > F.col("local_t"), _BACK),
        ]
    )
    known = F.when(later, F.lit(_EVER)).otherwise(F.coalesce("last_time", F.lit(-_EVER)))
    seen = rows.groupBy(*_KEY).agg(
        F.bit_or(flags).alias("flags"),
        F.min(F.when(is_m, at)).alias("m_at"),
        F.max(F.when(is_m, at)).alias("again_at"),
        F.min(F.when(is_d & (F.col("proc") == F.col("s")), at)).alias("own_at"),
        F.min(F.when(is_m, known)).alias("known"),
        F.min(F.when(is_m, F.col("real_t"))).alias("m_real"),
        F.min(F.when(is_d, F.col("real_t"))).alias("d_first"),
        F.max(F.when(is_d, F.col("real_t"))).alias("d_real"),
        F.min("time").alias("time"),
        F.max("time").alias("time2"),
        F.min("group").alias("group"),
        F.max("group").alias("group2"),
        *_each(
            words,
            lambda w: F.bit_or(F.when(is_d & (F.col("word") == w), F.col("bit"))).alias(f"b{w}"),
        ),
    )
    return seen.join(_owed(t, words), _KEY, "left")


def _owed(t: Tables, words: int) -> DataFrame:
    """Of each multicast message, the members that it is for: first lives, and later ones."""
    rows = t.events.where((F.col("layer") == "") & (F.col("kind") == MULTICAST))
    rows = rows.select(*_KEY, F.explode_outer("dest").alias("g")).join(t.masks, ["r", "g"], "left")
    return rows.groupBy(*_KEY).agg(
        F.max(F.col("size").isNull()).alias("nowhere"),
        *_each(words, lambda w: F.bit_or(f"first{w}").alias(f"e{w}")),
        *_each(words, lambda w: F.bit_or(f"later{w}").alias(f"l{w}")),
    )


def _zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0).cast("long"))


def _missing(w: int) -> Column:
    """First lives that owe the message and lack it."""
    return _zero(f"e{w}").bitwiseAND(F.bitwise_not(_zero(f"b{w}")))


def _of_messages(t: Tables, messages: DataFrame, words: int) -> DataFrame:
    """Lemmas that one message at a time can break."""
    lost = t.unfinished.withColumn("may_be_lost", F.lit(True))
    faulty = t.faulty.select("run", F.col("proc").alias("s"), "faulty")
    own = t.bits.where("inc = 0").select(
        "r", F.col("proc").alias("s"), F.col("word").alias("s_word"), F.col("bit").alias("s_bit")
    )
    rows = (
        messages.join(t.correct, "r")
        .join(own, ["r", "s"], "left")
        .join(lost, ["run", "s"], "left")
        .join(faulty, ["run", "s"], "left")
        .join(t.runs, "run")
    )
    sent, seen = _has(_SENT), _has(_SEEN)
    by_correct = sent & F.col("faulty").isNull() & (F.col("m_at") < _LSEQ_MAX)

    def correct(w: int) -> Column:
        return _zero(f"e{w}").bitwiseAND(F.col(f"correct{w}"))

    outside = _any_bit(
        words,
        lambda w: _zero(f"b{w}").bitwiseAND(
            F.bitwise_not(_zero(f"e{w}").bitwiseOR(_zero(f"l{w}")))
        ),
    )
    owes = _any_bit(words, lambda w: correct(w).bitwiseAND(F.bitwise_not(_zero(f"b{w}"))))
    some = _any_bit(words, lambda w: correct(w).bitwiseAND(_zero(f"b{w}")))
    anybody = _any_bit(words, correct)
    has_own = _any_bit(
        words, lambda w: F.when(F.col("s_word") == w, F.col("s_bit").bitwiseAND(_zero(f"b{w}")))
    )
    early = F.coalesce(F.col("own_at") < F.col("m_at"), F.lit(False))
    took = F.try_subtract("d_real", "m_real")
    two = (F.col("time") != F.col("time2")) | (F.col("group") != F.col("group2"))
    return rows.groupBy("r").agg(
        F.max(_has(_ODD) | F.coalesce("nowhere", F.lit(False))).alias("plain"),
        F.max(_has(_BARE) | (seen & two)).alias("stamped"),
        F.max(_has(_FALLS)).alias("stepping"),
        F.max((~sent & F.col("may_be_lost").isNull()) | early).alias("sent"),
        F.max(sent & (outside | _has(_STRANGER))).alias("addressed"),
        F.max(sent & seen & owes).alias("all"),
        F.max(by_correct & anybody & ~some).alias("some"),
        F.max(by_correct & ~has_own).alias("own"),
        F.max(sent & seen & F.coalesce(took > F.col("bound_ns"), F.lit(True))).alias("in-time"),
        F.max(sent & seen & (F.col("time") <= F.col("known"))).alias("causes"),
        F.max(_has(_BACK)).alias("onward"),
        F.max(sent & _any_bit(words, _missing)).alias("complete"),
        F.max(F.coalesce(F.col("again_at") > F.col("m_at"), F.lit(False))).alias("tried-once"),
        F.max(sent & seen & (F.col("d_first") < F.col("m_real"))).alias("after"),
    )


def _of_lines(messages: DataFrame, words: int) -> DataFrame:
    """Along what one sender multicast: timestamps grow, and nobody who left one out goes on."""
    before = Window.partitionBy("r", "s").orderBy("m_at").rowsBetween(Window.unboundedPreceding, -1)
    rows = messages.where(_has(_SENT)).select(
        "*",
        F.last("time", ignorenulls=True).over(before).alias("last_time"),
        F.last("group", ignorenulls=True).over(before).alias("last_group"),
        F.max(~_has(_SEEN)).over(before).alias("unseen"),
        *_each(words, lambda w: F.bit_or(_missing(w)).over(before).alias(f"gone{w}")),
    )
    falls = F.col("last_time").isNotNull() & ~F.coalesce(_grows(), F.lit(False))
    skips = _any_bit(
        words, lambda w: _zero(f"b{w}").bitwiseAND(_zero(f"e{w}")).bitwiseAND(_zero(f"gone{w}"))
    )
    broken = _has(_SEEN) & (falls | skips | F.coalesce("unseen", F.lit(False)))
    return rows.groupBy("r").agg(F.max(broken).alias("lines"))


def _shared(messages: DataFrame) -> DataFrame:
    """Two messages with one timestamp."""
    owners = messages.where(_has(_SEEN)).groupBy("r", "time", "group").count()
    return owners.groupBy("r").agg(F.max(F.col("count") > 1).alias("unique"))


def _lacking(messages: DataFrame, words: int) -> DataFrame:
    """Messages that some member lacks."""
    return messages.where(_has(_SENT) & _any_bit(words, _missing))


def _left_out(t: Tables, messages: DataFrame, words: int) -> DataFrame:
    """What a first life lacks, though it delivers something that is stamped later."""
    lacks = functools.reduce(
        operator.or_,
        ((F.col("word") == w) & (_missing(w).bitwiseAND(F.col("bit")) != 0) for w in range(words)),
    )
    somewhere = _lacking(messages, words).where(_has(_SEEN))
    missed = somewhere.join(t.bits.where("inc = 0"), "r").where(lacks)
    first = missed.groupBy("r", "proc").agg(F.min("time").alias("missed"))
    rows = t.events.where((F.col("layer") == "") & (F.col("kind") == DELIVER) & (F.col("inc") == 0))
    last = rows.groupBy("r", "proc").agg(F.max("ts_time").alias("last"))
    behind = F.coalesce(F.col("missed") <= F.col("last"), F.lit(True))
    return first.join(last, ["r", "proc"]).groupBy("r").agg(F.max(behind).alias("prefix"))


def _too_few(t: Tables, messages: DataFrame, words: int) -> DataFrame:
    """Less than a quorum of a group, among first lives: of any group all of whose members the
    message is for, which are its own groups at least."""
    inside = functools.reduce(
        operator.and_,
        (F.col(f"first{w}").bitwiseAND(F.bitwise_not(_zero(f"e{w}"))) == 0 for w in range(words)),
    )
    count = functools.reduce(
        operator.add,
        _each(words, lambda w: F.bit_count(_zero(f"b{w}").bitwiseAND(F.col(f"first{w}")))),
    )
    few = _lacking(messages, words).join(t.masks, "r").where(inside)
    few = few.where(count <= F.floor(F.col("size") / 2))
    return few.select("r").distinct().withColumn("quorum", F.lit(True))


def _other_retries(t: Tables, messages: DataFrame) -> DataFrame:
    """A retry is the same multicast; one to other groups is not plain."""
    retried = messages.where("again_at > m_at").select(*_KEY)
    rows = t.events.where((F.col("layer") == "") & (F.col("kind") == MULTICAST))
    dests = rows.join(retried, _KEY, "left_semi").groupBy(*_KEY)
    counted = dests.agg(F.count_distinct("dest").alias("dests"))
    return counted.groupBy("r").agg(F.max(F.col("dests") > 1).alias("plain"))
