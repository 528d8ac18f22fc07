"""Each way to be wrong is caught by what it breaks, and shown by rows that are in the record.

All runs are one table: asking for a property costs seconds, a run nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

from shmcast.multicast.checks.trace import DELIVER, Trace, TraceEvent
from shmcast.multicast.checks.written import Written
from shmcast.multicast.traces.flaws import FLAWS
from shmcast.multicast.traces.generate import BOUND_NS, PROMISES, generate
from shmcast.multicast.traces.reader import read_record
from shmcast.pipeline.properties import PROPERTIES
from shmcast.pipeline.verify import words
from support.spark_runs import as_tables, for_small_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # a dozen jobs of Spark, on a busy machine

BY_HAND = "by hand"
ASKED = (*PROMISES, "genuineness", "validity")
# Kinds that say where and when something was delivered, and how each of them is told.
KINDS = {
    "own-missing": "never delivers its own",
    "nobody": "no correct member delivers",
    "missing": "correct p",
    "unsent": "before anyone multicasts it",
    "twice": "twice (row",
    "stray": "not addressed to it (row",
    "no-quorum": "in group",
    "out-of-line": "out of its sender's order",
    "late": "allowed are",
    "stranger": "none of its business",
    "no-timestamp": "without timestamp",
    "backwards": "whose timestamp is not smaller",
    "two-timestamps": "has timestamp",
    "shared-timestamp": "share timestamp",
    "cycle": "no one order",
    "two-orders": "the other way round",
    "effect-first": "which causally precedes it",
}


@dataclass(frozen=True)
class Found:
    runs: dict[str, Trace]
    rows: dict[tuple[str, str], list[dict[str, Any]]]  # by run and property

    def caught(self, run: str) -> set[str]:
        return {name for one, name in self.rows if one == run}

    def of_kind(self, kind: str) -> list[tuple[Trace, dict[str, Any]]]:
        return [
            (self.runs[run], row)
            for (run, _), rows in self.rows.items()
            for row in rows
            if row["what"] == kind
        ]


def by_hand() -> Trace:
    """What no flaw shows: a sender that misses its own message, and no timestamp."""
    run = Written(groups=((0, 1),))
    return run.multicast(0, "a").deliver(1, "a").trace()


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Found:
    from pyspark.sql import functions as F

    place = tmp_path_factory.mktemp("flawed")
    runs = {BY_HAND: by_hand()}
    for name in FLAWS:
        generate(place / name, messages=150, break_=name, transmissions=True)
        runs[name] = read_record(place / name).trace
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with for_small_tables(spark):
        t = as_tables(spark, runs, lambda run: BOUND_NS)
        for name in ASKED:
            shown = PROPERTIES[name](t).select("run", F.to_json(F.struct("*")).alias("row"))
            for run, row in shown.collect():
                rows.setdefault((run, name), []).append(json.loads(row))
        t.release()
    return Found(runs, rows)


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_caught_by_what_it_breaks_and_nothing_else(found: Found, flaw: str) -> None:
    assert found.caught(flaw) & {*PROMISES, "genuineness"} == set(FLAWS[flaw].breaks)


def test_every_flaw_breaks_something_that_is_asked_here() -> None:
    assert all(set(flaw.breaks) <= set(ASKED) for flaw in FLAWS.values())


def event(trace: Trace, row: dict[str, Any], number: str = "") -> TraceEvent:
    """The row of the record that a counterexample names."""
    key = (row["proc" + number], row.get("inc" + number, 0), row["lseq" + number])
    (named,) = (one for one in trace.events if (one.proc, one.incarnation, one.lseq) == key)
    assert named.real_t == row["real_t" + number]
    return named


def delivers(trace: Trace, row: dict[str, Any], number: str = "", of: str = "") -> TraceEvent:
    """The delivery that it names, which is one of the message that it names."""
    named = event(trace, row, number)
    assert (named.kind, named.msg) == (DELIVER, (row["s" + of], row["n" + of]))
    return named


@pytest.mark.parametrize("kind", KINDS)
def test_a_counterexample_names_rows_that_are_in_the_record(found: Found, kind: str) -> None:
    shown = found.of_kind(kind)
    assert shown
    for trace, row in shown:
        assert KINDS[kind] in words(row)
        assert "None" not in words(row)
        if kind == "stranger":
            assert (row["s"], row["n"]) in event(trace, row).about
        elif "lseq" in row:
            delivers(trace, row)


def test_a_cycle_says_who_has_each_message_after_the_one_before(found: Found) -> None:
    for trace, row in found.of_kind("cycle"):
        ring = row["cycle"]
        assert len(ring) > 1
        for before, step in zip([ring[-1], *ring], ring, strict=False):
            if "lseq" not in step:  # its process never delivers it: what it has counts as before
                seen = {e.msg for e in trace.events if e.proc == step["proc"] and e.kind == DELIVER}
                assert (step["s"], step["n"]) not in seen
                continue
            mine = [
                e.msg
                for e in sorted(trace.events, key=lambda e: e.lseq)
                if (e.kind, e.proc, e.incarnation) == (DELIVER, step["proc"], step["inc"])
                and e.lseq <= delivers(trace, step).lseq
            ]
            assert mine[-2:] == [(before["s"], before["n"]), (step["s"], step["n"])]


def test_two_timestamps_are_shown_where_they_were_seen(found: Found) -> None:
    for trace, row in found.of_kind("two-timestamps"):
        one, other = delivers(trace, row), delivers(trace, row, "2")
        assert (one.ts, other.ts) == (stamp(row["ts"]), stamp(row["ts2"]))
        assert one.ts != other.ts
    for trace, row in found.of_kind("shared-timestamp"):
        one, other = delivers(trace, row), delivers(trace, row, "2", of="2")
        assert one.ts == other.ts == stamp(row["ts"])
        assert one.msg != other.msg
    for trace, row in found.of_kind("backwards"):
        assert delivers(trace, row).ts == stamp(row["ts"])
        assert stamp(row["ts2"]) >= stamp(row["ts"])


def stamp(ts: dict[str, int]) -> tuple[int, int]:
    return (ts["ts_time"], ts["ts_group"])


def test_an_effect_is_shown_with_the_place_of_its_cause(found: Found) -> None:
    for trace, row in found.of_kind("effect-first"):
        if "lseq2" in row:
            later = {**row, "proc2": row["proc"], "inc2": row["inc"]}
            assert delivers(trace, later, "2", of="2").lseq > row["lseq"]


def test_a_group_without_a_quorum_is_shown_by_its_members(found: Found) -> None:
    for trace, row in found.of_kind("no-quorum"):
        assert sorted([*row["members"], *row["lacking"]]) == sorted(trace.groups[row["g"]])
        assert len(row["members"]) == row["count"]
        for process in row["members"]:
            mine = {e.msg for e in trace.events if (e.kind, e.proc) == (DELIVER, process)}
            assert (row["s"], row["n"]) in mine
