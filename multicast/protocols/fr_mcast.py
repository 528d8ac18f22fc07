"""FIFO reliable multicast (paper 002 §2.1): fr-mcast(γ, m) and fr-deliver(m).

A module for stack.py. Whoever gets a message for the first time passes it on to all of γ, so what
one correct process delivers all deliver, even if the sender died among its receivers. A message
carries its number among its sender's messages to each group of γ: that is all that FIFO needs,
although γ changes from message to message.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Send,
    Wire,
)
from shmcast.multicast.protocols.topology import Topology


@dataclass(frozen=True, slots=True)
class Carry(Wire):
    """`m.id` is (sender, number of its fr-mcasts); `places` stands beside `m.dest`."""

    m: Message
    places: tuple[int, ...]

    @property
    def label(self) -> str:  # type: ignore[override]
        body = self.m.payload
        return body.label if isinstance(body, Wire) else type(self).__name__

    def about(self) -> tuple[MessageId, ...]:
        body = self.m.payload
        return body.about() if isinstance(body, Wire) else ()


@dataclass(slots=True)
class State:
    me: ProcessId
    g: GroupId
    sent: dict[GroupId, int] = field(default_factory=lambda: defaultdict(int))
    next: dict[ProcessId, int] = field(default_factory=lambda: defaultdict(int))
    early: dict[ProcessId, dict[int, Message]] = field(default_factory=lambda: defaultdict(dict))


class FrMcast:
    def __init__(self, topology: Topology, me: ProcessId, g: GroupId) -> None:
        self.topology = topology
        self.state = State(me, g)

    def fr_mcast(self, m: Message) -> list[Effect]:
        s = self.state
        places = tuple(s.sent[h] for h in m.dest)
        for h in m.dest:
            s.sent[h] += 1
        return [Send(Carry(m, places), self.topology.members(m.dest))]

    def on_carry(self, carry: Carry, relay: ProcessId) -> list[Effect]:
        s = self.state
        m, origin = carry.m, carry.m.id.sender
        place = carry.places[m.dest.index(s.g)]
        if place < s.next[origin] or place in s.early[origin]:
            return []
        s.early[origin][place] = m
        return [*self.pass_on(carry, relay), *self.fr_deliver(origin)]

    def pass_on(self, carry: Carry, relay: ProcessId) -> list[Effect]:
        known = (self.state.me, relay, carry.m.id.sender)
        others = tuple(p for p in self.topology.members(carry.m.dest) if p not in known)
        if not others or carry.m.id.sender == self.state.me:
            return []
        return [Send(carry, others)]

    def fr_deliver(self, origin: ProcessId) -> list[Effect]:
        s = self.state
        effects: list[Effect] = []
        while (m := s.early[origin].pop(s.next[origin], None)) is not None:
            s.next[origin] += 1
            effects.append(Deliver(m))
        return effects

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Receive):
            assert isinstance(event.message, Carry)
            return self.on_carry(event.message, event.sender)
        if isinstance(event, Multicast):
            return self.fr_mcast(event.message)
        return []
