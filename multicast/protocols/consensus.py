"""Uniform consensus with a rotating coordinator (Chandra and Toueg, J. ACM 43(2), 1996, Fig. 6).

Asynchronous, a majority correct, and a failure detector that may err (◇S). Many instances run
side by side. Each round has one coordinator:

    1  everyone sends its estimate, with the round it took it from, to the coordinator
    2  the coordinator proposes, of a majority of estimates, the one of the latest round
    3  everyone adopts the proposal and answers yes; or suspects the coordinator and answers no
    4  on a majority of yes the value is locked: the coordinator broadcasts the decision
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from shmcast.multicast.protocols.core import (
    Effect,
    Event,
    LocalTime,
    Machine,
    ProcessId,
    Receive,
    Record,
    Reply,
    Request,
    Send,
    Suspect,
    Trust,
    Wire,
)
from shmcast.multicast.protocols.quorum import Tally
from shmcast.multicast.protocols.registry import Options, Spec, Tolerates, minority, register
from shmcast.multicast.protocols.topology import Topology

if TYPE_CHECKING:
    from random import Random

Instance: TypeAlias = Hashable

INSTANCES = 4  # in a run of a campaign
PROPOSED_WITHIN = 2000


@dataclass(frozen=True, slots=True)
class Propose:
    """Asked of a consensus module."""

    value: object
    instance: Instance = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """Its answer, once per process and instance."""

    value: object
    instance: Instance = ""


def row_layer(instance: Instance) -> str:
    """The layer under which an instance's proposals and decisions are on record."""
    return f"consensus {instance}".rstrip()


@dataclass(frozen=True, slots=True)
class Estimate(Wire):
    instance: Instance
    r: int
    value: object
    ts: int  # the round in which the sender adopted it


@dataclass(frozen=True, slots=True)
class Proposal(Wire):
    instance: Instance
    r: int
    value: object


@dataclass(frozen=True, slots=True)
class Ack(Wire):
    instance: Instance
    r: int
    yes: bool


@dataclass(frozen=True, slots=True)
class Decide(Wire):
    instance: Instance
    value: object


@dataclass(slots=True)
class Progress:
    """One instance at one process, as participant and as coordinator."""

    members: tuple[ProcessId, ...]
    started: bool = False
    decided: bool = False
    estimate: object = None
    ts: int = 0
    r: int = 0
    proposals: dict[int, object] = field(default_factory=dict)
    estimates: dict[int, Tally[tuple[int, object]]] = field(default_factory=dict)
    proposed: dict[int, object] = field(default_factory=dict)  # by this process, in phase 2
    yes: dict[int, Tally[bool]] = field(default_factory=dict)


