"""A failure detector and leader selection (Ω) for simulated processes: eventually accurate.

Every crash is reported `detect_ticks` after it happened, every recovery likewise. A leader stays
until it crashes; then the first living member follows it, even one that has just come back
without its memory. A newcomer is told who leads where. Mistakes on the way are faults of the
scenario. A protocol that brings its own detector runs without this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import Event, Nominate, ProcessId, Suspect, Trust
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.faults import WrongNomination, WrongSuspicion

Notify = Callable[[int, ProcessId, Event], None]  # at, process, event


@dataclass(slots=True)
class Oracle:
    topology: Topology
    detect_ticks: int
    notify: Notify
    down: set[ProcessId] = field(default_factory=set)
    leaders: dict[int, ProcessId] = field(default_factory=dict)  # only groups that changed

    def leader(self, group: int) -> ProcessId:
        members = self.topology.groups[group]
        leader = self.leaders.get(group, members[0])
        if leader not in self.down:
            return leader
        return next((p for p in members if p not in self.down), leader)

    def crashed(self, process: ProcessId, now: int) -> None:
        self.down.add(process)
        self._tell(now + self.detect_ticks, Suspect(process), about=process)
        self._nominate(process, now)

    def recovered(self, process: ProcessId, now: int) -> None:
        self.down.discard(process)
        self._tell(now + self.detect_ticks, Trust(process), about=process)
        self._nominate(process, now)
        for group, leader in self.leaders.items():
            self.notify(now + self.detect_ticks, process, Nominate(group, leader))
        for other in sorted(self.down):
            self.notify(now + self.detect_ticks, process, Suspect(other))

    def _nominate(self, process: ProcessId, now: int) -> None:
        """Announces a new leader of the group of `process`, if it has one."""
        group = self.topology.group_of(process)
        if group is None:
            return
        leader = self.leader(group)
        if leader != self.leaders.get(group, self.topology.groups[group][0]):
            self.leaders[group] = leader
            self._tell(now + self.detect_ticks, Nominate(group, leader))

    def mistake(self, fault: WrongNomination | WrongSuspicion, now: int) -> None:
        if isinstance(fault, WrongSuspicion):
            self._tell(now, Suspect(fault.process), fault.process, fault.to)
        else:
            self._tell(now, Nominate(fault.group, fault.leader), to=fault.to)

    def correct(self, fault: WrongNomination | WrongSuspicion, now: int) -> None:
        """Takes a mistake back, unless it has become the truth meanwhile."""
        if isinstance(fault, WrongSuspicion):
            if fault.process not in self.down:
                self._tell(now, Trust(fault.process), fault.process, fault.to)
        else:
            self._tell(now, Nominate(fault.group, self.leader(fault.group)), to=fault.to)

    def _tell(
        self,
        at: int,
        event: Event,
        about: ProcessId | None = None,
        to: Iterable[ProcessId] | None = None,
    ) -> None:
        for process in self.topology.processes if to is None else sorted(to):
            if process != about:
                self.notify(at, process, event)
