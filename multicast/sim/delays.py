"""How long a message travels. In models of real networks one tick is a microsecond."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from random import Random
from typing import Protocol

from shmcast.multicast.protocols.core import ProcessId, Wire
from shmcast.multicast.protocols.topology import Topology


class Delay(Protocol):
    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        """Ticks from `src` to `dst`. Never asked for a message to oneself: that takes none."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Every message takes exactly δ."""

    delta: int = 1000

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        return self.delta


@dataclass(frozen=True, slots=True)
class Uniform:
    low: int
    high: int

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        return self.low + int(rng.random() * (self.high - self.low + 1))


@dataclass(frozen=True, slots=True)
class HeavyTailed:
    """Log-normal: most near the median, a few many times later."""

    median: int
    sigma: float = 1.0

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        return max(1, int(self.median * exp(rng.gauss(0.0, self.sigma))))


@dataclass(frozen=True, slots=True)
class SlowLinks:
    """Some links are many times slower than the rest: news of one leader comes after its
    successor's."""

    base: Delay
    links: frozenset[tuple[ProcessId, ProcessId]]
    factor: int

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        ticks = self.base.sample(src, dst, message, rng)
        return ticks * self.factor if (src, dst) in self.links else ticks


@dataclass(frozen=True, slots=True)
class Sites:
    """Processes at sites, a matrix of one-way delays between sites, and relative jitter."""

    site_of: tuple[int, ...]  # by process
    one_way: tuple[tuple[int, ...], ...]
    jitter: float = 0.0

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        base = self.one_way[self.site_of[src]][self.site_of[dst]]
        return base + int(base * self.jitter * rng.random()) if self.jitter else base


# Paper 000 §VI: Oregon (R1), North Virginia (R2), England (R3); round trips of 60 ms (R1-R2),
# 75 ms (R2-R3) and 130 ms (R1-R3). Inside a site we use half of its LAN's 0.1 ms.
PAPER_000_WAN = ((50, 30_000, 65_000), (30_000, 50, 37_500), (65_000, 37_500, 50))
PAPER_000_LAN = Constant(50)


def paper_000_wan(topology: Topology, jitter: float = 0.0) -> Sites:
    """ "Each group has a replica in each data centre"; clients are spread evenly."""
    site_of = [0] * (max(topology.processes) + 1)
    for members in (*topology.groups, topology.clients):
        for place, process in enumerate(members):
            site_of[process] = place % 3
    return Sites(tuple(site_of), PAPER_000_WAN, jitter)


@dataclass(frozen=True, slots=True)
class Rule:
    """Overrides the delay of the messages that match. None matches everything."""

    delay: int
    src: ProcessId | None = None
    dst: ProcessId | None = None
    label: str | None = None
    about: tuple[int, int] | None = None

    def matches(self, src: ProcessId, dst: ProcessId, message: Wire) -> bool:
        return (
            (self.src is None or self.src == src)
            and (self.dst is None or self.dst == dst)
            and (self.label is None or self.label == message.label)
            and (self.about is None or self.about in message.about())
        )


@dataclass(frozen=True, slots=True)
class Scripted:
    """The first rule that matches decides; `base` decides the rest."""

    base: Delay
    rules: tuple[Rule, ...]

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        for rule in self.rules:
            if rule.matches(src, dst, message):
                return rule.delay
        return self.base.sample(src, dst, message, rng)
