"""Layers of the broadcast stack with one mistake each."""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.protocols.atomic_from_consensus import AtomicFromConsensus, Batch
from shmcast.multicast.protocols.broadcasts import BY_NAME, NAMED, builder
from shmcast.multicast.protocols.causal_blocking import CausalBlocking
from shmcast.multicast.protocols.causal_nonblocking import CausalNonblocking
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Effect,
    Event,
    LocalTime,
    Machine,
    Message,
    Multicast,
    ProcessId,
    Receive,
    Send,
    SetTimer,
    Timer,
)
from shmcast.multicast.protocols.diffusion import Copy, Diffusion
from shmcast.multicast.protocols.fifo import Fifo
from shmcast.multicast.protocols.timed_diffusion import TimedCopy, TimedDiffusion
from shmcast.multicast.protocols.timed_total import TimedTotal
from shmcast.multicast.sim.mutants import mutant


class RelaysNothing(Diffusion):
    def broadcast(self, m: Message) -> list[Effect]:
        return [Send(Copy(m), (*self.neighbours, self.process))]

    def on_receive(self, m: Message) -> list[Effect]:
        return [e for e in super().on_receive(m) if isinstance(e, Deliver)]


class ForgetsWhatItSaw(Diffusion):
    def on_receive(self, m: Message) -> list[Effect]:
        first = m.id not in self.seen
        self.seen.add(m.id)
        return [Send(Copy(m), self.neighbours), Deliver(m)] if first else [Deliver(m)]


class DeliversThenRelays(Diffusion):
    """Relays in a step of its own, a while after it delivered."""

    def __init__(self, process: ProcessId, neighbours: tuple[ProcessId, ...]) -> None:
        super().__init__(process, neighbours)
        self.waiting: list[Effect] = []

    def postponed(self, m: Message) -> bool:
        return True

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Timer):
            effects, self.waiting = self.waiting, []
            return effects
        effects = super().handle(event, now)
        relays = [
            e
            for e in effects
            if isinstance(event, Receive)
            and isinstance(e, Send)
            and isinstance(e.message, Copy)
            and self.postponed(e.message.m)
        ]
        if not relays:
            return effects
        self.waiting += relays
        return [*(e for e in effects if e not in relays), SetTimer("relay", now + 3000)]


class RelaysLater(DeliversThenRelays):
    """The same for messages of others only: its own overtake them."""

    def postponed(self, m: Message) -> bool:
        return m.id.sender != self.process


class OneHopOnly(TimedDiffusion):
    def in_time(self, copy: TimedCopy, now: LocalTime) -> bool:
        return now - copy.ts <= min(copy.k, 1) * self.hop


class SkipsGaps(Fifo):
    def on_deliver(self, m: Message) -> list[Effect]:
        return [Deliver(m)]


class DoesNotWait(CausalBlocking):
    def first_ready(self) -> int | None:
        return 0 if self.waiting else None


class TakesNothingAlong(CausalNonblocking):
    def broadcast(self, m: Message) -> list[Effect]:
        self.recent = []
        return super().broadcast(m)


class DeliversAtOnce(TimedTotal):
    def on_deliver(self, m: Message, ts: LocalTime, now: LocalTime) -> list[Effect]:
        return [Deliver(m)]


class ReleasesLate(TimedTotal):
    def on_timer(self, now: LocalTime) -> list[Effect]:
        halts, self.halts = self.halts, False
        effects = super().on_timer(now)
        self.halts = halts
        return effects


