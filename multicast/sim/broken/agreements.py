"""Consensus and terminating reliable broadcast with one mistake each."""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.protocols.agreement_problems import (
    DELTA,
    T0,
    timed_atomic_modules,
    trb_modules,
)
from shmcast.multicast.protocols.consensus import (
    Ack,
    Consensus,
    Decide,
    Estimate,
    Instance,
    Progress,
)
from shmcast.multicast.protocols.consensus_from_atomic import ConsensusFromAtomic
from shmcast.multicast.protocols.consensus_from_trb import ConsensusFromTrb
from shmcast.multicast.protocols.core import (
    Effect,
    Event,
    LocalTime,
    Machine,
    Message,
    ProcessId,
    Send,
    SetTimer,
    Start,
)
from shmcast.multicast.protocols.registry import Build, Options, lookup
from shmcast.multicast.protocols.stack import Module, Stack
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.trb_from_consensus import TrbFromConsensus
from shmcast.multicast.sim.mutants import mutant

INVENTED = "'nobody proposed this'"


class AdoptsNothing(Consensus):
    """Phase 3 says yes and keeps its own estimate."""

    def answer(self, instance: Instance, s: Progress) -> list[Effect]:
        if s.r in s.proposals:
            s.proposals[s.r] = s.estimate
        return super().answer(instance, s)


class OneYesIsEnough(Consensus):
    """Phase 4 does not wait for a majority."""

    def on_ack(self, sender: ProcessId, a: Ack) -> list[Effect]:
        if not a.yes:
            return []
        return [Send(Decide(a.instance, self.instances[a.instance].proposed[a.r]), (self.process,))]


class TellsNobody(Consensus):
    """The coordinator decides and keeps it to itself."""

    def on_decide(self, d: Decide) -> list[Effect]:
        return [e for e in super().on_decide(d) if not isinstance(e, Send)]


class NeverSuspects(Consensus):
    """Phase 3 waits for a coordinator that crashed."""

    def on_suspect(self, process: ProcessId) -> list[Effect]:
        return []


class Invents(Consensus):
    def on_propose(self, instance: Instance, value: object) -> list[Effect]:
        effects = super().on_propose(instance, value)
        self.instances[instance].estimate = INVENTED
        return [
            Send(Estimate(e.message.instance, e.message.r, INVENTED, e.message.ts), e.to)
            if isinstance(e, Send) and isinstance(e.message, Estimate)
            else e
            for e in effects
        ]


class DecidesItsOwn(ConsensusFromAtomic):
    """Fig. 13 decides its own value as soon as it is delivered, not the first."""

    def on_deliver(self, m: Message) -> list[Effect]:
        return super().on_deliver(m) if m.id.sender == self.process else []


class NeedsThree(ConsensusFromAtomic):
    """Fig. 13 waits for a third value, which need not come."""

    seen = 0

    def on_deliver(self, m: Message) -> list[Effect]:
        self.seen += 1
        return super().on_deliver(m) if self.seen == 3 else []


class InventsAtomic(ConsensusFromAtomic):
    def on_deliver(self, m: Message) -> list[Effect]:
        return super().on_deliver(Message(m.id, m.dest, INVENTED))


class OwnFirst(ConsensusFromTrb):
    """Fig. 15 starts the search at itself."""

    def __init__(self, members: tuple[ProcessId, ...], trb: str, me: ProcessId) -> None:
        place = members.index(me)
        super().__init__((*members[place:], *members[:place]), trb)


class InventsTrb(ConsensusFromTrb):
    def on_deliver(self, s: ProcessId, value: object) -> list[Effect]:
        return super().on_deliver(s, None if value is None else INVENTED)


