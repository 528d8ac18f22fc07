"""Terminating reliable broadcast from consensus (paper 004, Fig. 16): at a time known to all, each
process broadcasts one message, and every process delivers it or the news that its sender failed.

Synchronous: perfect clocks, links of at most δ, and faults that lose messages at their sender
only. One module serves the broadcasts of all senders, each with a consensus of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.consensus import Decided, Propose
from shmcast.multicast.protocols.core import (
    Ask,
    Effect,
    Event,
    LocalTime,
    ProcessId,
    Receive,
    Record,
    Replied,
    Reply,
    Request,
    Send,
    SetTimer,
    Start,
    Timer,
    Wire,
)

SENDER_FAULTY = "F_s"  # as checks/agreements.py writes it


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Asked of this module: s broadcasts its value."""

    value: object


@dataclass(frozen=True, slots=True)
class FromSender:
    """Its answer, one per sender."""

    s: ProcessId
    value: object  # None: the sender failed


@dataclass(frozen=True, slots=True)
class Value(Wire):
    value: object


def row_layer(s: ProcessId) -> str:
    return f"trb {s}"


class TrbFromConsensus:
    def __init__(
        self,
        process: ProcessId,
        members: tuple[ProcessId, ...],
        consensus: str,
        t0: LocalTime,
        delta: int,
    ) -> None:
        self.process = process
        self.members = members
        self.consensus = consensus
        self.t0 = t0
        self.delta = delta
        self.value: object = None
        self.received: dict[ProcessId, object] = {}

    def on_broadcast(self, value: object) -> list[Effect]:
        self.value = value
        return [Record("propose", layer=row_layer(self.process), detail=repr(value))]

    def at_t0(self) -> list[Effect]:
        return [] if self.value is None else [Send(Value(self.value), self.members)]

    def at_deadline(self) -> list[Effect]:
        """t0 + δ: whatever a correct sender sent is here, even if it arrived this very moment."""
        return [
            Ask(self.consensus, Request(Propose(self.received.get(s), s))) for s in self.members
        ]

    def on_decide(self, s: ProcessId, value: object) -> list[Effect]:
        shown = SENDER_FAULTY if value is None else repr(value)
        return [
            Record("decide", layer=row_layer(s), detail=shown),
            Reply(FromSender(s, value)),
        ]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Start():
                return [SetTimer("t0", self.t0), SetTimer("deadline", self.t0 + self.delta)]
            case Request(Broadcast(value)):
                return self.on_broadcast(value)
            case Timer("t0"):
                return self.at_t0()
            case Timer("deadline"):
                return self.at_deadline()
            case Receive(Value(value), sender):
                self.received[sender] = value
            case Replied(Decided(value, int(s))):
                return self.on_decide(s, value)
        return []
