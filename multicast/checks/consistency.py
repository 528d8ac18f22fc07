"""Inconsistency and contamination (paper 004 §3.11-3.12), for atomic broadcasts.

A process is inconsistent from the first point where what it delivered is no prefix of the correct
sequence. A correct process is contaminated when it delivers a message that an inconsistent one
broadcast after that point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.checks.history import History, key
from shmcast.multicast.checks.trace import MessageKey, Participant, TraceEvent


@dataclass(slots=True)
class Consistency:
    """The first inconsistent delivery and the first contamination of each process."""

    inconsistent: dict[Participant, TraceEvent] = field(default_factory=dict)
    contaminated: dict[Participant, TraceEvent] = field(default_factory=dict)


def consistency(history: History) -> Consistency:
    found = Consistency()
    reference = _correct_sequence(history)
    for participant, events in history.deliveries.items():
        for index, event in enumerate(events):
            if index >= len(reference) or reference[index] != key(event):
                found.inconsistent[participant] = event
                break
    tainted = {
        message
        for message, sent in history.multicasts.items()
        if (start := found.inconsistent.get(sent.participant)) is not None and sent.idx > start.idx
    }
    for participant in history.participants(uniform=False):
        for event in history.deliveries[participant]:
            if key(event) in tainted:
                found.contaminated[participant] = event
                break
    return found


def _correct_sequence(history: History) -> list[MessageKey]:
    """The longest sequence of a correct process; on a correct atomic broadcast all others are
    prefixes of it."""
    correct = [history.deliveries[p] for p in history.participants(uniform=False)]
    return [key(event) for event in max(correct, key=len, default=[])]
