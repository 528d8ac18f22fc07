"""The answer of a checker: passed, violated with a counterexample, or undetermined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from shmcast.multicast.checks.trace import TraceEvent


class Outcome(Enum):
    PASSED = "passed"
    VIOLATED = "violated"
    UNDETERMINED = "undetermined"  # a liveness property of a run that may still go on


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    reason: str = ""
    witness: tuple[TraceEvent, ...] = ()  # the events that show the violation

    @property
    def violated(self) -> bool:
        return self.outcome is Outcome.VIOLATED


PASSED = Verdict(Outcome.PASSED)


def violated(reason: str, *witness: TraceEvent | None) -> Verdict:
    return Verdict(Outcome.VIOLATED, reason, tuple(e for e in witness if e is not None))


def undetermined(reason: str) -> Verdict:
    return Verdict(Outcome.UNDETERMINED, reason)
