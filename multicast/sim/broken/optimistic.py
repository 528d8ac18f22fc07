"""Optimistic Atomic Multicast and reconfiguration with one mistake each."""

from __future__ import annotations

from typing import cast

from shmcast.multicast.protocols.barrier_delivery import Delivery
from shmcast.multicast.protocols.barrier_entries import Final, Initial, Joined, Needs
from shmcast.multicast.protocols.barrier_specs import build_with
from shmcast.multicast.protocols.barrier_stamping import Tail
from shmcast.multicast.protocols.baseline import Baseline
from shmcast.multicast.protocols.core import (
    BOTTOM,
    OPTIMISTIC,
    Deliver,
    Effect,
    GroupId,
    LocalTime,
    ProcessId,
    Timestamp,
)
from shmcast.multicast.protocols.fr_mcast import Carry, FrMcast
from shmcast.multicast.protocols.optimistic import Optimistic
from shmcast.multicast.sim.broken.baseline import (
    BROKEN,
    REQUESTS,
    BreaksItsBarriers,
    Broken,
    DeliversWithoutBarriers,
    break_all,
)
from shmcast.multicast.sim.mutants import mutant


def optimistic(kind: type[Baseline]) -> type[Baseline]:
    """The same mistake in the other protocol."""
    return cast("type[Baseline]", type(kind.__name__, (kind, Optimistic), {}))


class ConservativeIsOptimistic(Optimistic):
    """Delivers for good in the order of initial timestamps, after the wait window."""

    def opt_deliver(self, item: Initial) -> list[Effect]:
        found = super().opt_deliver(item)
        return [*found, *(Deliver(item.m, item.ts) for _ in found)]

    def delivered(self, final: Final) -> list[Effect]:
        return []


class AsksOnce(Optimistic):
    """A changed timestamp is not asked for again."""

    def after_stamping(self, final: Final) -> list[Effect]:
        return []

    def needs(self, final: Final) -> Needs:
        return ()


class OptSkipsSome(Optimistic):
    def opt_deliver(self, item: Initial) -> list[Effect]:
        found = super().opt_deliver(item)
        return found if item.m.id.seq % 3 else []


class OptTwice(Optimistic):
    def opt_deliver(self, item: Initial) -> list[Effect]:
        return [e for found in super().opt_deliver(item) for e in (found, found)]


class OptEverywhere(Optimistic):
    """The source group opt-delivers what is not for it."""

    def opt_deliver(self, item: Initial) -> list[Effect]:
        if self.state.g in item.m.dest:
            return super().opt_deliver(item)
        return [Deliver(item.m, item.ts, OPTIMISTIC)]


class NobodyRelays(FrMcast):
    def pass_on(self, carry: Carry, relay: ProcessId) -> list[Effect]:
        return []


class OrderOfArrival(FrMcast):
    """fr-delivers what has just come, whatever is missing before it."""

    def fr_deliver(self, origin: ProcessId) -> list[Effect]:
        s = self.state
        fresh = [place for place in s.early[origin] if place not in self.done(origin)]
        self.done(origin).update(fresh)
        return [Deliver(s.early[origin][place]) for place in fresh]

    def done(self, origin: ProcessId) -> set[int]:
        known: dict[ProcessId, set[int]] = self.__dict__.setdefault("known", {})
        return known.setdefault(origin, set())


# Reconfiguration ---------------------------------------------------------------------------------


class MulticastsAtOnce(Optimistic):
    """Does not wait for m_rp."""

    def may_address(self, h: GroupId, tail: Tail) -> bool:
        self.state.joined.setdefault(h, (0, BOTTOM))
        member = tail.membership.get(h)
        return member is not None and member.inside


class NoNewBarriers(Delivery):
    def join(self, g: GroupId, epoch: int, ts: Timestamp) -> None:
        """h does not wait for barriers of its new sender."""


class DoesNotWaitForNewSenders(DeliversWithoutBarriers):
    delivery = NoNewBarriers


class FloorlessTail(Tail):
    __slots__ = ()

    def stamped(self, initial: Initial, floor: Timestamp) -> Final:
        return Tail.stamped(self, initial, BOTTOM)


class IgnoresTimeOfJoining(BreaksItsBarriers):
    """Messages to h need not be above m_rp.ts."""

    tail = FloorlessTail


class TellsTheNewSenderOnly(Optimistic):
    """The other senders of h do not learn of the new one."""

    def on_joined(self, h: GroupId, joined: Joined, now: LocalTime) -> list[Effect]:
        if self.state.g in (h, joined.g):
            return super().on_joined(h, joined, now)
        return []


class AsksOnlyForWhatComes(Optimistic):
    """Messages that are decided already get no barrier from the new sender."""

    def on_joined(self, h: GroupId, joined: Joined, now: LocalTime) -> list[Effect]:
        self.state.last_to.pop(h, None)
        return super().on_joined(h, joined, now)


SPARSE = {"sparse": True}
OPT: tuple[Broken, ...] = (
    (
        "opt-skips-some",
        "some messages are not opt-delivered",
        "optimistic-validity",
        10,
        OptSkipsSome,
    ),
    ("opt-twice", "opt-delivers twice", "optimistic-integrity", 5, OptTwice),
    ("opt-everywhere", "the source group opt-delivers", "optimistic-integrity", 10, OptEverywhere),
    (
        "conservative-is-optimistic",
        "delivers in the optimistic order",
        "uniform-global-total",
        30,
        ConservativeIsOptimistic,
    ),
    ("asks-once", "no request for a changed timestamp", "termination", 300, AsksOnce),
)
JOINS: tuple[Broken, ...] = (
    ("multicasts-at-once", "g does not wait for m_rp", "timestamp-order", 100, MulticastsAtOnce),
    (
        "no-new-barriers",
        "h does not wait for its new sender",
        "timestamp-order",
        60,
        optimistic(DoesNotWaitForNewSenders),
    ),
    (
        "no-floor",
        "messages may be below m_rp.ts",
        "timestamp-order",
        100,
        optimistic(IgnoresTimeOfJoining),
    ),
    ("tells-newcomer-only", "no m_n", "termination", 60, TellsTheNewSenderOnly),
    ("asks-for-what-comes", "no look at the history", "termination", 100, AsksOnlyForWhatComes),
)
INHERITED: tuple[Broken, ...] = tuple(
    (name, differs, breaks, seeds, optimistic(kind))
    for name, differs, breaks, seeds, kind in (*BROKEN, *REQUESTS)
)

for protocol, options in (("optimistic", {}), ("optimistic-sparse", SPARSE)):
    break_all(protocol, options, (*INHERITED, *OPT))
    mutant(
        protocol,
        "nobody-relays",
        "fr-mcast without agreement",
        breaks="optimistic-agreement",
        seeds=150,
        build=build_with(Optimistic, options, fr=NobodyRelays),
    )
    mutant(
        protocol,
        "order-of-arrival",
        "fr-mcast without FIFO",
        breaks="optimistic-fifo",
        seeds=60,
        build=build_with(Optimistic, options, fr=OrderOfArrival),
    )
break_all("optimistic-sparse", SPARSE, JOINS)
