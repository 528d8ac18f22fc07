"""Consensus from terminating reliable broadcast (paper 004, Fig. 15): everyone broadcasts its value
and decides the first one, by sender, that is not the news of a failure."""

from __future__ import annotations

from shmcast.multicast.protocols.consensus import Decided, Propose, row_layer
from shmcast.multicast.protocols.core import (
    Ask,
    Effect,
    Event,
    LocalTime,
    ProcessId,
    Record,
    Replied,
    Reply,
    Request,
)
from shmcast.multicast.protocols.trb_from_consensus import Broadcast, FromSender


class ConsensusFromTrb:
    def __init__(self, members: tuple[ProcessId, ...], trb: str) -> None:
        self.members = members
        self.trb = trb
        self.values: dict[ProcessId, object] = {}  # V

    def propose(self, value: object) -> list[Effect]:
        return [
            Record("propose", layer=row_layer(""), detail=repr(value)),
            Ask(self.trb, Request(Broadcast(value))),
        ]

    def on_deliver(self, s: ProcessId, value: object) -> list[Effect]:
        self.values[s] = value
        if len(self.values) < len(self.members):
            return []
        decision = next((v for p in self.members if (v := self.values[p]) is not None), None)
        return [
            Record("decide", layer=row_layer(""), detail=repr(decision)),
            Reply(Decided(decision)),
        ]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Request(Propose(value)):
                return self.propose(value)
            case Replied(FromSender(s, value)):
                return self.on_deliver(s, value)
        return []
