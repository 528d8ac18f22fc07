"""What fault-tolerant Skeen and FastCast put into their logs, and tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.core import GroupId, Message, MessageId, Timestamp, Wire
from shmcast.multicast.protocols.wbcast_wire import Ballot

# In the log -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Barrier:
    epoch: Ballot


@dataclass(frozen=True, slots=True)
class Local:
    epoch: Ballot
    m: Message
    lts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class Global:
    m: Message
    gts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


# Between processes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Propose(Wire):
    """L12, once the local timestamp is chosen."""

    m: Message
    g: GroupId
    lts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class DeliverMsg(Wire):
    """From the leader to its group, in order."""

    m: Message
    gts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)
