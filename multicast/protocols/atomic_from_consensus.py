"""Atomic broadcast from reliable broadcast and consensus (paper 004, Fig. 14). Crash faults only.

Batch by batch: consensus k decides which messages come next, their names decide in which order.
"""

from __future__ import annotations

from shmcast.multicast.protocols.consensus import Decided, Propose
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
    Replied,
    Request,
)
from shmcast.multicast.protocols.seen import Seen

Batch = tuple[Message, ...]  # by name, so that equal sets are equal values


class AtomicFromConsensus:
    """Proposals carry whole messages: a process may learn of one by the decision first."""

    def __init__(self, below: str, consensus: str) -> None:
        self.below = below
        self.consensus = consensus
        self.pending: dict[MessageId, Message] = {}  # R_delivered − A_delivered
        self.delivered = Seen()
        self.k = 0  # instances that are done
        self.busy = False  # instance k + 1 is proposed
        self.early: dict[int, Batch] = {}  # decisions whose turn has not come

    def on_deliver(self, m: Message) -> list[Effect]:
        if m.id not in self.delivered:
            self.pending[m.id] = m
        return self.propose()

    def propose(self) -> list[Effect]:
        if self.busy or not self.pending:
            return []
        self.busy = True
        batch = tuple(m for _, m in sorted(self.pending.items()))
        return [Ask(self.consensus, Request(Propose(batch, self.k + 1)))]

    def on_decide(self, k: int, batch: Batch) -> list[Effect]:
        """DEVIATION: a decision is taken when it is the next one, whether or not this process
        proposed; waiting for its own proposal would change nothing but the delay."""
        self.early[k] = batch
        effects: list[Effect] = []
        while (following := self.early.pop(self.k + 1, None)) is not None:
            self.k += 1
            self.busy = False
            for m in following:
                self.pending.pop(m.id, None)
                if self.delivered.add(m.id):
                    effects.append(Deliver(m))
        return [*effects, *self.propose()]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast():
                return [Ask(self.below, event)]
            case Delivered(m):
                return self.on_deliver(m)
            case Replied(Decided(tuple(batch), int(k))):
                return self.on_decide(k, batch)
        return []
