"""A run before it happens: everything that decides it, as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant, Delay
from shmcast.multicast.sim.faults import Fault
from shmcast.multicast.sim.workload import Input


@dataclass(frozen=True)
class Scenario:
    spec: Spec
    topology: Topology
    inputs: Iterable[Input]  # by time; a tuple, or an iterator for a run too long to hold
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    delay: Delay = field(default_factory=Constant)
    fifo: bool = True
    clocks: Mapping[ProcessId, Clock] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    detect_ticks: int = 5000
    until: int | None = None  # real time at which to stop looking
    step_limit: int | None = None
