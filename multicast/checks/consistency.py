"""Inconsistency and contamination (paper 004 §3.11-3.12), for atomic broadcasts.

A process is inconsistent from the first point where what it delivered is no prefix of the correct
sequence. A correct process is contaminated when it delivers a message that an inconsistent one
broadcast after that point.

While a run is open the correct sequence may still grow. Who has delivered all of it, and more, is
only ahead: nobody can say yet whether the rest will follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import MessageKey, Participant, TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated

First = dict[Participant, TraceEvent]  # of each process, its first delivery of that kind


@dataclass(slots=True)
class Consistency:
    inconsistent: First = field(default_factory=dict)
    contaminated: First = field(default_factory=dict)
    ahead: First = field(default_factory=dict)  # of an open run: inconsistent, or only early
    exposed: First = field(default_factory=dict)  # contaminated if those who are ahead are wrong


def consistent(history: History) -> Verdict:
    """Nobody is inconsistent."""
    found = consistency(history)
    return _verdict(found.inconsistent, found.ahead, "out of the correct sequence")


def uncontaminated(history: History) -> Verdict:
    """No correct process is contaminated."""
    found = consistency(history)
    return _verdict(found.contaminated, found.exposed, "from an inconsistent process")


def consistency(history: History) -> Consistency:
    found = Consistency()
    reference = _correct_sequence(history)
    for participant, events in history.deliveries.items():
        index = _agreed(events, reference)
        if index < len(events):
            is_early = index == len(reference) and not history.closed
            (found.ahead if is_early else found.inconsistent)[participant] = events[index]
    found.contaminated = _reached_by(history, found.inconsistent)
    found.exposed = _reached_by(history, found.ahead)
    return found


def _correct_sequence(history: History) -> list[MessageKey]:
    """The longest sequence of a correct process; on a correct atomic broadcast all others are
    prefixes of it."""
    correct = [history.deliveries[p] for p in history.participants(uniform=False)]
    return [key(event) for event in max(correct, key=len, default=[])]


def _agreed(events: list[TraceEvent], reference: list[MessageKey]) -> int:
    """How many of the first deliveries are those of the correct sequence."""
    for index, (event, message) in enumerate(zip(events, reference, strict=False)):
        if key(event) != message:
            return index
    return min(len(events), len(reference))


def _reached_by(history: History, suspects: First) -> First:
    """Where correct processes deliver first what a suspect broadcast after it went astray."""
    tainted = {
        message
        for message, sent in history.multicasts.items()
        if (start := suspects.get(sent.participant)) is not None and sent.idx > start.idx
    }
    deliveries = {p: history.deliveries[p] for p in history.participants(uniform=False)}
    firsts = {p: next((e for e in d if key(e) in tainted), None) for p, d in deliveries.items()}
    return {p: event for p, event in firsts.items() if event is not None}


def _verdict(certain: First, possible: First, how: str) -> Verdict:
    for participant, event in certain.items():
        return violated(f"{who(participant)} delivers {name(key(event))} {how}", event)
    for participant, event in possible.items():
        return undetermined(
            f"the run is open: {who(participant)} may have delivered {name(key(event))} {how}"
        )
    return PASSED
