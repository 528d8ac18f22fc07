"""What is missing from a record never makes a verdict wrong: only undetermined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from shmcast.multicast.checks.table import PROPERTIES, TIMED, check
from shmcast.multicast.checks.trace import CRASH, DELIVER, MULTICAST, Gaps, Trace, TraceEvent
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.traces.schema import WITNESS_LSEQ
from support.random_runs import random_hole, random_kills

BOUND = 250
RUNS = 600
ELSEWHERE = ("consensus", "trb", "optimistic", "contiguous", "incarnation", "sender", "join",
             "leave", "member", "rejoin")  # fmt: skip
NAMES = [
    name
    for name in sorted({**PROPERTIES, **TIMED})
    if not name.removeprefix("uniform-").startswith(ELSEWHERE)
]
Made = Callable[[int], tuple[Trace, Trace]]


@pytest.mark.parametrize("made", [random_kills, random_hole])
def test_a_verdict_on_a_part_holds_for_the_whole(made: Made) -> None:
    wrong = []
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(RUNS):
        whole, part = made(seed)
        truth = check(whole, NAMES, bound=BOUND)
        for name, verdict in check(part, NAMES, bound=BOUND).items():
            seen[name, verdict.outcome.value] += 1
            if verdict.outcome not in (Outcome.UNDETERMINED, truth[name].outcome):
                wrong.append(f"{name}: seed {seed}: {verdict.reason} / {truth[name].reason}")
    assert wrong == [], f"{len(wrong)} wrong verdicts"
    if made is random_hole:
        assert not any(outcome == "passed" for _, outcome in seen)
        assert seen["uniform-global-total", "violated"] > 10
    else:
        undecided = [n for n in NAMES if not (seen[n, "passed"] and seen[n, "violated"])]
        assert undecided == [], "these are never decided of a run with a kill"


def event(proc: int, lseq: int, kind: str, msg: tuple[int, int] | None = None) -> TraceEvent:
    at = lseq if lseq < WITNESS_LSEQ else 90
    return TraceEvent(at, at, at, proc, 0, lseq, kind, msg=msg, dest=(0,) if msg else (), ts=None)


def a_run(*, killed: int, invents: int) -> Trace:
    """Client 7 and client 8; p0 and p1 deliver a message of `invents` that is not on record."""
    rows = [
        event(7, 1, MULTICAST, (7, 1)),
        event(8, 1, MULTICAST, (8, 1)),
        *(event(p, 2 + n, DELIVER, m) for p in (0, 1) for n, m in enumerate([(7, 1), (8, 1)])),
        *(event(p, 4, DELIVER, (invents, 2)) for p in (0, 1)),
        event(killed, WITNESS_LSEQ, CRASH),
    ]
    placed = [row._replace(idx=n) for n, row in enumerate(sorted(rows, key=lambda r: r.real_t))]
    return Trace(((0, 1),), (7, 8), placed, True, Gaps(cut=frozenset({(killed, 0)})))


@pytest.mark.parametrize(
    ("killed", "invents", "says"), [(7, 7, "undetermined"), (7, 8, "violated"), (0, 8, "violated")]
)
def test_only_a_killed_sender_may_have_lost_its_multicast(
    killed: int, invents: int, says: str
) -> None:
    found = check(a_run(killed=killed, invents=invents), ["integrity", "uniform-integrity"])
    assert {verdict.outcome.value for verdict in found.values()} == {says}


def test_a_killed_client_leaves_what_members_agree_on_decided() -> None:
    trace = a_run(killed=7, invents=7)
    trace.events = [row for row in trace.events if row.msg != (7, 2)]
    names = ["uniform-agreement", "uniform-integrity", "uniform-global-total", "uniform-fifo"]
    assert {v.outcome.value for v in check(trace, names).values()} == {"passed"}


def test_a_killed_member_leaves_uniform_properties_undetermined() -> None:
    trace = a_run(killed=1, invents=7)
    trace.events = [row for row in trace.events if row.msg != (7, 2)]
    found = check(trace, ["agreement", "uniform-agreement", "validity", "multicast-validity"])
    assert {n: v.outcome.value for n, v in found.items()} == {
        "agreement": "passed",
        "uniform-agreement": "undetermined",
        "validity": "violated",  # clients deliver nothing
        "multicast-validity": "passed",
    }
    assert "p1" in found["uniform-agreement"].reason
