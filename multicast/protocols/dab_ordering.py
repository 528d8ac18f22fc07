"""The order of Dynamic Atomic Broadcast (paper 003 §6.1, Fig. 5): slots, and in a slot processes.

A cursor walks over (slot, process). It passes a member's slot when the mark of the slot after it
is here: then its sender outlived the time in which a crash loses messages, so everyone has the
slot. Or when the members agreed on where the member's life ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import Deliver, Message, ProcessId, Timestamp
from shmcast.multicast.protocols.dab_messages import Flush, Life


@dataclass(slots=True)
class Peer:
    """One life of one process. DEVIATION: keyed by incarnation too, since a cursor that others
    hold up may still owe slots of the life before."""

    process: ProcessId
    incarnation: int
    joined: int  # J, its first slot
    last: int  # L, the last slot whose mark is here
    cut: int | None = None  # the last slot, by decision
    leaves_in: int | None = None  # the slot of its leave mark, when that is here
    reported: bool = False
    slots: dict[int, tuple[Message, ...]] = field(default_factory=dict)

    @property
    def life(self) -> Life:
        return (self.process, self.incarnation)

    @property
    def retired(self) -> bool:
        """Its leave mark and the slot after it are here, so they are everywhere."""
        return self.leaves_in is not None and self.last > self.leaves_in

    def over(self, slot: int) -> bool:
        if self.cut is not None and slot > self.cut:
            return True
        return self.leaves_in is not None and slot > self.leaves_in

    def complete(self, slot: int) -> bool:
        return self.last >= slot + 1 or (self.cut is not None and slot <= self.cut)

    def end(self, cut: int) -> None:
        """Input beyond the cut is dropped: some may not have it."""
        self.cut = cut
        self.slots = {slot: data for slot, data in self.slots.items() if slot <= cut}


class Ordering:
    def __init__(self, processes: tuple[ProcessId, ...], first_slot: int) -> None:
        self.processes = processes
        self.peers: dict[ProcessId, list[Peer]] = {p: [] for p in processes}  # oldest first
        self.newest: dict[ProcessId, int] = {}  # incarnation
        self.slot = first_slot  # recvSlot
        self.index = 0  # current

    def add(self, life: Life, joined: int, last: int) -> Peer:
        process, incarnation = life
        peer = Peer(process, incarnation, joined, last)
        self.peers[process].append(peer)
        self.newest[process] = incarnation
        return peer

    def remove(self, peer: Peer) -> None:
        self.peers[peer.process].remove(peer)

    def is_news(self, life: Life) -> bool:
        return life[1] > self.newest.get(life[0], -1)

    def find(self, life: Life) -> Peer | None:
        return next((p for p in self.peers[life[0]] if p.incarnation == life[1]), None)

    def everyone(self) -> list[Peer]:
        return [peer for process in self.processes for peer in self.peers[process]]

    def receive(self, peer: Peer, flush: Flush) -> bool:
        """False if it comes too late to count: the life is reported, or the slot is known."""
        if peer.reported or peer.cut is not None or flush.slot <= peer.last:
            return False
        peer.last = flush.slot
        if flush.data and flush.slot >= self.slot:
            peer.slots[flush.slot] = flush.data
        if flush.leaves:
            peer.leaves_in = flush.slot
        return True

    def overdue(self, slot: int, me: ProcessId) -> list[Peer]:
        """Whose mark of this slot should be here by now, and is not."""
        return [
            peer
            for peer in self.everyone()
            if peer.process != me
            and peer.joined <= slot
            and peer.last < slot
            and not (peer.reported or peer.retired or peer.cut is not None)
        ]

    def deliver(self) -> list[Deliver]:
        """Moves the cursor as far as it goes: at most to our own next mark. DEVIATION: membership
        is asked at the cursor, not when the slot changes, so a decision frees a cursor that
        already stands on its slot."""
        found: list[Deliver] = []
        while True:
            process = self.processes[self.index]
            peer = self.member_at(process)
            if peer is not None:
                if not self.may_pass(peer):
                    return found
                ts = Timestamp(self.slot, process)
                found += [Deliver(m, ts) for m in peer.slots.pop(self.slot, ())]
            self._step()

    def may_pass(self, peer: Peer) -> bool:
        return peer.complete(self.slot)

    def member_at(self, process: ProcessId) -> Peer | None:
        for peer in reversed(self.peers[process]):
            if peer.joined <= self.slot:
                return None if peer.over(self.slot) else peer
        return None

    def _step(self) -> None:
        self.index += 1
        if self.index == len(self.processes):
            self.index = 0
            self.slot += 1
            for process, lives in self.peers.items():
                if any(peer.over(self.slot) for peer in lives):
                    self.peers[process] = [p for p in lives if not p.over(self.slot)]
