"""Algorithm 1 of paper 002 at a destination: barriers, and delivery in timestamp order.

"L34" is line 34 of the algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from shmcast.multicast.protocols.barrier_entries import Final
from shmcast.multicast.protocols.core import BOTTOM, GroupId, MessageId, Timestamp


@dataclass(slots=True)
class Sender:
    """One group of sendersTo(g)."""

    epoch: int
    barrier: Timestamp
    since: Timestamp  # m_rp.ts: nothing of this epoch is below


@dataclass(slots=True)
class Delivery:
    """L3-L5 and L32-L36. DEVIATION: what is delivered leaves `stamped`, which stands for
    stamped \\ delivered; a log hands out each message once, so nothing can come back."""

    senders: dict[GroupId, Sender]  # sendersTo(g)
    stamped: list[tuple[Timestamp, MessageId, Final]] = field(default_factory=list)
    left: dict[GroupId, int] = field(default_factory=dict)  # the last epoch that ended, by group
    heard: dict[GroupId, Timestamp] = field(default_factory=dict)  # of groups that are no senders

    @classmethod
    def of(cls, senders: Iterable[GroupId]) -> Delivery:
        return cls({h: Sender(0, BOTTOM, BOTTOM) for h in senders})

    def insert(self, final: Final) -> None:  # L15, L28
        heappush(self.stamped, (final.ts, final.m.id, final))

    def raise_barrier(self, h: GroupId, ts: Timestamp) -> None:  # L16, L30
        sender = self.senders.get(h)
        if sender is None:
            self.heard[h] = ts  # §5: "the reconfiguration request itself may be seen as a barrier"
        else:
            sender.barrier = max(sender.barrier, ts)

    def may_deliver(self, ts: Timestamp) -> bool:  # L34
        """DEVIATION: m.ts ≤ barrier(h) instead of <. Timestamps are unique, so m itself is its
        source's barrier, and nobody has to order another message to deliver this one."""
        return all(ts <= sender.barrier for sender in self.senders.values())

    def deliverable(self) -> list[Final]:  # L32-L36
        found: list[Final] = []
        while self.stamped and self.may_deliver(self.stamped[0][0]):
            found.append(heappop(self.stamped)[2])
        return found

    # Reconfiguration, §5 -----------------------------------------------------------------------

    def join(self, g: GroupId, epoch: int, ts: Timestamp) -> None:
        """m_rp is decided: "the moment from which processes in h will wait for barriers"."""
        if epoch <= self.left.get(g, -1):
            return  # over before it began
        known = self.senders.get(g)
        if known is None:
            self.senders[g] = Sender(epoch, max(ts, self.heard.get(g, BOTTOM)), ts)
        elif epoch > known.epoch:
            # The end of the epoch before is still on its way: so may be messages of it.
            known.epoch, known.since = epoch, ts

    def leave(self, g: GroupId, epoch: int) -> None:
        """Nothing more of this epoch comes."""
        self.left[g] = epoch
        known = self.senders.get(g)
        if known is None:
            return
        if known.epoch <= epoch:
            del self.senders[g]
        else:
            known.barrier = max(known.barrier, known.since)
