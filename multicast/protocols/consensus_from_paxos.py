"""Consensus from a replicated log: Multi-Paxos where paper 004 takes consensus as given.

An instance is decided by the first entry of the log that speaks of it. All members see one log, so
they see the same first entry; later ones for the instance count for nothing. Only the leader can
append, and a leader may lose its ballot before the entry is chosen, so a proposal goes to every
member: whoever leads appends what is not decided yet, once in its ballot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shmcast.multicast.protocols.atomic_from_consensus import AtomicFromConsensus
from shmcast.multicast.protocols.broadcasts import BY_NAME, NAMED, spec_of
from shmcast.multicast.protocols.consensus import Decided, Instance, Propose, row_layer
from shmcast.multicast.protocols.core import (
    Ask,
    Effect,
    Event,
    LocalTime,
    Machine,
    ProcessId,
    Receive,
    Record,
    Replied,
    Reply,
    Request,
    Send,
    Wire,
)
from shmcast.multicast.protocols.diffusion import Diffusion
from shmcast.multicast.protocols.ft_skeen import logs_agree
from shmcast.multicast.protocols.paxos import Append, Deposed, Entry, Leads, Paxos
from shmcast.multicast.protocols.registry import Build, Options, register
from shmcast.multicast.protocols.stack import Module, Stack
from shmcast.multicast.protocols.topology import Topology


@dataclass(frozen=True, slots=True)
class Wanted(Wire):
    """A proposal on its way to whoever leads, and what stands in the log."""

    instance: Instance
    value: object


class ConsensusFromPaxos:
    def __init__(self, process: ProcessId, members: tuple[ProcessId, ...], log: str) -> None:
        self.others = tuple(p for p in members if p != process)
        self.log = log
        self.leading = process == members[0]  # as in Paxos: the first member begins
        self.wanted: dict[Instance, Wanted] = {}  # proposed by anyone, not decided
        self.appended: set[Instance] = set()  # in this ballot, by this process
        self.decided: set[Instance] = set()

    def on_propose(self, instance: Instance, value: object) -> list[Effect]:
        wanted = Wanted(instance, value)
        proposal = Record("propose", layer=row_layer(instance), detail=repr(value))
        return [proposal, Send(wanted, self.others), *self.on_wanted(wanted)]

    def on_wanted(self, wanted: Wanted) -> list[Effect]:
        if wanted.instance in self.decided:
            return []
        self.wanted.setdefault(wanted.instance, wanted)
        return self.append()

    def append(self) -> list[Effect]:
        if not self.leading:
            return []
        new = [w for instance, w in self.wanted.items() if instance not in self.appended]
        self.appended.update(w.instance for w in new)
        return [Ask(self.log, Request(Append(w))) for w in new]

    def on_leads(self) -> list[Effect]:
        """What an earlier ballot of ours appended may be lost."""
        self.leading = True
        self.appended.clear()
        return self.append()

    def on_entry(self, instance: Instance, value: object) -> list[Effect]:
        if instance in self.decided:
            return []
        self.decided.add(instance)
        self.wanted.pop(instance, None)
        return [
            Record("decide", layer=row_layer(instance), detail=repr(value)),
            Reply(Decided(value, instance)),
        ]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Request(Propose(value, instance)):
                return self.on_propose(instance, value)
            case Receive(Wanted() as wanted, _):
                return self.on_wanted(wanted)
            case Replied(Entry(_, Wanted(instance, value))):
                return self.on_entry(instance, value)
            case Replied(Leads()):
                return self.on_leads()
            case Replied(Deposed()):
                self.leading = False
        return []


def builder(kind: type[ConsensusFromPaxos] = ConsensusFromPaxos) -> Build:
    """Fig. 14 over it."""

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        members = topology.groups[0]
        others = tuple(p for p in members if p != process)
        atomic = AtomicFromConsensus("diffusion", "consensus")
        return Stack(
            [
                Module("atomic-from-consensus", atomic, ("diffusion", "consensus")),
                Module("diffusion", Diffusion(process, others)),
                Module("consensus", kind(process, members, "paxos"), ("paxos",)),
                Module("paxos", Paxos(topology, process)),
            ]
        )

    return build


NAME = "atomic-broadcast-paxos"
_layers, _setting = NAMED["atomic-broadcast"]  # the same promises under the same faults

_SPEC = spec_of(_layers, BY_NAME[_setting], NAME)

PROTOCOL = register(
    replace(
        _SPEC,
        tolerates=replace(_SPEC.tolerates, suspicions=False, nominations=True),
        build=builder(),
        invariants=lambda: [logs_agree()],
    )
)
