"""Adds FIFO order to any broadcast (paper 004, Fig. 5). Blocking: a gap holds back what follows."""

from __future__ import annotations

from collections import defaultdict

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


class Fifo:
    def __init__(self, below: str) -> None:
        self.below = below
        self.next: dict[ProcessId, int] = defaultdict(lambda: 1)
        self.held: dict[ProcessId, dict[int, Message]] = defaultdict(dict)

    def on_deliver(self, m: Message) -> list[Effect]:
        sender = m.id.sender
        held = self.held[sender]
        held[m.id.seq] = m
        effects: list[Effect] = []
        while (following := held.pop(self.next[sender], None)) is not None:
            effects.append(Deliver(following))
            self.next[sender] += 1
        return effects

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast():
                return [Ask(self.below, event)]
            case Delivered(m):
                return self.on_deliver(m)
        return []
