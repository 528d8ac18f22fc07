"""Adds causal order to a FIFO broadcast by vectors (paper 004, Fig. 7). Blocking: a message waits
until all that its sender had delivered is delivered here. Needs Uniform FIFO Order below.

A vector counts deliveries, not own broadcasts, so two messages of one sender may carry the same:
their order rests on the order of the waiting list.
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
    ProcessId,
)
from shmcast.multicast.protocols.vectors import Counted, Vector, at_least, places


class CausalBlocking:
    def __init__(self, below: str, processes: tuple[ProcessId, ...]) -> None:
        self.below = below
        self.place = places(processes)
        self.delivered = [0] * len(processes)  # numOfAllDlvrs
        self.waiting: list[tuple[Message, Vector]] = []  # msgList, in order of F-delivery

    def broadcast(self, m: Message) -> list[Effect]:
        counted = Counted(m.payload, tuple(self.delivered))
        return [Ask(self.below, Multicast(replace(m, payload=counted)))]

    def on_deliver(self, m: Message, counts: Vector) -> list[Effect]:
        self.waiting.append((m, counts))
        effects: list[Effect] = []
        while (index := self.first_ready()) is not None:
            ready, _ = self.waiting.pop(index)
            self.delivered[self.place[ready.id.sender]] += 1
            effects.append(Deliver(ready))
        return effects

    def first_ready(self) -> int | None:
        """Searched from the front after each delivery: an older message may be free now.

        DEVIATION: Fig. 7 tests the new message before it enters the list. None of the others is
        ready at that point, so the search finds the same one.
        """
        for index, (_, counts) in enumerate(self.waiting):
            if at_least(self.delivered, counts):
                return index
        return None

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m)
            case Delivered(Message(payload=Counted(payload, counts)) as m):
                return self.on_deliver(replace(m, payload=payload), counts)
        return []
