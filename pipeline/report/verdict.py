"""The verdict that a report shows: what `shmcast verify` found, now or earlier (its JSON)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shmcast.errors import Corrupt
from shmcast.multicast.checks.verdict import Outcome, Verdict

PASSED: str = Outcome.PASSED.value
VIOLATED: str = Outcome.VIOLATED.value
UNDETERMINED: str = Outcome.UNDETERMINED.value


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    rows: tuple[Row, ...]
    by: str  # who judged

    @property
    def word(self) -> str:
        outcomes = {row.outcome for row in self.rows}
        if VIOLATED in outcomes:
            return VIOLATED
        return PASSED if outcomes == {PASSED} else UNDETERMINED

    def to_json(self) -> dict[str, dict[str, str]]:
        return {row.name: {"verdict": row.outcome, "reason": row.reason} for row in self.rows}


def judged(verdicts: Mapping[str, Verdict], engine: str) -> Judgement:
    rows = tuple(Row(name, v.outcome.value, v.reason) for name, v in verdicts.items())
    return Judgement(rows, f"checked in {engine}")


def judged_before(found: Any) -> Judgement:
    """The JSON of `shmcast verify`, which anybody may have written."""
    try:
        rows = tuple(
            Row(str(name), str(one["verdict"]), str(one.get("reason", "")))
            for name, one in found["properties"].items()
        )
        engine = str(found["engine"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Corrupt(
            f"not the verdict of a run ({type(error).__name__}: {error}): "
            "make it with `shmcast verify RUN --json`"
        ) from None
    if any(row.outcome not in (PASSED, VIOLATED, UNDETERMINED) for row in rows):
        raise Corrupt("a verdict is passed, violated or undetermined: make it again")
    return Judgement(rows, f"checked in {engine}")
