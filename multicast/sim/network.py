"""Where a message goes between a Send and a Receive: delays, order, loss, cuts.

Links are FIFO and reliable unless the scenario says otherwise. `arrivals` answers with the times
at which copies of one message arrive: one, none if it is lost, two if it is duplicated.
"""

from __future__ import annotations

from random import Random

from shmcast.multicast.protocols.core import ProcessId, Wire
from shmcast.multicast.sim.delays import Constant, Delay
from shmcast.multicast.sim.faults import (
    Disturbance,
    Fault,
    Partition,
    ReceiveOmission,
    SendOmission,
)


class Network:
    def __init__(self, delay: Delay, faults: tuple[Fault, ...], seed: int, fifo: bool) -> None:
        self.delay = delay
        self.fifo = fifo
        self.rng = Random(f"{seed}/network")
        self.last: dict[tuple[ProcessId, ProcessId], int] = {}
        self.behind = False  # the latest message queues behind another one on its link
        self.partitions = sorted(
            (f for f in faults if isinstance(f, Partition)), key=lambda f: f.at
        )
        self.disturbances = [f for f in faults if isinstance(f, Disturbance)]
        self.send_omissions = [f for f in faults if isinstance(f, SendOmission)]
        self.receive_omissions = [f for f in faults if isinstance(f, ReceiveOmission)]
        self.acted: set[Fault] = set()  # those that changed the way of a message
        self.faultless = not (self.partitions or self.disturbances)
        self.constant = delay.delta if isinstance(delay, Constant) else 0
        self.perfect = (
            self.faultless
            and self.constant > 0
            and not self.send_omissions
            and not self.receive_omissions
        )

    def arrivals(self, src: ProcessId, dst: ProcessId, message: Wire, now: int) -> tuple[int, ...]:
        delay = self.delay.sample(src, dst, message, self.rng)
        if self.faultless:
            return (self.in_order(src, dst, now + delay),)
        start = self._passes_cuts(src, dst, now)
        if start is None:
            return ()
        return self._disturbed(src, dst, start + delay, now)

    def in_order(self, src: ProcessId, dst: ProcessId, arrival: int) -> int:
        """On a FIFO link nothing overtakes."""
        if not self.fifo:
            return arrival
        link = (src, dst)
        last = self.last.get(link, -1)
        self.behind = arrival <= last
        if self.behind:
            return last
        self.last[link] = arrival
        return arrival

    def _passes_cuts(self, src: ProcessId, dst: ProcessId, start: int) -> int | None:
        """When the message leaves: now, or when the last cut in its way heals."""
        for cut in self.partitions:
            if cut.at <= start < cut.until and cut.cuts(src, dst):
                self.acted.add(cut)
                if cut.drop:
                    return None
                start = cut.until
        return start

    def _disturbed(self, src: ProcessId, dst: ProcessId, arrival: int, now: int) -> tuple[int, ...]:
        rng = self.rng
        later: list[int] = []  # by how much each second copy is later than the first
        overtaken = False
        for fault in self.disturbances:
            if not fault.touches(src, dst, now):
                continue
            if fault.loss and rng.random() < fault.loss:
                self.acted.add(fault)
                return ()
            if fault.duplication and rng.random() < fault.duplication:
                self.acted.add(fault)
                later.append(rng.randint(1, fault.jitter))
            if fault.reordering and rng.random() < fault.reordering:
                overtaken = True
                self.acted.add(fault)
                arrival += rng.randint(1, fault.jitter)
        first = arrival if overtaken else self.in_order(src, dst, arrival)
        return (first, *(first + ticks for ticks in later))

    def send_omitted(self, src: ProcessId, dst: ProcessId, now: int) -> bool:
        for f in self.send_omissions:
            if f.process == src and f.at <= now < f.until and (f.to is None or dst in f.to):
                self.acted.add(f)
                return True
        return False

    def receive_omitted(self, src: ProcessId, dst: ProcessId, now: int) -> bool:
        for f in self.receive_omissions:
            if f.process == dst and f.at <= now < f.until and f.sender in (None, src):
                self.acted.add(f)
                return True
        return False
