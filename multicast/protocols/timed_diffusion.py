"""Reliable broadcast with Local-Time Δ-Timeliness (paper 004, Fig. 12).

A copy that took k links is worth relaying only if it is not later than k links can make it. So
faulty processes cannot hold a message back and release it when it is too late for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Send,
    Wire,
)
from shmcast.multicast.protocols.seen import Seen
from shmcast.multicast.protocols.synchrony import Synchrony


@dataclass(frozen=True, slots=True)
class TimedCopy(Wire):
    m: Message
    ts: LocalTime  # of the sender, when it broadcast
    k: int  # links taken so far

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


class TimedDiffusion:
    def __init__(
        self, process: ProcessId, neighbours: tuple[ProcessId, ...], synchrony: Synchrony
    ) -> None:
        self.process = process
        self.neighbours = neighbours
        self.synchrony = synchrony
        self.hop = synchrony.hop
        self.seen = Seen()

    def broadcast(self, m: Message, now: LocalTime) -> list[Effect]:
        return [Send(TimedCopy(m, now, 0), (self.process,))]

    def on_receive(self, copy: TimedCopy, now: LocalTime) -> list[Effect]:
        if copy.m.id in self.seen or not self.in_time(copy, now):
            # A late copy leaves no trace: another one that took more links may be in time.
            return []
        self.seen.add(copy.m.id)
        return [Send(TimedCopy(copy.m, copy.ts, copy.k + 1), self.neighbours), Deliver(copy.m)]

    def in_time(self, copy: TimedCopy, now: LocalTime) -> bool:
        return now - copy.ts <= copy.k * self.hop

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m, now)
            case Receive(TimedCopy() as copy):
                return self.on_receive(copy, now)
        return []
