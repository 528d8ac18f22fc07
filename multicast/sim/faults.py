"""What can go wrong, and when. A fault is a value: a scenario lists it, a shrinker drops it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shmcast.multicast.protocols.core import Effect, GroupId, ProcessId, Send

FOREVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Crash:
    """At `at`; or, with `effects`, inside the first step from `at` on, after that many effects.

    Each receiver of a Send counts as one effect.
    """

    process: ProcessId
    at: int
    effects: int | None = None


@dataclass(frozen=True, slots=True)
class Recover:
    """A crashed process comes back as a new incarnation, without its memory."""

    process: ProcessId
    at: int


@dataclass(frozen=True, slots=True)
class Partition:
    """No message from `side` to the others passes while it lasts, nor back unless `one_way`.

    Reliable links hold messages until the cut heals; with `drop` they are lost.
    """

    side: frozenset[ProcessId]
    at: int
    until: int
    one_way: bool = False
    drop: bool = False

    def cuts(self, src: ProcessId, dst: ProcessId) -> bool:
        if src in self.side:
            return dst not in self.side
        return dst in self.side and not self.one_way


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Links that lose, duplicate or reorder for a while: only where the model permits it."""

    at: int
    until: int
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    jitter: int = 1000  # how much later, at most, a duplicate or an overtaken message arrives
    src: ProcessId | None = None
    dst: ProcessId | None = None

    def touches(self, src: ProcessId, dst: ProcessId, now: int) -> bool:
        return (
            self.at <= now < self.until
            and (self.src is None or self.src == src)
            and (self.dst is None or self.dst == dst)
        )


@dataclass(frozen=True, slots=True)
class SendOmission:
    """What `process` sends is lost before it reaches a link; it notices nothing."""

    process: ProcessId
    at: int
    until: int = FOREVER
    to: frozenset[ProcessId] | None = None


@dataclass(frozen=True, slots=True)
class ReceiveOmission:
    """What arrives at `process` is never handed to it."""

    process: ProcessId
    at: int
    until: int = FOREVER
    sender: ProcessId | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """Every step of `process` takes `step_ticks`. A fault only where steps have a bound."""

    process: ProcessId
    at: int
    until: int
    step_ticks: int
    faulty: bool = False


@dataclass(frozen=True, slots=True)
class ClockFault:
    """The clock jumps, or runs at another rate; `faulty`: outside what the model allows."""

    process: ProcessId
    at: int
    jump: int = 0
    drift_ppm: int | None = None
    faulty: bool = True


@dataclass(frozen=True, slots=True)
class WrongNomination:
    """Leader selection errs: it names `leader` for `group`, until it corrects itself."""

    group: GroupId
    leader: ProcessId
    at: int
    until: int
    to: frozenset[ProcessId] | None = None  # who hears it; None: everybody


@dataclass(frozen=True, slots=True)
class WrongSuspicion:
    """The failure detector errs about a living process."""

    process: ProcessId
    at: int
    until: int
    to: frozenset[ProcessId] | None = None


Fault: TypeAlias = (
    Crash
    | Recover
    | Partition
    | Disturbance
    | SendOmission
    | ReceiveOmission
    | Slow
    | ClockFault
    | WrongNomination
    | WrongSuspicion
)


def prefix(effects: list[Effect], count: int) -> list[Effect]:
    """The first `count` effects, each receiver of a Send counting as one."""
    kept: list[Effect] = []
    for effect in effects:
        if count <= 0:
            break
        if isinstance(effect, Send):
            kept.append(Send(effect.message, effect.to[:count]))
            count -= len(effect.to)
        else:
            kept.append(effect)
            count -= 1
    return kept
