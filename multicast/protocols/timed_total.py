"""Adds total order to a broadcast with Local-Time Δ-Timeliness (paper 004, Fig. 4).

Everything is delivered exactly Δ after its timestamp, in the order (timestamp, sender, number).
Needs clocks that never go back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush

from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Event,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    Record,
    SetTimer,
    Timer,
)

NOTE = "note"
RELEASE = "release"
GRANULARITY = 1  # tick: by so much may a clock that is a little fast step over a deadline


@dataclass(frozen=True, slots=True)
class Stamped:
    payload: object
    ts: LocalTime


class TimedTotal:
    """DEVIATION: with `halts`, a process that gets a message too late, or gets to its release too
    late, delivers nothing more. The lateness proves that it is outside the model; going on would
    leave a gap, and Uniform FIFO Order, which Theorem 3 says is preserved, would be lost, or break
    Uniform Local-Time Timeliness."""

    def __init__(self, below: str, delta: int, *, halts: bool = True) -> None:
        self.below = below
        self.delta = delta
        self.halts = halts
        self.halted = False
        self.scheduled: list[tuple[LocalTime, MessageId, Message]] = []

    def broadcast(self, m: Message, now: LocalTime) -> list[Effect]:
        return [Ask(self.below, Multicast(replace(m, payload=Stamped(m.payload, now))))]

    def on_deliver(self, m: Message, ts: LocalTime, now: LocalTime) -> list[Effect]:
        if self.halted:
            return []
        if now > ts + self.delta:
            return self.too_late(m)
        heappush(self.scheduled, (ts + self.delta, m.id, m))
        return [SetTimer(RELEASE, self.scheduled[0][0])]

    def too_late(self, m: Message) -> list[Effect]:
        self.halted = self.halts
        return [Record(NOTE, m, detail="too late: this process is outside the model")]

    def on_timer(self, now: LocalTime) -> list[Effect]:
        """All that arrived by now is scheduled already, so the first keys are final. A clock that
        jumped may have passed several deadlines: they are still taken in the order of keys."""
        effects: list[Effect] = []
        while self.scheduled and self.scheduled[0][0] <= now and not self.halted:
            if self.halts and now > self.scheduled[0][0] + GRANULARITY:
                return [*effects, *self.too_late(self.scheduled[0][2])]
            effects.append(Deliver(heappop(self.scheduled)[2]))
        if self.scheduled and not self.halted:
            effects.append(SetTimer(RELEASE, self.scheduled[0][0]))
        return effects

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m, now)
            case Delivered(Message(payload=Stamped(payload, ts)) as m):
                return self.on_deliver(replace(m, payload=payload), ts, now)
            case Timer():
                return self.on_timer(now)
        return []
