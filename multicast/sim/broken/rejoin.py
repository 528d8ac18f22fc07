"""Lives after the first that do not keep up, of every protocol that promises that they do."""

from __future__ import annotations

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    LocalTime,
    Machine,
    ProcessId,
    Restart,
)
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.broken.wrappers import Wrapper, wrapped
from shmcast.multicast.sim.mutants import mutant

REJOINING = ("wbcast", "wbcast-acks")


class _SecondLife(Wrapper):
    """A process that comes back is one that knows that it does."""

    def __init__(self, inner: Machine, process: ProcessId, topology: Topology) -> None:
        super().__init__(inner, process, topology)
        self.is_back = False
        self.count = 0

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        self.is_back |= isinstance(event, Restart)
        return super().handle(event, now)


class DeliversHalf(_SecondLife):
    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        self.count += self.is_back
        return [] if self.count and self.count % 2 == 0 else [effect]


class DeliversNothing(_SecondLife):
    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        return [] if self.is_back else [effect]


class StopsEarly(_SecondLife):
    """Delivers one message and no more."""

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        self.count += self.is_back
        return [] if self.count > 1 else [effect]


MUTANTS: tuple[tuple[str, str, str, int, type[Wrapper]], ...] = (
    (
        "half-a-second-life",
        "a life after the first delivers every other message",
        "rejoin-contiguity",
        20,
        DeliversHalf,
    ),
    (
        "silent-second-life",
        "a life after the first delivers nothing",
        "rejoin-liveness",
        20,
        DeliversNothing,
    ),
    (
        "short-second-life",
        "a life after the first delivers one message",
        "rejoin-liveness",
        20,
        StopsEarly,
    ),
)

for _protocol in REJOINING:
    for _name, _differs, _breaks, _seeds, _kind in MUTANTS:
        mutant(
            _protocol,
            _name,
            _differs,
            breaks=_breaks,
            seeds=_seeds,
            build=wrapped(lookup(_protocol).build, _kind),
        )
