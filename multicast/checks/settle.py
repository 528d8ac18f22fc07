"""What is left of a verdict where rows are missing: one definition, for memory and for Spark.

A process that is killed takes its last rows with it. They could contain anything, so

- nobody is convicted of what such a row would excuse (the checkers see to that): a message whose
  multicast may have been lost is not invented, a quorum may have delivered unseen;
- nothing passes that such a row could have broken (`settled`): a uniform property speaks of what
  the killed process delivered last, and an order of senders of what it multicast last.

Of what only correct processes did, all is on record. A hole is worse: it may hide anything of its
process, at any place, its crash too. While a life goes on, the last word is not spoken.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.checks.history import History, name
from shmcast.multicast.checks.trace import Gaps, MessageKey
from shmcast.multicast.checks.verdict import Outcome, Verdict, undetermined

_UNIFORM = "uniform-"
_OF_CORRECT = {"validity", "multicast-validity"}  # of correct senders and correct receivers
_OF_ALL = {"ordering", "timestamp-order", "termination"}  # uniform by definition
_OF_ORDER = {"total", "pairwise-total", "global-total", "timestamp-order"}  # of deliveries alone
_OF_LINES = {"fifo", "global-fifo", "local-fifo", "causal", "global-causal", "local-causal"}
_OF_MULTICASTS = {"agreement", "integrity", "local-order", "local-total", "real-time",
                  "local-time", "ordering", "termination"} | _OF_LINES  # fmt: skip
_DECIDED = _OF_CORRECT | _OF_ALL | _OF_ORDER | _OF_MULTICASTS
# Rows that are there suffice to convict. Not so pairwise order: it goes by the first delivery of a
# message, which may be missing where a second one is on record.
_BY_PRESENCE = {"timestamp-order", "uniform-global-total", "uniform-integrity",
                "uniform-real-time", "uniform-local-time"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lacks:
    """What a record lacks, and what of it matters."""

    gaps: Gaps
    members: frozenset[int]  # of all groups: only they deliver
    unsent: MessageKey | None = None  # delivered; its multicast may be among the missing rows
    resumed: int | None = None  # multicast again after a life whose last rows are missing


def lacks_of(history: History) -> Lacks:
    members = history.members(tuple(range(len(history.trace.groups))))
    return Lacks(history.gaps, members, history.unsent, history.resumed)


def settled(name: str, verdict: Verdict, lacks: Lacks) -> Verdict:
    if not lacks.gaps or verdict.outcome is Outcome.UNDETERMINED:
        return verdict
    if verdict.violated:
        doubt = "" if _stands(name, lacks.gaps) else _words(lacks.gaps)
        return undetermined(f"on record: {verdict.reason}; but {doubt}") if doubt else verdict
    doubt = _doubt(name, lacks)
    return undetermined(f"nothing wrong on record, but {doubt}") if doubt else verdict


def _stands(name: str, gaps: Gaps) -> bool:
    """Whether no missing row could excuse what was found."""
    if gaps.holes:
        return name in _BY_PRESENCE
    return name.removeprefix(_UNIFORM) in _DECIDED or name.startswith(("genuine", "optimistic"))


def _doubt(property_: str, lacks: Lacks) -> str:
    """Why what is missing might have broken this property; empty if it could not."""
    gaps, base = lacks.gaps, property_.removeprefix(_UNIFORM)
    if gaps.holes or gaps.open:
        return _words(gaps)
    if base in _OF_CORRECT:
        return ""
    killed = sorted(gaps.cut)
    if base in _DECIDED:
        is_uniform = property_ != base or base in _OF_ALL
        killed = [life for life in killed if is_uniform and life[0] in lacks.members]
    if killed:
        return f"the last rows of p{killed[0][0]} before it was killed may be missing"
    if base in _OF_MULTICASTS and lacks.unsent is not None:
        return f"the multicast of {name(lacks.unsent)} may be lost: its sender was killed"
    if base in _OF_LINES and lacks.resumed is not None:
        return f"p{lacks.resumed} was killed, and may have lost rows before it multicast again"
    return ""


def _words(gaps: Gaps) -> str:
    return "; ".join(gaps.words()[:3])
