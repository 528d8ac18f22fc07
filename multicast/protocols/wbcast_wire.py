"""What WbCast's processes tell each other. Names are those of paper 000, Fig. 4; the messages
below the line are ours: client sessions, garbage collection, rejoining."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from shmcast.multicast.protocols.core import (
    GroupId,
    Message,
    MessageId,
    ProcessId,
    Timestamp,
    Wire,
)


class Ballot(NamedTuple):
    """A period in which one process leads. Ordered lexicographically, as in §IV."""

    n: int
    leader: ProcessId


NO_BALLOT = Ballot(0, -1)  # ⊥

Ballots: TypeAlias = tuple[Ballot, ...]
"""The vector Bal of the figure: one ballot per group, in the order of dest(m)."""

Lives: TypeAlias = tuple[int, ...]
"""The incarnation of each member of a group, in the order of the group."""


class Phase(IntEnum):
    START = 0
    PROPOSED = 1
    ACCEPTED = 2
    COMMITTED = 3


@dataclass(frozen=True, slots=True)
class MulticastMsg(Wire):
    m: Message
    finished: int = 0  # the sender needs no more answers about its messages below this number

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class Accept(Wire):
    m: Message
    g: GroupId
    bal: Ballot
    lts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class AcceptAck(Wire):
    mid: MessageId
    g: GroupId
    bal: Ballots

    def about(self) -> tuple[MessageId, ...]:
        return (self.mid,)


@dataclass(frozen=True, slots=True)
class DeliverMsg(Wire):
    m: Message
    b: Ballot
    lts: Timestamp
    gts: Timestamp
    finished: int = 0

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Phase, LocalTS and GlobalTS as they were; nobody changes them any more."""

    messages: Mapping[MessageId, Message] = field(default_factory=dict)
    phase: Mapping[MessageId, Phase] = field(default_factory=dict)
    local_ts: Mapping[MessageId, Timestamp] = field(default_factory=dict)
    global_ts: Mapping[MessageId, Timestamp] = field(default_factory=dict)

    def without(self, gone: Collection[MessageId]) -> Snapshot:
        if not gone:
            return self
        return Snapshot(
            {mid: m for mid, m in self.messages.items() if mid not in gone},
            {mid: phase for mid, phase in self.phase.items() if mid not in gone},
            {mid: lts for mid, lts in self.local_ts.items() if mid not in gone},
            {mid: gts for mid, gts in self.global_ts.items() if mid not in gone},
        )


@dataclass(frozen=True, slots=True)
class NewLeader(Wire):
    b: Ballot
    lives: Lives


@dataclass(frozen=True, slots=True)
class NewLeaderAck(Wire):
    b: Ballot
    cballot: Ballot
    clock: int
    snapshot: Snapshot
    lives: Lives
    past: object = None  # what the snapshot no longer shows, see wbcast_rejoin.py

    def about(self) -> tuple[MessageId, ...]:
        return tuple(self.snapshot.phase)


@dataclass(frozen=True, slots=True)
class NewState(Wire):
    b: Ballot
    clock: int
    snapshot: Snapshot
    lives: Lives
    past: object = None

    def about(self) -> tuple[MessageId, ...]:
        return tuple(self.snapshot.phase)


@dataclass(frozen=True, slots=True)
class NewStateAck(Wire):
    b: Ballot


# Not in the figure ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Redirect(Wire):
    """To one who took us for the leader of `g`: we are not, try `leader`."""

    mid: MessageId
    g: GroupId
    leader: ProcessId

    def about(self) -> tuple[MessageId, ...]:
        return (self.mid,)


@dataclass(frozen=True, slots=True)
class Done(Wire):
    """To the sender of a message: the leader of `g` has delivered it."""

    mid: MessageId
    g: GroupId

    def about(self) -> tuple[MessageId, ...]:
        return (self.mid,)


@dataclass(frozen=True, slots=True)
class Report(Wire):
    """To the leader: in its ballot I have handled every DELIVER up to `gts`."""

    b: Ballot
    gts: Timestamp


@dataclass(frozen=True, slots=True)
class Stable(Wire):
    """To the groups we share messages with: a quorum of `g` has committed all up to `gts`."""

    g: GroupId
    gts: Timestamp


@dataclass(frozen=True, slots=True)
class Collect(Wire):
    """To the own group: in this ballot every member waited for has committed all up to `gts`."""

    b: Ballot
    gts: Timestamp


@dataclass(frozen=True, slots=True)
class Rejoin(Wire):
    """To the own group: I cannot follow; lead me with a ballot above mine."""

    life: int
    ballot: Ballot