class TooShort(TimedTotal):
    """Δ is smaller than what the broadcast below needs."""

    def __init__(self, below: str, delta: int) -> None:
        super().__init__(below, delta // 3)


class OwnOrder(AtomicFromConsensus):
    """Agrees on the batch, and delivers it in the order of arrival."""

    def on_decide(self, k: int, batch: Batch) -> list[Effect]:
        arrived = [m for mid, m in self.pending.items() if m in batch]
        rest = [m for m in batch if m not in arrived]
        return super().on_decide(k, (*arrived, *rest))


class AsTheyCome(AtomicFromConsensus):
    """Delivers what is decided when it hears of it, whatever its number."""

    def on_decide(self, k: int, batch: Batch) -> list[Effect]:
        self.k = k - 1
        return super().on_decide(k, batch)


class NoConsensus(AtomicFromConsensus):
    def on_deliver(self, m: Message) -> list[Effect]:
        return [Deliver(m)]


class SendsItBare(CausalBlocking):
    """Tags with zeros: nothing seems to depend on anything."""

    def broadcast(self, m: Message) -> list[Effect]:
        delivered, self.delivered = self.delivered, [0] * len(self.delivered)
        effects = super().broadcast(m)
        self.delivered = delivered
        assert isinstance(effects[0], Ask) and isinstance(effects[0].event, Multicast)
        return effects


Change = Callable[[Machine], Machine]


def _mutant(
    protocol: str, name: str, differs: str, layer: str, change: Change, *, breaks: str, seeds: int
) -> None:
    layers, setting = NAMED[protocol]
    build = builder(layers, BY_NAME[setting], {layer: change})
    mutant(protocol, name, differs, breaks=breaks, seeds=seeds, build=build)


def _diffusion(kind: type[Diffusion]) -> Change:
    def change(machine: Machine) -> Machine:
        assert isinstance(machine, Diffusion)
        return kind(machine.process, machine.neighbours)

    return change


def _one_hop(machine: Machine) -> Machine:
    assert isinstance(machine, TimedDiffusion)
    return OneHopOnly(machine.process, machine.neighbours, machine.synchrony)


def _blocking(kind: type[CausalBlocking]) -> Change:
    def change(machine: Machine) -> Machine:
        assert isinstance(machine, CausalBlocking)
        return kind(machine.below, tuple(machine.place))

    return change


def _timed_total(kind: Callable[[str, int], TimedTotal]) -> Change:
    def change(machine: Machine) -> Machine:
        assert isinstance(machine, TimedTotal)
        return kind(machine.below, machine.delta)

    return change


def _from_consensus(kind: type[AtomicFromConsensus]) -> Change:
    def change(machine: Machine) -> Machine:
        assert isinstance(machine, AtomicFromConsensus)
        return kind(machine.below, machine.consensus)

    return change


_mutant(
    "reliable",
    "delivers-then-relays",
    "Fig. 11 the other way round: a crash between leaves a message with one process",
    "diffusion",
    _diffusion(DeliversThenRelays),
    breaks="uniform-agreement",
    seeds=60,
)
_mutant(
    "reliable-omission",
    "relays-nothing",
    "Fig. 11 without the relay: a faulty sender reaches some",
    "diffusion",
    _diffusion(RelaysNothing),
    breaks="agreement",
    seeds=30,
)
_mutant(
    "reliable",
    "forgets-what-it-saw",
    "Fig. 11 does not ask whether this is the first copy",
    "diffusion",
    _diffusion(ForgetsWhatItSaw),
    breaks="uniform-integrity",
    seeds=5,
)
_mutant(
    "causal-by-links",
    "relays-later",
    "Theorem 9 without the indivisible step: own messages overtake relayed ones",
    "diffusion",
    _diffusion(RelaysLater),
    breaks="uniform-causal",
    seeds=30,
)
_mutant(
    "timed-reliable",
    "one-hop-only",
    "Fig. 12 allows one link's time whatever the number of links",
    "timed-diffusion",
    _one_hop,
    breaks="agreement",
    seeds=60,
)
_mutant(
    "fifo-broadcast",
    "skips-gaps",
    "Fig. 5 delivers what arrives",
    "fifo",
    lambda machine: SkipsGaps("diffusion"),
    breaks="uniform-fifo",
    seeds=10,
)
_mutant(
    "causal-broadcast",
    "does-not-wait",
    "Fig. 7 does not compare vectors",
    "causal-blocking",
    _blocking(DoesNotWait),
    breaks="uniform-causal",
    seeds=30,
)
_mutant(
    "causal-broadcast",
    "sends-it-bare",
    "Fig. 7 sends no vector",
    "causal-blocking",
    _blocking(SendsItBare),
    breaks="uniform-causal",
    seeds=30,
)
_mutant(
    "causal-broadcast-nonblocking",
    "takes-nothing-along",
    "Fig. 6 sends the message alone",
    "causal-nonblocking",
    lambda machine: TakesNothingAlong("fifo"),
    breaks="uniform-causal",
    seeds=30,
)
_mutant(
    "timed-atomic",
    "delivers-at-once",
    "Fig. 4 does not wait for ts + Δ",
    "timed-total",
    _timed_total(DeliversAtOnce),
    breaks="uniform-total",
    seeds=10,
)
_mutant(
    "timed-atomic",
    "too-short",
    "Fig. 4 with a Δ that the broadcast below does not keep",
    "timed-total",
    _timed_total(TooShort),
    breaks="uniform-agreement",
    seeds=30,
)
_mutant(
    "timed-fifo-atomic",
    "releases-late",
    "Fig. 4 delivers after ts + Δ where its process was slow or its clock jumped",
    "timed-total",
    _timed_total(ReleasesLate),
    breaks="uniform-local-time",
    seeds=30,
)
_mutant(
    "atomic-broadcast",
    "own-order",
    "Fig. 14 delivers a batch in no agreed order",
    "atomic-from-consensus",
    _from_consensus(OwnOrder),
    breaks="uniform-total",
    seeds=10,
)
_mutant(
    "atomic-broadcast",
    "as-they-come",
    "Fig. 14 takes decisions in the order of their arrival",
    "atomic-from-consensus",
    _from_consensus(AsTheyCome),
    breaks="uniform-total",
    seeds=300,
)
_mutant(
    "atomic-broadcast",
    "no-consensus",
    "Fig. 14 delivers what reliable broadcast delivers",
    "atomic-from-consensus",
    _from_consensus(NoConsensus),
    breaks="uniform-total",
    seeds=10,
)
