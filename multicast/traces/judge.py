"""Verdicts on a recorded run: which properties are asked for, and what the record says of them."""

from __future__ import annotations

from collections.abc import Iterable

from shmcast.multicast.checks.table import PROPERTIES, TIMED, check
from shmcast.multicast.checks.verdict import Outcome, Verdict, undetermined
from shmcast.multicast.traces.clocks import doubt
from shmcast.multicast.traces.reader import Record
from shmcast.multicast.traces.run_info import RunInfo

NO_BOUND = "the run names no time bound"
UNKNOWN = "this version knows no such property"


def wanted(info: RunInfo, names: Iterable[str]) -> tuple[str, ...]:
    """What was asked for, or all that the run promises. Raises ValueError on a name that nobody
    has defined; a promise of a later version is only undetermined."""
    asked = tuple(names)
    for name in asked:
        if not is_known(name):
            every = ", ".join(sorted({*PROPERTIES, *TIMED}))
            raise ValueError(f"no property {name!r}; there are: {every}")
    return asked or info.promises


def is_known(name: str) -> bool:
    return name in PROPERTIES or name in TIMED


def undecided(info: RunInfo, name: str) -> Verdict | None:
    """Where no engine needs to look."""
    if not is_known(name):
        return undetermined(UNKNOWN)
    if name in TIMED and info.bound_ns is None:
        return undetermined(NO_BOUND)
    return None


def check_record(record: Record, names: Iterable[str] = ()) -> dict[str, Verdict]:
    """On the named properties, or on all that the run promises."""
    info = record.info
    asked = wanted(info, names)
    early = {name: verdict for name in asked if (verdict := undecided(info, name)) is not None}
    rest = [name for name in asked if name not in early]
    found = {**early, **check(record.trace, rest, bound=info.bound_ns)}
    for name in rest:
        if name in TIMED:
            found[name] = in_doubt(found[name], doubt(record.trace, name))
    return {name: found[name] for name in asked}


def in_doubt(verdict: Verdict, why: str) -> Verdict:
    """What is left of a verdict on time bounds when the clocks are not to be trusted."""
    if not why or verdict.outcome is Outcome.UNDETERMINED:
        return verdict
    return undetermined(f"{why}; on record: {verdict.reason or 'nothing is late'}")
