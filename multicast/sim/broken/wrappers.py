"""Mistakes that any protocol can make, put around a whole process.

Every broadcast of paper 004 gets one per promise; mistakes in single rules are in the files beside
this one.
"""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.protocols.broadcasts import NAMED
from shmcast.multicast.protocols.consensus_from_paxos import NAME as PAXOS
from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    LocalTime,
    Machine,
    ProcessId,
    SetTimer,
    Timer,
)
from shmcast.multicast.protocols.registry import Build, Options, lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.mutants import mutant

LATE_BY = 20_000  # more than any bound of a campaign


def the_one_that_errs(topology: Topology) -> ProcessId:
    """If one is enough."""
    return topology.groups[0][-1]


class Wrapper:
    """Hands everything on; subclasses tamper with deliveries."""

    def __init__(self, inner: Machine, process: ProcessId, topology: Topology) -> None:
        self.inner = inner
        self.process = process
        self.chosen = process == the_one_that_errs(topology)

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        effects: list[Effect] = []
        for effect in self.inner.handle(event, now):
            if isinstance(effect, Deliver):
                effects += self.tamper(effect, now)
            else:
                effects.append(effect)
        return effects

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        return [effect]


class DeliversTwice(Wrapper):
    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        return [effect, effect]


class KeepsItsOwn(Wrapper):
    """Does not deliver some of its own messages."""

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        mine = effect.message.id.sender == self.process
        return [] if mine and effect.message.id.seq % 2 else [effect]


class SkipsSome(Wrapper):
    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        mine = effect.message.id.sender == self.process
        return [] if self.chosen and not mine and effect.message.id.seq % 2 else [effect]


class SwapsPairs(Wrapper):
    """Holds every other delivery back until the next one is out."""

    def __init__(self, inner: Machine, process: ProcessId, topology: Topology) -> None:
        super().__init__(inner, process, topology)
        self.held: list[Effect] = []

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        if not self.chosen:
            return [effect]
        if not self.held:
            self.held = [effect]
            return []
        held, self.held = self.held, []
        return [effect, *held]


class Dawdles(Wrapper):
    """Delivers in the right order, long after the bound."""

    def __init__(self, inner: Machine, process: ProcessId, topology: Topology) -> None:
        super().__init__(inner, process, topology)
        self.late: dict[str, Effect] = {}

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        name = f"late {len(self.late)}"
        self.late[name] = effect
        return [SetTimer(name, now + LATE_BY)]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Timer) and isinstance(event.name, str) and event.name in self.late:
            return [self.late[event.name]]
        return super().handle(event, now)


def wrapped(build: Build, kind: Callable[[Machine, ProcessId, Topology], Machine]) -> Build:
    def build_wrapped(process: ProcessId, topology: Topology, options: Options) -> Machine:
        return kind(build(process, topology, options), process, topology)

    return build_wrapped


BREAKS: dict[str, tuple[type[Wrapper], str]] = {
    "validity": (KeepsItsOwn, "a process does not deliver some of its own messages"),
    "agreement": (SkipsSome, "one process skips messages"),
    "integrity": (DeliversTwice, "every message is delivered twice"),
    "fifo": (SwapsPairs, "one process swaps pairs of messages"),
    "causal": (SwapsPairs, "one process swaps pairs of messages"),
    "total": (SwapsPairs, "one process swaps pairs of messages"),
    "real-time": (Dawdles, "deliveries are late"),
    "local-time": (Dawdles, "deliveries are late"),
}

for _name in (*NAMED, PAXOS):
    for _promise in lookup(_name).promises:
        _kind, _differs = BREAKS[_promise.removeprefix("uniform-")]
        mutant(
            _name,
            f"against-{_promise}",
            _differs,
            breaks=_promise,
            seeds=30,
            build=wrapped(lookup(_name).build, _kind),
        )
