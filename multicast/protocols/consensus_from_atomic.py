"""Consensus from atomic broadcast (paper 004, Fig. 13): the first value delivered is the decision.

Works under all benign faults. It is no uniform consensus, even over a uniform atomic broadcast:
a faulty process may skip the first message.
"""

from __future__ import annotations

from shmcast.multicast.protocols.consensus import Decided, Propose, row_layer
from shmcast.multicast.protocols.core import (
    Ask,
    Delivered,
    Effect,
    Event,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Record,
    Reply,
    Request,
)

EVERYONE = (0,)


class ConsensusFromAtomic:
    def __init__(self, process: ProcessId, below: str) -> None:
        self.process = process
        self.below = below
        self.proposed = False
        self.decided = False

    def propose(self, value: object) -> list[Effect]:
        if self.proposed:
            return []
        self.proposed = True
        m = Message(MessageId(self.process, 1), EVERYONE, value)
        return [
            Record("propose", layer=row_layer(""), detail=repr(value)),
            Ask(self.below, Multicast(m)),
        ]

    def on_deliver(self, m: Message) -> list[Effect]:
        if self.decided:
            return []
        self.decided = True
        return [
            Record("decide", layer=row_layer(""), detail=repr(m.payload)),
            Reply(Decided(m.payload)),
        ]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Request(Propose(value)):
                return self.propose(value)
            case Delivered(m):
                return self.on_deliver(m)
        return []
