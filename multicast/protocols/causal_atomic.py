"""Adds causal order to a FIFO atomic broadcast without blocking (paper 004, Figs. 8, 9 and 10).

If a message arrives before one that its sender had delivered, then, the order being total, its
sender delivered out of order: it is faulty, and nothing of it is delivered from there on. The
three figures decide alike; they differ in what they send and keep.
"""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Event,
    LocalTime,
    Message,
    Multicast,
    ProcessId,
)
from shmcast.multicast.protocols.vectors import Counted, Vector, at_least, places


class CausalAtomic:
    """Fig. 8: every message carries all that its sender has delivered."""

    def __init__(self, below: str, processes: tuple[ProcessId, ...]) -> None:
        self.below = below
        self.place = places(processes)
        self.suspects: set[ProcessId] = set()
        self.delivered = [0] * len(processes)  # numOfAllDlvrs

    def broadcast(self, m: Message) -> list[Effect]:
        return [Ask(self.below, Multicast(replace(m, payload=Counted(m.payload, self.tag()))))]

    def on_deliver(self, m: Message, counts: Vector) -> list[Effect]:
        sender = m.id.sender
        if sender in self.suspects or not self.has_all(self.place[sender], counts):
            self.suspects.add(sender)
            return []
        self.count(self.place[sender], counts)
        return [Deliver(m)]

    def tag(self) -> Vector:
        return tuple(self.delivered)

    def has_all(self, s: int, counts: Vector) -> bool:
        return at_least(self.delivered, counts)

    def count(self, s: int, counts: Vector) -> None:
        self.delivered[s] += 1

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.broadcast(m)
            case Delivered(Message(payload=Counted(payload, counts)) as m):
                return self.on_deliver(replace(m, payload=payload), counts)
        return []


class CausalAtomicRecent(CausalAtomic):
    """Fig. 9: a message carries what its sender delivered since its last one; a matrix of sums
    gives back the whole."""

    def __init__(self, below: str, processes: tuple[ProcessId, ...]) -> None:
        super().__init__(below, processes)
        n = len(processes)
        self.recent = [0] * n  # numOfRcntDlvrs
        self.known = [[0] * n for _ in processes]  # M

    def tag(self) -> Vector:
        counts = tuple(self.recent)
        self.recent = [0] * len(counts)
        return counts

    def has_all(self, s: int, counts: Vector) -> bool:
        return at_least(self.delivered, self.sums(s, counts))

    def count(self, s: int, counts: Vector) -> None:
        self.known[s] = self.sums(s, counts)
        self.recent[s] += 1
        self.delivered[s] += 1

    def sums(self, s: int, counts: Vector) -> list[int]:
        return [a + b for a, b in zip(self.known[s], counts, strict=True)]


class CausalAtomicAhead(CausalAtomic):
    """Fig. 10: only how far this process is ahead of each other one, in one matrix of small
    numbers: numAhead[s, r] = numOfAllDlvrs[r] − M[s, r]."""

    def __init__(self, below: str, processes: tuple[ProcessId, ...]) -> None:
        super().__init__(below, processes)
        n = len(processes)
        self.recent = [0] * n
        self.ahead = [[0] * n for _ in processes]

    def tag(self) -> Vector:
        counts = tuple(self.recent)
        self.recent = [0] * len(counts)
        return counts

    def has_all(self, s: int, counts: Vector) -> bool:
        return at_least(self.ahead[s], counts)

    def count(self, s: int, counts: Vector) -> None:
        self.recent[s] += 1
        for row in self.ahead:
            row[s] += 1
        self.ahead[s] = [a - b for a, b in zip(self.ahead[s], counts, strict=True)]
