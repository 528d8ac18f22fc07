"""A recorded run, checked in Spark: verdicts, counterexamples as rows, and the same in words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shmcast.errors import Corrupt
from shmcast.multicast.checks.reliable import OPEN
from shmcast.multicast.checks.settle import Lacks, settled
from shmcast.multicast.checks.table import TIMED
from shmcast.multicast.checks.trace import CRASH, END, FAULT, LOST, Gaps
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated
from shmcast.multicast.traces import clocks
from shmcast.multicast.traces.judge import in_doubt, undecided, wanted
from shmcast.multicast.traces.reader import Life, check_footer, gaps_of, read_part
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import WITNESS_LSEQ, Part, parts
from shmcast.pipeline.roster import WORDS_MAX, Cast, Roster
from shmcast.pipeline.session import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shmcast.pipeline.certificate import Certificate
    from shmcast.pipeline.tables import Tables


EXAMPLES_MAX = 5
ELSEWHERE = "only the checkers in memory decide this one: --engine memory"
SILENT = "the trace holds no transmissions: record it in full"
_PARTITIONS = "spark.sql.shuffle.partitions"
_PARTITION_BYTES = 64 << 20  # of Parquet, about 3 million rows
_RUN = "run"  # in column `run` of a single one
_GAPS = "run string, proc int, inc int, what string"
_LIVENESS = ("validity", "multicast-validity", "agreement", "uniform-agreement", "termination")
_EVENTS = (
    "proc int, incarnation int, lseq bigint, real_t bigint, local_t bigint, kind string, "
    "layer string, msg_sender int, msg_seq bigint, dest array<int>, ts_time bigint, ts_group int, "
    "peer int, copy bigint, about array<struct<sender: int, seq: bigint>>, detail string"
)


class Described(NamedTuple):
    """What is known of a run besides its rows, or from one look at them."""

    cast: Cast
    gaps: Gaps
    closed: bool
    bound_ns: int | None


@dataclass(frozen=True)
class Verified:
    info: RunInfo
    gaps: Gaps
    verdicts: dict[str, Verdict]
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # rows, per property
    files: tuple[Part, ...] = ()  # that could be read


def verify(spark: SparkSession, directory: str | Path, names: Iterable[str] = ()) -> Verified:
    """The named properties, or those that the run promises."""
    info = RunInfo.read(directory)
    asked = wanted(info, names)
    good, bad = sound_parts(Path(directory))
    if not good:
        what = "readable rows" if bad else "rows"
        raise FileNotFoundError(f"{directory} holds no {what}: was the run recorded at all?")
    try:
        return _verify(spark, info, (good, bad), asked)
    except Exception as error:
        told = plain(error)
        if told is None:
            raise
    # A sound end says nothing of the pages before it. Reading them all first would cost every run.
    good, damaged = readable_parts(good)
    if not damaged or not good:
        raise Corrupt(f"Spark could not read the run: {told}; try --engine memory for details")
    return _verify(spark, info, (good, [*bad, *damaged]), asked)


@contextlib.contextmanager
def _partitions_for(spark: SparkSession, good: Sequence[Part]) -> Iterator[None]:
    """As many as keep one within a task's memory, whatever the size of the run."""
    size = sum(part.path.stat().st_size for part in good)
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, max(int(before or 1), size // _PARTITION_BYTES))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, before)


def sound_parts(run: Path) -> tuple[list[Part], list[Part]]:
    """Finished files with an intact end, and those without. Another version is an error."""
    good, bad = [], []
    for part in parts(run):
        try:
            check_footer(part)
            good.append(part)
        except Corrupt:
            bad.append(part)
    return good, bad


def readable_parts(candidates: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """Those whose every page can be read, and those with a damaged one."""
    good, bad = [], []
    for part in candidates:
        try:
            read_part(part)
            good.append(part)
        except Corrupt:
            bad.append(part)
    return good, bad


def read_rows(spark: SparkSession, good: Sequence[Part]) -> DataFrame:
    reader = spark.read.schema(_EVENTS).option("recursiveFileLookup", "true")
    return reader.parquet(*(str(part.path) for part in good))


def _verify(
    spark: SparkSession, info: RunInfo, files: tuple[list[Part], list[Part]], asked: Iterable[str]
) -> Verified:
    with _partitions_for(spark, files[0]):
        return _verify_files(spark, info, files, asked)


def _verify_files(
    spark: SparkSession, info: RunInfo, files: tuple[list[Part], list[Part]], asked: Iterable[str]
) -> Verified:
    from pyspark.sql import functions as F

    good, bad = files
    rows = read_rows(spark, good)
    lives = _lives(rows)
    gaps = gaps_of(info, lives, bad)
    described = Described(cast_of(info.groups, lives), gaps, gaps.closed, info.bound_ns)
    named = rows.withColumns({"run": F.lit(_RUN), "r": F.lit(0).cast("short")})
    t = tables(named, {_RUN: described})
    try:
        return replace(_Verifier(t, info, gaps).verify(asked), files=tuple(good))
    finally:
        t.release()


class _Verifier:
    """Proves what it can in one pass; what is left is looked for property by property."""

    def __init__(self, t: Tables, info: RunInfo, gaps: Gaps) -> None:
        self._t, self._info, self._gaps = t, info, gaps

    @cached_property
    def _certificate(self) -> Certificate:
        from shmcast.pipeline.certificate import Certificate

        return Certificate(self._t)

    def verify(self, asked: Iterable[str]) -> Verified:
        lacks = _lacks(self._t, self._info, self._gaps)
        verdicts: dict[str, Verdict] = {}
        examples: dict[str, list[dict[str, Any]]] = {}
        for name in asked:
            raw, rows_found = self._decided(name)
            verdicts[name] = settled(name, raw, lacks)
            if name in TIMED and self._info.bound_ns is not None:
                verdicts[name] = in_doubt(verdicts[name], self._doubt(name))
            if raw.violated:
                examples[name] = rows_found
        return Verified(self._info, self._gaps, verdicts, examples)

    def _decided(self, name: str) -> tuple[Verdict, list[dict[str, Any]]]:
        """On the rows that are there, with counterexamples."""
        from shmcast.pipeline.properties import PROPERTIES

        early = undecided(self._info, name)
        if early is not None:
            return early, []
        if name not in PROPERTIES:
            return undetermined(ELSEWHERE), []
        if name in _LIVENESS and not self._gaps.closed:
            return undetermined(OPEN), []
        if self._certificate.proves(_RUN, name):
            return PASSED, []
        found = _examples(PROPERTIES[name](self._t))
        if found:
            return _told(found)
        silent = name == "genuineness" and _is_silent(self._t)
        return undetermined(SILENT) if silent else PASSED, []

    def _doubt(self, name: str) -> str:
        """Why times of this record say nothing, as traces/clocks.py has it."""
        from shmcast.pipeline import clock_checks

        across = name in clocks.REAL_TIME
        if self._certificate.trusts_clocks(_RUN, across=across):
            return ""
        for row in clock_checks.backwards(self._t).take(1):
            return clocks.backwards(row["proc"], row["lseq"], row["by_ns"])
        for row in clock_checks.too_early(self._t).take(1) if across else ():
            return clocks.too_early(row["proc"], (row["s"], row["n"]), row["by_ns"])
        return ""


def tables(events: DataFrame, runs: Mapping[str, Described]) -> Tables:
    """`events` of one or many runs, by their name in column `run` and their number among `runs` in
    column `r`, a short."""
    from shmcast.pipeline.tables import Tables

    spark = events.sparkSession
    members = [
        (run, g, p)
        for run, of in runs.items()
        for g, group in enumerate(of.cast.groups)
        for p in group
    ]  # fmt: skip
    faulty = [(run, p) for run, of in runs.items() for p in sorted(of.cast.faulty)]
    closed = [(run, of.closed, of.bound_ns) for run, of in runs.items()]
    lacking = [
        (run, p, k, what)
        for run, of in runs.items()
        for what, lives in (("cut", of.gaps.cut), ("open", of.gaps.open))
        for p, k in lives
    ]
    holes = [(run, p, None, "hole") for run, of in runs.items() for p in of.gaps.holes]
    return Tables(
        events,
        groups=spark.createDataFrame(members, "run string, g int, p int"),
        runs=spark.createDataFrame(closed, "run string, closed boolean, bound_ns bigint"),
        gaps=spark.createDataFrame([*lacking, *holes], _GAPS),
        faulty=spark.createDataFrame(faulty, "run string, proc int"),
        roster=Roster.of({run: of.cast for run, of in runs.items()}, WORDS_MAX),
    )


def _lives(rows: DataFrame) -> list[Life]:
    """One row per life: what decides whether its record is whole."""
    from pyspark.sql import functions as F

    is_own = F.col("lseq") < WITNESS_LSEQ
    own = F.when(is_own, F.col("lseq"))
    found = rows.groupBy("proc", "incarnation").agg(
        F.count(own).alias("rows"),
        F.coalesce(F.max(own), F.lit(0)).alias("last"),
        F.max(is_own & F.col("kind").isin(END, CRASH)).alias("ended"),
        F.max(~is_own).alias("killed"),
        F.max(F.col("kind") == LOST).alias("lost"),
        F.max(F.col("kind").isin(CRASH, FAULT)).alias("failed"),
    )
    return [Life(*row) for row in found.collect()]


def cast_of(groups: tuple[tuple[int, ...], ...], lives: Iterable[Life]) -> Cast:
    lives = list(lives)
    later = frozenset((life.proc, life.incarnation) for life in lives if life.incarnation)
    faulty = {life.proc for life in lives if life.failed} | {proc for proc, _ in later}
    return Cast(groups, later, frozenset(faulty))


def _lacks(t: Tables, info: RunInfo, gaps: Gaps) -> Lacks:
    if not gaps:
        return Lacks(gaps, info.members)
    unsent, resumed = t.unsent().take(1), t.resumed().take(1)
    return Lacks(
        gaps,
        info.members,
        (unsent[0]["s"], unsent[0]["n"]) if unsent else None,
        resumed[0]["mproc"] if resumed else None,
    )


def _told(found: list[dict[str, Any]]) -> tuple[Verdict, list[dict[str, Any]]]:
    more = "" if len(found) <= EXAMPLES_MAX else f" (and more than {EXAMPLES_MAX} such)"
    found.sort(key=lambda row: row["what"] == "too-entangled")
    judge = undetermined if found[0]["what"] == "too-entangled" else violated
    return judge(words(found[0]) + more), found[:EXAMPLES_MAX]


def _examples(found: DataFrame) -> list[dict[str, Any]]:
    rows = found.drop("run").limit(EXAMPLES_MAX + 1).collect()
    return [
        {name: value for name, value in row.asDict(recursive=True).items() if value is not None}
        for row in rows
    ]


def _is_silent(t: Tables) -> bool:
    from shmcast.pipeline.delivery_checks import without_transmissions

    return bool(without_transmissions(t).limit(1).collect())


def words(row: dict[str, Any]) -> str:
    """A violation as a sentence, as the checkers in memory would say it."""
    life = f" in life {row['inc']}" if row.get("inc") else ""
    p, m = f"p{row.get('proc')}{life}", f"m{row.get('s')}.{row.get('n')}"
    other, q = f"m{row.get('s2')}.{row.get('n2')}", f"p{row.get('proc2')}"
    at = f" (row {row['lseq']}, at {row.get('real_t')} ns)" if "lseq" in row else ""
    texts = {
        "own-missing": f"correct {p} never delivers its own {m}",
        "nobody": f"no correct member delivers {m}",
        "missing": f"{q} delivers {m}, correct {p} never does",
        "unsent": f"{p} delivers {m} before anyone multicasts it{at}",
        "twice": f"{p} delivers {m} twice{at}",
        "stray": f"{p} delivers {m}, which is not addressed to it{at}",
        "no-quorum": f"{m} reaches {row.get('count')} of {row.get('size')} in group "
        f"{row.get('g')}, not {', '.join(f'p{lacking}' for lacking in row.get('lacking', ()))}",
        "out-of-line": f"{p} delivers {m} out of its sender's order, or leaves one out{at}",
        "late": f"{p} delivers {m} after {row.get('took')} ns, allowed are "
        f"{row.get('bound_ns')}{at}",
        "stranger": f"{p} handles {row.get('detail')} about {m}, which is none of its business",
        "no-timestamp": f"{m} is delivered without timestamp{at}",
        "backwards": f"{p} delivers {m} after {other}, whose timestamp is not smaller{at}",
        "two-timestamps": f"{m} has timestamp {_stamp(row.get('ts'))} at {p}, "
        f"{_stamp(row.get('ts2'))} at {q}{at}",
        "shared-timestamp": f"{m} at {p} and {other} at {q} share timestamp "
        f"{_stamp(row.get('ts'))}{at}",
        "cycle": f"no one order: {_ring(row.get('cycle', ()))}",
        "two-orders": f"{p} delivers {other} before {m}, {q} the other way round",
        "effect-first": f"{p} delivers {m} {'before' if 'lseq2' in row else 'without'} {other}, "
        f"which causally precedes it{at}",
        "too-entangled": "too many messages are out of order",
    }
    return texts[row["what"]]


def _stamp(ts: Mapping[str, int] | None) -> str:
    return "(none)" if ts is None else f"{ts['ts_time']}.{ts['ts_group']}"


def _ring(cycle: Sequence[Mapping[str, Any]]) -> str:
    """Message after message, with who has it right after the one before, back to the first."""
    first, *others = cycle or [{}]
    words = [f"m{first.get('s')}.{first.get('n')}"]
    for one in [*others, first]:
        never = one.get("lseq") is None
        where = "never at " if never else ""
        at = "" if never else f", row {one['lseq']}, at {one['real_t']} ns"
        words.append(f"m{one.get('s')}.{one.get('n')} ({where}p{one.get('proc')}{at})")
    return " → ".join(words)
