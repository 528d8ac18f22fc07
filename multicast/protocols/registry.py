"""The one table of protocols: a name, how to build all its processes, and what it promises.

A protocol registers itself where it is defined:

    PROTOCOL = register(Spec(name="skeen", build=build, promises=(...), invariants=...))

and is found under its name: "ft-skeen" is looked for in protocols/ft_skeen.py first, then in
every other module of this folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from shmcast.multicast.protocols.core import Effect, Event, Machine, ProcessId
from shmcast.multicast.protocols.topology import Topology

if TYPE_CHECKING:
    from random import Random

Options = Mapping[str, object]
Build = Callable[[ProcessId, Topology, Options], Machine]
"""Makes one process, member or client, in its initial state."""


@dataclass(slots=True)
class Step:
    """What happened last: one event handled by one process."""

    process: ProcessId
    event: Event
    effects: list[Effect]  # those that happened: a crash may have cut the rest


@dataclass(slots=True)
class World:
    """The global state, for invariants. `machines` holds the processes that are alive."""

    topology: Topology
    machines: dict[ProcessId, Machine]
    step: Step | None = None


Invariant = Callable[[World], None]
"""Raises AssertionError when it does not hold. Called after every step."""


@dataclass(frozen=True, slots=True)
class Tolerates:
    """The faults under which a protocol keeps its promises; campaigns stay inside."""

    crashes_per_group: Callable[[int], int] = lambda _replicas: 0
    client_crashes: bool = False
    restarts: bool = False
    partitions: bool = False  # messages wait at the cut and pass when it heals
    loss: bool = False
    duplication: bool = False
    reordering: bool = False  # links need not be FIFO
    slow_processes: bool = True
    delay_max: int | None = None  # in ticks; None: any delay, as in an asynchronous system
    skew_max: int = 0  # of two clocks, in ticks
    drift_ppm_max: int = 0
    omissions: bool = False  # a faulty process may lose messages instead of crashing
    timing: bool = False  # a faulty process may be slow, or have a clock outside its bounds
    nominations: bool = False  # it listens to leader selection, which may err
    suspicions: bool = False  # it listens to a failure detector, which may err
    loss_window: int = 0  # what a process sent in its last ticks may reach some and miss others


def minority(replicas: int) -> int:
    """f of 2f + 1."""
    return (replicas - 1) // 2


Calls: TypeAlias = "Callable[[Topology, Random, int], Sequence[tuple[int, ProcessId, object]]]"
"""Requests other than multicasts within so many ticks, for campaigns: when, who, what."""

Bound = Callable[[Topology], int]


@dataclass(frozen=True, slots=True)
class Spec:
    name: str
    build: Build
    promises: tuple[str, ...]  # names of checks/table.py
    tolerates: Tolerates = field(default_factory=Tolerates)
    shapes: tuple[Topology, ...] = (Topology.regular(3, 1, 2),)  # campaigns choose among them
    invariants: Callable[[], list[Invariant]] = list  # fresh for each run: they may remember
    settle_ticks: int | None = None
    """A protocol whose timers never end states how long after the last input its run counts as
    closed. None: a run is closed when nothing is in flight and no timer is armed."""
    calls: Calls | None = None
    multicasts: bool = True  # False: it is asked by `calls` only
    bound: Bound | None = None  # Δ of the timely promises, in ticks


def ticks(options: Options, name: str, default: int) -> int:
    """An option that is a span of time."""
    value = options.get(name, default)
    assert isinstance(value, int) and value > 0, f"{name} is a number of ticks"
    return value


_specs: dict[str, Spec] = {}
_HERE = "shmcast.multicast.protocols"


def register(spec: Spec) -> Spec:
    known = _specs.get(spec.name)
    assert known is None or known.build.__module__ == spec.build.__module__, (
        f"two protocols are called {spec.name}"
    )
    _specs[spec.name] = spec
    return spec


def lookup(name: str) -> Spec:
    if name not in _specs:
        module = f"{_HERE}.{name.replace('-', '_')}"
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    if name not in _specs:
        _import_all()
    if name not in _specs:
        raise KeyError(f"no protocol {name!r}; there are {', '.join(sorted(_specs))}")
    return _specs[name]


def names() -> list[str]:
    _import_all()
    return sorted(_specs)


def _import_all() -> None:
    package = importlib.import_module(_HERE)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{_HERE}.{module.name}")
