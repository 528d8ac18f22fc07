"""The checkers in memory and those in Spark agree, run by run and property by property.

All runs are one table, so a property of thousands of them is one job; what costs is the job. So by
default a few properties are asked, of several kinds. DIFFERENTIAL_RUNS=5000 and
DIFFERENTIAL_EVERYTHING=1 ask for more runs and every property, and DIFFERENTIAL_FIRST for other
ones (`make soak`).
"""

from __future__ import annotations

import functools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

from shmcast.multicast.checks.settle import Lacks, settled
from shmcast.multicast.checks.table import PROPERTIES as IN_MEMORY
from shmcast.multicast.checks.table import TIMED, check
from shmcast.multicast.checks.trace import MULTICAST, Gaps, Trace
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated
from shmcast.multicast.checks.written import Written
from shmcast.multicast.sim import simulate
from shmcast.multicast.traces.flaws import FLAWS
from shmcast.multicast.traces.generate import BOUND_NS, generate
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.schema import WITNESS_LSEQ
from shmcast.pipeline.certificate import NEEDS, Certificate
from shmcast.pipeline.delivery_checks import without_transmissions
from shmcast.pipeline.properties import PROPERTIES
from support.random_runs import CLIENT, random_hole, random_kills, random_trace
from support.spark_runs import as_tables, for_small_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shmcast.pipeline.tables import Tables

pytestmark = pytest.mark.timeout(900)  # a dozen jobs of Spark, on a busy machine

COUNT = int(os.environ.get("DIFFERENTIAL_RUNS", "60"))
FIRST = int(os.environ.get("DIFFERENTIAL_FIRST", "0"))
EVERYTHING = "DIFFERENTIAL_EVERYTHING" in os.environ
QUICK = ("uniform-integrity", "uniform-agreement", "timestamp-order", "uniform-fifo",
         "uniform-real-time")  # fmt: skip
ASKED = tuple(PROPERTIES) if EVERYTHING else QUICK
BOUND = 250
LIVENESS = ("validity", "multicast-validity", "agreement", "uniform-agreement", "termination")
SIMULATED = ("skeen", "wbcast", "ft-skeen", "fastcast")
FLAWED = "flaw "