class Consensus:
    def __init__(self, process: ProcessId, members: tuple[ProcessId, ...]) -> None:
        self.process = process
        self.members = members
        self.others = tuple(p for p in members if p != process)
        self.suspects: set[ProcessId] = set()
        self.instances: dict[Instance, Progress] = defaultdict(lambda: Progress(members))

    def coordinator(self, r: int) -> ProcessId:
        return self.members[(r - 1) % len(self.members)]

    def on_propose(self, instance: Instance, value: object) -> list[Effect]:
        s = self.instances[instance]
        proposal: Effect = Record("propose", layer=row_layer(instance), detail=repr(value))
        if s.started or s.decided:
            return [] if s.started else [proposal]
        s.started = True
        s.estimate = value
        return [proposal, *self.next_round(instance, s)]

    def next_round(self, instance: Instance, s: Progress) -> list[Effect]:
        """Phase 1, then phase 3 as far as it goes without waiting."""
        s.r += 1
        estimate = Estimate(instance, s.r, s.estimate, s.ts)
        return [Send(estimate, (self.coordinator(s.r),)), *self.answer(instance, s)]

    def answer(self, instance: Instance, s: Progress) -> list[Effect]:
        """Phase 3: the proposal is here, or its coordinator is suspected; else wait."""
        c = self.coordinator(s.r)
        if s.r in s.proposals:
            s.estimate, s.ts = s.proposals.pop(s.r), s.r
            return [Send(Ack(instance, s.r, True), (c,)), *self.next_round(instance, s)]
        if c in self.suspects:
            return [Send(Ack(instance, s.r, False), (c,)), *self.next_round(instance, s)]
        return []

    def on_estimate(self, sender: ProcessId, e: Estimate) -> list[Effect]:
        """Phase 2. The coordinator need not have reached the round itself."""
        s = self.instances[e.instance]
        tally = s.estimates.setdefault(e.r, Tally(self.members))
        if not tally.add(sender, (e.ts, e.value)):
            return []
        _, latest = max(tally.votes.values(), key=lambda vote: vote[0])
        s.proposed[e.r] = latest
        return [Send(Proposal(e.instance, e.r, latest), self.members)]

    def on_proposal(self, p: Proposal) -> list[Effect]:
        s = self.instances[p.instance]
        if s.r > p.r:
            return []  # answered no already
        s.proposals[p.r] = p.value
        return self.answer(p.instance, s) if s.started and s.r == p.r else []

    def on_ack(self, sender: ProcessId, a: Ack) -> list[Effect]:
        """Phase 4. DEVIATION: the coordinator waits for a majority of yes, not for a majority of
        answers: a late yes is as good, and a no needs no answer."""
        s = self.instances[a.instance]
        if not a.yes or not s.yes.setdefault(a.r, Tally(self.members)).add(sender, True):
            return []
        return [Send(Decide(a.instance, s.proposed[a.r]), (self.process,))]

    def on_decide(self, d: Decide) -> list[Effect]:
        """Relay, then decide: what any process decides, every correct one learns."""
        s = self.instances[d.instance]
        if s.decided:
            return []
        self.instances[d.instance] = Progress((), started=s.started, decided=True)
        return [
            Send(d, self.others),
            Record("decide", layer=row_layer(d.instance), detail=repr(d.value)),
            Reply(Decided(d.value, d.instance)),
        ]

    def on_suspect(self, process: ProcessId) -> list[Effect]:
        self.suspects.add(process)
        effects: list[Effect] = []
        for instance, s in list(self.instances.items()):
            if s.started and not s.decided:
                effects += self.answer(instance, s)
        return effects

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        if isinstance(message, Decide):
            return self.on_decide(message)
        assert isinstance(message, Estimate | Proposal | Ack)
        if self.instances[message.instance].decided:
            return []
        match message:
            case Estimate():
                return self.on_estimate(sender, message)
            case Proposal():
                return self.on_proposal(message)
            case Ack():
                return self.on_ack(sender, message)

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Request(Propose(value, instance)):
                return self.on_propose(instance, value)
            case Receive(message, sender):
                return self.on_message(message, sender)
            case Suspect(process):
                return self.on_suspect(process)
            case Trust(process):
                self.suspects.discard(process)
        return []


def everyone_proposes(
    topology: Topology, rng: Random, span: int
) -> list[tuple[int, ProcessId, Propose]]:
    """Each process proposes a value of its own within the span."""
    members = topology.groups[0]
    return [(rng.randint(0, span), p, Propose(f"v{p}")) for p in members]


def many_instances(
    topology: Topology, rng: Random, span: int
) -> list[tuple[int, ProcessId, object]]:
    """Short ones after each other, so that a crash falls into one of them."""
    begin = [rng.randint(0, span) for _ in range(INSTANCES)]
    return [
        (begin[i] + at, p, Propose(what.value, i))
        for i in range(INSTANCES)
        for at, p, what in everyone_proposes(topology, rng, PROPOSED_WITHIN)
    ]


def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
    return Consensus(process, topology.groups[0])


PROTOCOL = register(
    Spec(
        name="consensus",
        build=build,
        promises=(
            "consensus-termination",
            "uniform-consensus-agreement",
            "uniform-consensus-integrity",
        ),
        tolerates=Tolerates(
            crashes_per_group=minority, partitions=True, reordering=True, suspicions=True
        ),
        shapes=(Topology.regular(1, 3), Topology.regular(1, 5)),
        calls=many_instances,
        multicasts=False,
    )
)
