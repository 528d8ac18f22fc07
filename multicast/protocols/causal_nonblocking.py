"""Adds causal order to a FIFO broadcast without blocking (paper 004, Fig. 6).

A message takes along all that its sender delivered since its last one, so nothing that it depends
on can be missing. Needs Uniform FIFO Order below.
"""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Event,
    LocalTime,
    Message,
    Multicast,
)
from shmcast.multicast.protocols.seen import Seen


class CausalNonblocking:
    def __init__(self, below: str) -> None:
        self.below = below
        self.recent: list[Message] = []  # rcntDlvrs
        self.done = Seen()

    def broadcast(self, m: Message) -> list[Effect]:
        """The list rcntDlvrs‖m travels under the name of m, its last element."""
        sequence = (*self.recent, m)
        self.recent = []
        return [Ask(self.below, Multicast(replace(m, payload=sequence)))]

    def on_deliver(self, sequence: tuple[Message, ...]) -> list[Effect]:
        effects: list[Effect] = []
        for m in sequence:
            if self.done.add(m.id):
                self.recent.append(m)
                effects.append(Deliver(m))
        return effects

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m)
            case Delivered(Message(payload=tuple(sequence))):
                return self.on_deliver(sequence)
        return []
