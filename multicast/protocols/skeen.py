"""Skeen's protocol at one process (paper 000, Fig. 1): singleton groups, no failures.

"L9" is line 9 of the figure. Handlers keep its order and its variable names. A comment that
starts with DEVIATION says where we differ, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Machine,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Send,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.registry import Options, Spec, Tolerates, World, register
from shmcast.multicast.protocols.topology import Topology


@dataclass(frozen=True, slots=True)
class MulticastMsg(Wire):
    m: Message

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class Propose(Wire):
    m: Message
    g: GroupId
    lts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


class Phase(IntEnum):
    START = 0
    PROPOSED = 1
    COMMITTED = 2


@dataclass(slots=True)
class State:
    """L1-L5, with two heaps that answer L17-L22 without a search.

    DEVIATION: what is delivered is forgotten, so `Delivered` is the absence of an entry. Each
    process gets one MULTICAST and one PROPOSE per group for each message, all before it delivers
    it, so nothing can ask again; and memory stays flat.
    """

    g0: GroupId
    clock: int = 0  # L1
    phase: dict[MessageId, Phase] = field(default_factory=dict)  # L2
    local_ts: dict[MessageId, Timestamp] = field(default_factory=dict)  # L3
    global_ts: dict[MessageId, Timestamp] = field(default_factory=dict)  # L4
    lts: dict[MessageId, dict[GroupId, Timestamp]] = field(default_factory=dict)  # Lts of L13
    proposed: list[tuple[Timestamp, MessageId]] = field(default_factory=list)
    committed: list[tuple[Timestamp, MessageId, Message]] = field(default_factory=list)


class Skeen:
    def __init__(self, topology: Topology, g0: GroupId) -> None:
        self.topology = topology
        self.state = State(g0)

    def on_multicast(self, m: Message) -> list[Effect]:  # L8
        s = self.state
        s.clock += 1  # L9
        s.local_ts[m.id] = lts = Timestamp(s.clock, s.g0)  # L10
        s.phase[m.id] = Phase.PROPOSED  # L11
        heappush(s.proposed, (lts, m.id))
        return [Send(Propose(m, s.g0, lts), self.topology.members(m.dest))]  # L12

    def on_propose(self, m: Message, g: GroupId, lts: Timestamp) -> list[Effect]:  # L13
        s = self.state
        received = s.lts.get(m.id)
        if received is None:
            received = s.lts[m.id] = {}
        received[g] = lts
        if len(received) < len(m.dest):
            return []
        s.global_ts[m.id] = gts = max(received.values())  # L14
        s.clock = self.clock_after(gts)  # L15
        s.phase[m.id] = Phase.COMMITTED  # L16
        heappush(s.committed, (gts, m.id, m))
        return self.deliver_in_order()

    def clock_after(self, gts: Timestamp) -> int:
        return max(self.state.clock, gts.time)

    def deliver_in_order(self) -> list[Effect]:  # L17-L24
        s = self.state
        effects: list[Effect] = []
        while s.committed and self.may_deliver(s.committed[0][0]):
            gts, mid, m = heappop(s.committed)
            del s.phase[mid], s.local_ts[mid], s.global_ts[mid], s.lts[mid]  # L23
            effects.append(Deliver(m, gts))  # L24
        return effects

    def may_deliver(self, gts: Timestamp) -> bool:
        """L20-L21: every message that is still PROPOSED has a higher local timestamp."""
        s = self.state
        while s.proposed and s.phase.get(s.proposed[0][1]) is not Phase.PROPOSED:
            heappop(s.proposed)  # committed or delivered meanwhile
        return not s.proposed or s.proposed[0][0] > gts

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Receive):
            message = event.message
            if isinstance(message, Propose):
                return self.on_propose(message.m, message.g, message.lts)
            assert isinstance(message, MulticastMsg)
            return self.on_multicast(message.m)
        if isinstance(event, Multicast):
            return multicast(self.topology, event.message)
        return []


def multicast(topology: Topology, m: Message) -> list[Effect]:  # L6
    return [Send(MulticastMsg(m), topology.members(m.dest))]  # L7


class Client:
    """A process outside all groups: L6-L7 are all it does."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        return multicast(self.topology, event.message) if isinstance(event, Multicast) else []


def clock_covers_commits(world: World) -> None:
    """§III, of L15: the clock "is no lower than the first part of the global timestamp"."""
    for process in _members(world):
        for gts in process.state.global_ts.values():
            assert process.state.clock >= gts.time, f"clock below {gts}"


def local_at_most_global(world: World) -> None:
    """L14: the global timestamp is the maximum of the local ones."""
    for process in _members(world):
        for mid, gts in process.state.global_ts.items():
            assert process.state.local_ts[mid] <= gts, f"local above global for {mid}"


def _members(world: World) -> list[Skeen]:
    """Invariants range over what the last step could have changed: its own process."""
    assert world.step is not None
    process = world.machines.get(world.step.process)
    return [process] if isinstance(process, Skeen) else []


def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
    if any(len(group) > 1 for group in topology.groups):
        raise ValueError("skeen has one process a group; ft-skeen and wbcast have replicas")
    g0 = topology.group_of(process)
    return Client(topology) if g0 is None else Skeen(topology, g0)


PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "termination",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
    "genuineness",
)

PROTOCOL = register(
    Spec(
        name="skeen",
        build=build,
        promises=PROMISES,
        tolerates=Tolerates(partitions=True, reordering=True),
        shapes=(
            Topology.regular(groups=2, replicas=1, clients=2),
            Topology.regular(groups=3, replicas=1, clients=3),
            Topology.regular(groups=5, replicas=1, clients=0),
        ),
        invariants=lambda: [clock_covers_commits, local_at_most_global],
    )
)
