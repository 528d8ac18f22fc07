"""Which messages of each sender a process has met, in memory that does not grow with the run."""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import MessageId, ProcessId


@dataclass(slots=True)
class Seen:
    """All numbers up to `upto` of each sender, and a few above that arrived early."""

    upto: dict[ProcessId, int] = field(default_factory=dict)
    early: set[MessageId] = field(default_factory=set)

    def __contains__(self, mid: MessageId) -> bool:
        return mid.seq <= self.upto.get(mid.sender, 0) or mid in self.early

    def add(self, mid: MessageId) -> bool:
        """True if it is new."""
        if mid in self:
            return False
        self.early.add(mid)
        upto = self.upto.get(mid.sender, 0)
        while (following := MessageId(mid.sender, upto + 1)) in self.early:
            self.early.discard(following)
            upto += 1
        self.upto[mid.sender] = upto
        return True
