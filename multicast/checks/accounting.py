"""Delays in δ and messages per multicast: the figures that papers state as equalities."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.trace import SEND, MessageKey, Trace


@dataclass(frozen=True, slots=True)
class Delay:
    """Of one message at one destination group, in ticks since its multicast."""

    message: MessageKey
    group: int
    first: int  # paper 000's delivery latency: the earliest deliver(m) in the group
    last: int  # at the slowest member so far: followers

    def in_units(self, delta: int) -> tuple[Fraction, Fraction]:
        return Fraction(self.first, delta), Fraction(self.last, delta)


def delays(history: History) -> list[Delay]:
    """One entry per message and destination group that delivered it, in order of multicast."""
    found: list[Delay] = []
    for message, sent in history.multicasts.items():
        at = {e.proc: e.real_t for e in reversed(history.deliverers.get(message, ()))}
        for group in sent.dest:
            took = [at[p] - sent.real_t for p in history.trace.groups[group] if p in at]
            if took:
                found.append(Delay(message, group, min(took), max(took)))
    return found


def transmissions(trace: Trace, *, to_self: bool = False) -> Counter[str]:
    """How many messages of each kind were sent, one per receiver."""
    return Counter(
        event.detail
        for event in trace.events
        if event.kind == SEND and (to_self or event.peer != event.proc)
    )


def transmissions_about(trace: Trace, *, to_self: bool = False) -> Counter[MessageKey]:
    """How many messages were spent on each multicast."""
    count: Counter[MessageKey] = Counter()
    for event in trace.events:
        if event.kind == SEND and (to_self or event.peer != event.proc):
            count.update(event.about)
    return count
