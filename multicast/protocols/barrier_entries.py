"""What the protocols of paper 002 send and decide: baseline.py and optimistic.py share it."""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.core import GroupId, Message, MessageId, Timestamp, Wire

# A Timestamp here is (wallclock, process): "a unique value based on the process' unique identifier
# and current wallclock value" (§3.3).


Needs = tuple[tuple[GroupId, GroupId], ...]
"""(x, h): a barrier from x for h."""


def by_source(needs: Needs) -> dict[GroupId, tuple[GroupId, ...]]:
    found: dict[GroupId, tuple[GroupId, ...]] = {}
    for x, h in needs:
        found[x] = (*found.get(x, ()), h)
    return found


# fr-mcast before a decision ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Initial(Wire):
    """m with its source and its initial timestamp (L7-L10)."""

    m: Message
    src: GroupId
    ts: Timestamp
    asked: Needs = ()  # the barriers that its sender has requested already

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


@dataclass(frozen=True, slots=True)
class WantBarrier(Wire):
    """§3.4: the groups `h` need a barrier of at least `ts` from the receiver, to deliver m."""

    h: tuple[GroupId, ...]
    ts: Timestamp
    mid: MessageId

    def about(self) -> tuple[MessageId, ...]:
        return (self.mid,)


@dataclass(frozen=True, slots=True)
class WantLeave(Wire):
    """§5: the sender's group will not multicast to `h` any more. `mid` names the request."""

    h: GroupId
    ts: Timestamp
    mid: MessageId


@dataclass(frozen=True, slots=True)
class Leave:
    """What an application asks for with `Request`, to take its group out of sendersTo(h)."""

    h: GroupId


# Decided by a group; `to` are the other groups that learn it -------------------------------------


@dataclass(frozen=True, slots=True)
class Final:
    """m with its final timestamp."""

    initial: Initial
    ts: Timestamp
    to: tuple[GroupId, ...]

    @property
    def m(self) -> Message:
        return self.initial.m

    def about(self) -> tuple[MessageId, ...]:
        return (self.initial.m.id,)


@dataclass(frozen=True, slots=True)
class Barrier:
    """No message of this group that is decided later has a timestamp up to `ts`."""

    ts: Timestamp
    to: tuple[GroupId, ...]
    mid: MessageId | None = None  # the message it was requested for; None: a null message

    def about(self) -> tuple[MessageId, ...]:
        return () if self.mid is None else (self.mid,)


@dataclass(frozen=True, slots=True)
class Join:
    """m_rq of §5. A group that left and comes back does so in a new epoch."""

    h: GroupId
    epoch: int
    ts: Timestamp

    @property
    def to(self) -> tuple[GroupId, ...]:
        return (self.h,)

    def about(self) -> tuple[MessageId, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Joined:
    """m_rp of §5, decided in h: from `ts` on, h waits for barriers from g."""

    g: GroupId
    epoch: int
    senders: tuple[GroupId, ...]  # sendersTo(h) with g
    ts: Timestamp
    to: tuple[GroupId, ...]

    def about(self) -> tuple[MessageId, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Left:
    """The last of this epoch from the group that decides it."""

    h: GroupId
    epoch: int
    ts: Timestamp
    mid: MessageId
    to: tuple[GroupId, ...]

    def about(self) -> tuple[MessageId, ...]:
        return ()


Entry = Final | Barrier | Join | Joined | Left
