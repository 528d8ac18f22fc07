"""Reliable broadcast by message diffusion (paper 004, Fig. 11): works without any clock.

What it gives depends on the network, not on the code (§6.3-6.7): Uniform Causal Order if links
are FIFO, Uniform Agreement if no process omits to send, Real-Time Δ-Timeliness with
Δ = (f + d)δ if links have a bound.
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


@dataclass(frozen=True, slots=True)
class Copy(Wire):
    m: Message

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


class Diffusion:
    def __init__(self, process: ProcessId, neighbours: tuple[ProcessId, ...]) -> None:
        self.process = process
        self.neighbours = neighbours
        self.seen = Seen()

    def broadcast(self, m: Message) -> list[Effect]:
        return [Send(Copy(m), (self.process,))]

    def on_receive(self, m: Message) -> list[Effect]:
        """The first time: relay, then deliver. The other way round, a crash between the two would
        leave a message that was delivered and that nobody else has."""
        if not self.seen.add(m.id):
            return []
        return [Send(Copy(m), self.neighbours), Deliver(m)]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m)
            case Receive(Copy(m)):
                return self.on_receive(m)
        return []