class ProposesEarly(TrbFromConsensus):
    """Fig. 16 proposes before δ has passed."""

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Start):
            return [SetTimer("t0", self.t0), SetTimer("deadline", self.t0 + self.delta // 10)]
        return super().handle(event, now)


class NoConsensus(TrbFromConsensus):
    """Fig. 16 delivers what it received."""

    def at_deadline(self) -> list[Effect]:
        return [e for s in self.members for e in self.on_decide(s, self.received.get(s))]


class ForgetsOne(TrbFromConsensus):
    def at_deadline(self) -> list[Effect]:
        return super().at_deadline()[:-1] if self.process == self.members[0] else []


class InventsForTheSilent(TrbFromConsensus):
    def on_decide(self, s: ProcessId, value: object) -> list[Effect]:
        return super().on_decide(s, INVENTED if value is None else value)


def consensus_is(kind: type[Consensus]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        return kind(process, topology.groups[0])

    return build


def from_atomic_is(kind: type[ConsensusFromAtomic]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        top = Module("propose", kind(process, "timed-total"), ("timed-total",))
        return Stack([top, *timed_atomic_modules(process, topology)])

    return build


def from_trb_is(make: Callable[[ProcessId, tuple[ProcessId, ...]], ConsensusFromTrb]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        top = Module("propose", make(process, topology.groups[0]), ("trb",))
        return Stack([top, *trb_modules(process, topology)])

    return build


def trb_is(kind: type[TrbFromConsensus]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        members = topology.groups[0]
        broken = Module("trb", kind(process, members, "consensus", T0, DELTA), ("consensus",))
        return Stack([broken, *trb_modules(process, topology)[1:]])

    return build


def _top_is(kind: type[ConsensusFromAtomic]) -> Build:
    """In the stack that goes from consensus to atomic broadcast and back."""

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        original = lookup("consensus-from-atomic").build(process, topology, options)
        assert isinstance(original, Stack)
        rest = [m for name, m in original.modules.items() if name != "propose"]
        return Stack([Module("propose", kind(process, "atomic"), ("atomic",)), *rest])

    return build


MUTANTS: tuple[tuple[str, str, str, str, int, Build], ...] = (
    (
        "consensus",
        "adopts-nothing",
        "phase 3 says yes and keeps its own estimate",
        "uniform-consensus-agreement",
        300,
        consensus_is(AdoptsNothing),
    ),
    (
        "consensus",
        "one-yes-is-enough",
        "phase 4 decides on one yes",
        "uniform-consensus-agreement",
        300,
        consensus_is(OneYesIsEnough),
    ),
    (
        "consensus",
        "tells-nobody",
        "the decision is not broadcast",
        "consensus-termination",
        5,
        consensus_is(TellsNobody),
    ),
    (
        "consensus",
        "never-suspects",
        "phase 3 waits for the dead",
        "consensus-termination",
        60,
        consensus_is(NeverSuspects),
    ),
    (
        "consensus",
        "invents",
        "estimates are made up",
        "uniform-consensus-integrity",
        5,
        consensus_is(Invents),
    ),
    (
        "consensus-from-timed-atomic",
        "decides-its-own",
        "Fig. 13 decides its own value, not the first",
        "consensus-agreement",
        10,
        from_atomic_is(DecidesItsOwn),
    ),
    (
        "consensus-from-timed-atomic",
        "needs-three",
        "Fig. 13 waits for the third value",
        "consensus-termination",
        60,
        from_atomic_is(NeedsThree),
    ),
    (
        "consensus-from-timed-atomic",
        "invents",
        "Fig. 13 decides what nobody proposed",
        "consensus-integrity",
        5,
        from_atomic_is(InventsAtomic),
    ),
    (
        "consensus-from-atomic",
        "decides-its-own",
        "Fig. 13 decides its own value, not the first",
        "consensus-agreement",
        10,
        _top_is(DecidesItsOwn),
    ),
    (
        "consensus-from-atomic",
        "needs-three",
        "Fig. 13 waits for the third value",
        "consensus-termination",
        60,
        _top_is(NeedsThree),
    ),
    (
        "consensus-from-atomic",
        "invents",
        "Fig. 13 decides what nobody proposed",
        "consensus-integrity",
        5,
        _top_is(InventsAtomic),
    ),
    (
        "consensus-from-trb",
        "own-first",
        "Fig. 15 has no common order of senders",
        "consensus-agreement",
        10,
        from_trb_is(lambda me, members: OwnFirst(members, "trb", me)),
    ),
    (
        "consensus-from-trb",
        "invents",
        "Fig. 15 decides what nobody proposed",
        "consensus-integrity",
        5,
        from_trb_is(lambda me, members: InventsTrb(members, "trb")),
    ),
    (
        "consensus-from-trb",
        "waits-for-one-more",
        "Fig. 15 waits for one sender too many",
        "consensus-termination",
        5,
        from_trb_is(lambda me, members: ConsensusFromTrb((*members, -1), "trb")),
    ),
    (
        "trb",
        "proposes-early",
        "Fig. 16 does not wait until t0 + δ",
        "trb-validity",
        10,
        trb_is(ProposesEarly),
    ),
    (
        "trb",
        "no-consensus",
        "Fig. 16 delivers what it received",
        "uniform-trb-agreement",
        500,
        trb_is(NoConsensus),
    ),
    ("trb", "forgets-one", "Fig. 16 leaves a sender out", "trb-termination", 5, trb_is(ForgetsOne)),
    (
        "trb",
        "invents",
        "Fig. 16 makes up what a faulty sender might have said",
        "trb-integrity",
        60,
        trb_is(InventsForTheSilent),
    ),
)

for _protocol, _name, _differs, _breaks, _seeds, _build in MUTANTS:
    mutant(_protocol, _name, _differs, breaks=_breaks, seeds=_seeds, build=_build)
