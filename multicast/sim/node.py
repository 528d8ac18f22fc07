"""One simulated process: its machine, its clock, its timers, its state of health."""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import Machine, ProcessId, TimerName
from shmcast.multicast.sim.clock import Clock


@dataclass(slots=True)
class Node:
    pid: ProcessId
    machine: Machine
    clock: Clock | None = None  # None: shows real time
    alive: bool = True
    incarnation: int = 0
    lseq: int = 0
    next_seq: int = 0  # of its multicasts
    timers: dict[TimerName, tuple[int, int]] = field(default_factory=dict)  # local time, token
    saved: object = None
    effects_left: int | None = None  # a crash inside the next step
    step_ticks: int = 0  # how long a step takes; 0: no time at all
    busy_until: int = 0
    held_up: bool = False  # a step of it had to wait since it became slow
    queueing: bool = False  # slow, or still busy with what came while it was

    def local(self, real: int) -> int:
        return real if self.clock is None else self.clock.local(real)

    def real(self, local: int) -> int:
        return local if self.clock is None else self.clock.real(local)
