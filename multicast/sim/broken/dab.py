"""Dynamic Atomic Broadcast with one mistake each: in a rule of the paper, or in the reading of it
that our corrections replace."""

from __future__ import annotations

from shmcast.multicast.protocols.core import (
    Effect,
    LocalTime,
    Message,
    ProcessId,
    Record,
)
from shmcast.multicast.protocols.dab import Dab, State
from shmcast.multicast.protocols.dab_consensus import FloodMin
from shmcast.multicast.protocols.dab_first_round import FirstRound
from shmcast.multicast.protocols.dab_manager import Manager, Output
from shmcast.multicast.protocols.dab_messages import Life
from shmcast.multicast.protocols.dab_ordering import Ordering, Peer
from shmcast.multicast.protocols.dab_protocol import builder
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.sim.broken.wrappers import Dawdles, DeliversTwice, wrapped
from shmcast.multicast.sim.last_words import last_words
from shmcast.multicast.sim.late_joiner import late_joiner
from shmcast.multicast.sim.mutants import mutant


class _OnOneMark(Ordering):
    """Delivers a slot on its own mark."""

    def may_pass(self, peer: Peer) -> bool:
        return peer.last >= self.slot or super().may_pass(peer)


class DeliversOnOneMark(Dab):
    ordering_kind = _OnOneMark


class _StaysStuck(Ordering):
    """Asks for membership when the slot changes only, as Fig. 5 does."""

    def __init__(self, processes: tuple[ProcessId, ...], first_slot: int) -> None:
        super().__init__(processes, first_slot)
        self.asked_at = -1
        self.members: list[Peer | None] = []

    def member_at(self, process: ProcessId) -> Peer | None:
        if self.asked_at != self.slot:
            self.asked_at = self.slot
            self.members = [super(_StaysStuck, self).member_at(p) for p in self.processes]
        return self.members[self.processes.index(process)]


class StaysStuck(Dab):
    ordering_kind = _StaysStuck


class _HighestFirst(FirstRound):
    def lowest(self, a: int, b: int) -> int:
        return max(a, b)


class _HighestFlood(FloodMin):
    def lowest(self, values: list[int]) -> int:
        return max(values)


class _HighestManager(Manager):
    first_round = _HighestFirst
    flood_min = _HighestFlood


class TakesTheMaximum(Dab):
    manager_kind = _HighestManager


class _HastyManager(Manager):
    """Counts Δ + Θ from when an announcement is handed over: Δ may be left when it is flushed."""

    def flushed(self, now: LocalTime) -> None:
        for agreement in self.running.values():
            agreement.consensus.outlive = self.timing.delta
        super().flushed(now)


class DecidesTooSoon(Dab):
    manager_kind = _HastyManager


class _OwnValue(Manager):
    """Decides alone, at once."""

    def fail(self, life: Life, value: int, now: LocalTime) -> list[Output]:
        return [*super().leave(life[0], now), self._decide(life, value)]


class DecidesAlone(Dab):
    manager_kind = _OwnValue


class _WaitsForTheDead(Manager):
    """Tells no agreement whom to skip."""

    def leave(self, k: ProcessId, now: LocalTime) -> list[Output]:
        self.active.pop(k, None)
        return []


class WaitsForTheDead(Dab):
    manager_kind = _WaitsForTheDead


class _HelpsNobody(Manager):
    """Stays out of an agreement without a word."""

    def help(self, life: Life, value: int) -> list[Output]:
        super().help(life, value)
        return []


class HelpsNobody(Dab):
    manager_kind = _HelpsNobody


class NoIdleFlush(Dab):
    """A member with nothing to say stays silent."""

    def end_slot(self, now: LocalTime) -> list[Effect]:
        idle = self.state is State.MEMBER and not self.data and not self.control
        effects = super().end_slot(now)
        return effects[1:] if idle else effects


class NeverReady(Dab):
    """Gets no answer to its join."""

    def end_slot(self, now: LocalTime) -> list[Effect]:
        effects = super().end_slot(now)
        late = self.incarnation > 0
        return [e for e in effects if not (late and isinstance(e, Record) and e.kind == "join-ok")]


class NeverGone(Dab):
    def leave_ok(self) -> list[Effect]:
        return []


class MixesItsOwn(Dab):
    """Sends a slot's messages in the wrong order."""

    def flush(self, now: LocalTime, *, mark: bool) -> Effect:
        if mark:
            self.data.sort(key=lambda m: -m.id.seq)
        return super().flush(now, mark=mark)


class LosesSome(Dab):
    """Accepts a message and forgets it."""

    def accept(self, m: Message) -> list[Effect]:
        return [] if m.id.seq % 3 == 0 else super().accept(m)


class DeliversTheOldLife(Dab):
    """After a rejoin, delivers once more what its last life had delivered."""

    memory: tuple[Effect, ...] = ()

    def deliver(self) -> list[Effect]:
        effects = super().deliver()
        if self.delivers and self.incarnation > 0 and self.memory:
            effects = [*self.memory, *effects]
            self.memory = ()
        elif effects and self.incarnation == 0:
            self.memory = tuple(effects)
        return effects


MUTANTS: tuple[tuple[str, str, str, int, type[Dab]], ...] = (
    (
        "delivers-on-one-mark",
        "§6.1: does not wait for the mark of the slot after",
        "contiguous-slices",
        100,
        DeliversOnOneMark,
    ),
    (
        "takes-the-maximum",
        "§7: agrees on the largest value",
        "contiguous-slices",
        100,
        TakesTheMaximum,
    ),
    ("decides-alone", "§7: no agreement at all", "contiguous-slices", 100, DecidesAlone),
    (
        "stays-stuck",
        "Fig. 5: a decision about the slot under the cursor is not seen",
        "member-delivery",
        30,
        StaysStuck,
    ),
    (
        "waits-for-the-dead",
        "Fig. 7: no skip to running agreements",
        "member-delivery",
        200,
        WaitsForTheDead,
    ),
    ("no-idle-flush", "§6.1: an idle member is silent", "member-delivery", 60, NoIdleFlush),
    ("loses-some", "accepts messages and forgets them", "member-delivery", 10, LosesSome),
    ("never-ready", "no join-OK", "join-liveness", 10, NeverReady),
    ("never-gone", "no leave-OK", "leave-liveness", 10, NeverGone),
    ("mixes-its-own", "a slot's messages in the wrong order", "sender-order", 10, MixesItsOwn),
    (
        "delivers-the-old-life",
        "a new life repeats what the last one delivered",
        "incarnation-order",
        100,
        DeliversTheOldLife,
    ),
)

for _name, _differs, _breaks, _seeds, _kind in MUTANTS:
    mutant("dab", _name, _differs, breaks=_breaks, seeds=_seeds, build=builder(_kind))

mutant(
    "dab",
    "decides-too-soon",
    "§7: does not outlive the flush that carries its announcement",
    breaks="contiguous-slices",
    seeds=60,
    build=builder(DecidesTooSoon),
    scenarios=last_words,
)
mutant(
    "dab",
    "helps-nobody",
    "§7: who takes no part in an agreement keeps quiet",
    breaks="member-delivery",
    seeds=1,
    build=builder(HelpsNobody),
    scenarios=late_joiner,
)
mutant(
    "dab",
    "delivers-twice",
    "every message is delivered twice",
    breaks="uniform-integrity",
    seeds=5,
    build=wrapped(lookup("dab").build, DeliversTwice),
)
mutant(
    "dab",
    "dawdles",
    "deliveries are late",
    breaks="real-time",
    seeds=5,
    build=wrapped(lookup("dab").build, Dawdles),
)