def traces(place: Path) -> dict[str, Trace]:
    found = {f"random {seed}": random_trace(seed) for seed in range(FIRST, FIRST + COUNT)}
    for seed in range(FIRST, FIRST + COUNT // 2):
        found[f"killed {seed}"] = random_kills(seed)[1]
        found[f"hole {seed}"] = random_hole(seed)[1]
    for protocol in SIMULATED:
        for seed in range(max(1, COUNT // 500)):
            replicas = 1 if protocol == "skeen" else 3
            run = simulate(protocol, groups=2, replicas=replicas, messages=6, seed=seed)
            rows = in_causal_order(run.trace.events)
            found[f"{protocol} {seed}"] = Trace(
                run.trace.groups, run.trace.clients, rows, run.trace.closed
            )
    found |= by_hand()
    for name in FLAWS:
        generate(place / name, messages=150, break_=name, transmissions=True)
        found[FLAWED + name] = read_record(place / name).trace
    return found


def by_hand() -> dict[str, Trace]:
    """What random runs do not show: lemmas of the certificate that alone stand in the way."""
    retried = Written(groups=((0,), (1,))).multicast(0, "m", (0,))
    retried.event(0, MULTICAST, "m")
    rows = retried.deliver(0, "m", ts=(1, 0)).deliver(1, "m", ts=(1, 0)).trace()
    rows.events[1] = rows.events[1]._replace(dest=(0, 1))  # the retry names another group
    skipped = Written(groups=((0, 1),), clients=(7,)).crash(1).restart(1)
    for seq, message in enumerate("abc"):
        skipped.multicast(7, message).deliver(0, message, ts=(seq, 0))
        if message != "b":
            skipped.deliver(1, message, ts=(seq, 0))
    resumed = Written(groups=((0, 1),)).multicast(0, "a").deliver(1, "a", ts=(1, 0)).crash(0)
    resumed.restart(0).multicast(0, "b").deliver(0, "b", ts=(2, 0)).deliver(1, "b", ts=(2, 0))
    killed = resumed.trace()
    killed.events[2] = killed.events[2]._replace(lseq=WITNESS_LSEQ)
    killed = replace(killed, gaps=Gaps(cut=frozenset({(0, 0)})))
    circle = Written(groups=((0, 1),)).multicast(0, "a").multicast(1, "b")
    circle = circle.deliver(0, "b", ts=(2, 0)).deliver(1, "a", ts=(1, 0)).trace()
    circle.events[:] = in_causal_order(  # each delivers, then multicasts
        row._replace(real_t=9 - row.real_t, lseq=9 - row.lseq) for row in circle.events
    )
    return {
        "each delivers before it multicasts": circle,
        "a retry to others": rows,
        "a later life that skips": skipped.trace(),
        "killed, then multicast again": killed,
    }


def bound(run: str) -> int:
    return BOUND_NS if run.startswith(FLAWED) else BOUND


@dataclass(frozen=True)
class Answers:
    """What Spark finds: the runs that violate each property, and what it needs to settle."""

    runs: dict[str, Trace]
    in_memory: dict[str, dict[str, Verdict]]
    violated: dict[str, set[str]]
    certificate: Certificate
    silent: set[str]  # no transmissions
    lacks: dict[str, Lacks]

    def of(self, run: str, name: str) -> str:
        trace = self.runs[run]
        raw = violated("") if run in self.violated[name] else PASSED
        if name == "genuineness" and run in self.silent and not raw.violated:
            raw = undetermined("")
        if name in LIVENESS and not trace.closed:
            raw = undetermined("")
        return settled(name, raw, self.lacks[run]).outcome.value

    def in_scope(self, name: str) -> Iterator[str]:
        """Runs of which this property is decided at all."""
        return (run for run, trace in self.runs.items() if trace.closed or name not in LIVENESS)


def violations(t: Tables) -> dict[str, set[str]]:
    """All properties as one job. Two names of one check are asked once."""
    from pyspark.sql import functions as F

    names = defaultdict(list)
    for name in ASKED:
        one = PROPERTIES[name]
        key = (
            (one.func, *sorted(one.keywords.items())) if isinstance(one, functools.partial) else one
        )
        names[key].append(name)
    frames = [
        PROPERTIES[same[0]](t).select("run", F.lit(same[0]).alias("name"))
        for same in names.values()
    ]
    broken = defaultdict(set)
    for row in functools.reduce(lambda a, b: a.union(b), frames).distinct().collect():
        broken[row["name"]].add(row["run"])
    return {name: broken[same[0]] for same in names.values() for name in same}


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    runs = traces(tmp_path_factory.mktemp("flawed"))
    in_memory = {run: check(trace, ASKED, bound=bound(run)) for run, trace in runs.items()}
    with for_small_tables(spark):
        t = as_tables(spark, runs, bound)
        certificate = Certificate(t)
        found = violations(t)
        silent = {row.run for row in without_transmissions(t).collect()}
        unsent = {row.run: (row.s, row.n) for row in t.unsent().collect()}
        resumed = {row.run: row.mproc for row in t.resumed().collect()}
        t.release()
    lacks = {
        run: Lacks(trace.gaps, trace.processes() - {CLIENT}, unsent.get(run), resumed.get(run))
        for run, trace in runs.items()
    }
    return Answers(runs, in_memory, found, certificate, silent, lacks)


def test_both_engines_agree_on_every_property(answers: Answers) -> None:
    differences = []
    for run, verdicts in answers.in_memory.items():
        for name, verdict in verdicts.items():
            got = answers.of(run, name)
            if got != verdict.outcome.value:
                told = f"memory {verdict.outcome.value} ({verdict.reason}), Spark {got}"
                differences.append(f"{name}: {run}: {told}")
    assert differences == [], f"{len(differences)} differences"


def test_the_runs_break_every_property_and_keep_it(answers: Answers) -> None:
    runs, found = answers.runs, answers.violated
    never = [name for name, violated in found.items() if not violated]
    always = [name for name, violated in found.items() if len(violated) == len(runs)]
    assert (never, always) == ([], [])
    assert Counter(trace.closed for trace in runs.values())[False] > 0
    assert any(lacks.unsent for lacks in answers.lacks.values())
    assert any(lacks.resumed is not None for lacks in answers.lacks.values())


def test_the_certificate_proves_nothing_that_is_wrong(answers: Answers) -> None:
    wrong = [
        f"{name}: {run}"
        for name, runs in answers.violated.items()
        for run in answers.in_scope(name)
        if run in runs and answers.certificate.proves(run, name)
    ]
    assert wrong == []


def test_the_certificate_proves_most_of_what_is_right(answers: Answers) -> None:
    few = {}
    for name, runs in answers.violated.items():
        right = [run for run in answers.in_scope(name) if run not in runs]
        proved = sum(answers.certificate.proves(run, name) for run in right)
        if name.removeprefix("uniform-") in NEEDS and proved < len(right) / 2:
            few[name] = (proved, len(right))
    assert few == {}


@pytest.mark.parametrize(
    "lemma", sorted({one for name in ASKED for one in NEEDS.get(name.removeprefix("uniform-"), ())})
)
def test_without_a_lemma_the_certificate_would_prove_something_wrong(
    answers: Answers, lemma: str
) -> None:
    failed = answers.certificate.failed
    assert any(
        not any(run in failed[other] for other in NEEDS[base] if other != lemma)
        for name, runs in answers.violated.items()
        if lemma in NEEDS.get(base := name.removeprefix("uniform-"), ())
        for run in runs.intersection(answers.in_scope(name))
    )


def test_spark_decides_all_properties_of_delivery_and_order() -> None:
    elsewhere = ("consensus", "trb", "optimistic")
    dynamic = {"contiguous-slices", "incarnation-order", "sender-order", "join-liveness",
               "leave-liveness", "member-delivery", "rejoin-contiguity",
               "rejoin-liveness"}  # fmt: skip
    expected = {
        name
        for name in {**IN_MEMORY, **TIMED}
        if name.removeprefix("uniform-").split("-")[0] not in elsewhere and name not in dynamic
    }
    assert set(PROPERTIES) == expected
