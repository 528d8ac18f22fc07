"""Algorithm 1 of paper 002 at a source: L22-L31, final timestamps, and who may be addressed.

DEVIATION: the leader stamps a message while it proposes it, instead of every process after it is
decided. §6 says so: "the timestamp proposed by g's leader is decided". The log of group_log.py
fixes all that comes before a decided place, so the rule of L24-L26 is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shmcast.multicast.protocols.barrier_entries import (
    Barrier,
    Entry,
    Final,
    Initial,
    Join,
    Joined,
    Left,
    WantLeave,
)
from shmcast.multicast.protocols.core import BOTTOM, GroupId, MessageId, ProcessId, Timestamp


@dataclass(slots=True)
class Membership:
    """Of the own group in sendersTo(h), as far as the own log says."""

    epoch: int
    inside: bool


@dataclass(slots=True)
class Tail:
    """What follows from a group's log, including what is not decided yet."""

    g: GroupId
    last: Timestamp = BOTTOM  # the greatest timestamp of all entries (L24)
    last_to: dict[GroupId, Timestamp] = field(default_factory=dict)  # by learning group
    seq: dict[ProcessId, int] = field(default_factory=dict)  # messages, by sender: FIFO
    leave_seq: dict[ProcessId, int] = field(default_factory=dict)
    membership: dict[GroupId, Membership] = field(default_factory=dict)
    answered: dict[GroupId, int] = field(default_factory=dict)  # joins of others: g -> epoch

    def add(self, entry: Entry) -> None:
        self.last = max(self.last, entry.ts)
        for h in (self.g, *entry.to):
            self.last_to[h] = max(self.last_to.get(h, BOTTOM), entry.ts)
        match entry:
            case Final(initial):
                self.seq[initial.m.id.sender] = initial.m.id.seq
            case Join(h, epoch):
                self.membership[h] = Membership(epoch, inside=True)
            case Left(h, epoch, _, mid):
                self.leave_seq[mid.sender] = mid.seq
                if entry.to:
                    self.membership[h] = Membership(epoch, inside=False)
            case Joined(g, epoch):
                self.answered[g] = epoch

    def has(self, mid: MessageId) -> bool:
        return mid.seq <= self.seq.get(mid.sender, 0)

    def reaches(self, h: GroupId, ts: Timestamp) -> bool:
        """Whether h has been, or will be, given a barrier of at least `ts`."""
        return self.last_to.get(h, BOTTOM) >= ts

    # L23-L31 ---------------------------------------------------------------------------------

    def stamped(self, initial: Initial, floor: Timestamp) -> Final:
        """`floor`: the greatest m_rp.ts of its destinations (§5: "such messages will have a
        timestamp greater than m_rp.ts")."""
        to = tuple(h for h in initial.m.dest if h != self.g)
        return Final(initial, self.after(initial.ts, floor), to)

    def after(self, ts: Timestamp, floor: Timestamp = BOTTOM) -> Timestamp:
        greatest = max(self.last, floor)
        if greatest >= ts:  # L25
            return Timestamp(greatest.time + 1, ts.group)  # L26
        return ts

    def barrier(
        self, ts: Timestamp, to: Iterable[GroupId], mid: MessageId | None = None
    ) -> Barrier:
        """A barrier is never delivered, so it needs no timestamp of its own."""
        return Barrier(max(ts, self.last), tuple(h for h in to if h != self.g), mid)

    def left(self, want: WantLeave) -> Left:
        now = self.membership.get(want.h)
        inside = now is not None and now.inside
        epoch = now.epoch if now is not None else 0
        return Left(want.h, epoch, self.after(want.ts), want.mid, to=(want.h,) if inside else ())

    def join(self, h: GroupId, ts: Timestamp) -> Join | None:
        """m_rq, unless one is under way."""
        now = self.membership.get(h)
        if now is not None and now.inside:
            return None
        return Join(h, now.epoch + 1 if now is not None else 0, self.after(ts))
