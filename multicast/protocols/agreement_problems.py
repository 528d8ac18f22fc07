"""Consensus and terminating reliable broadcast, each made from the other and from atomic broadcast:
the stacks of paper 004 §7 and §8 as protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shmcast.multicast.protocols.atomic_from_consensus import AtomicFromConsensus
from shmcast.multicast.protocols.broadcasts import synchrony_of, tolerated
from shmcast.multicast.protocols.consensus import Consensus, Propose, everyone_proposes
from shmcast.multicast.protocols.consensus_from_atomic import ConsensusFromAtomic
from shmcast.multicast.protocols.consensus_from_trb import ConsensusFromTrb
from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.protocols.diffusion import Diffusion
from shmcast.multicast.protocols.layers import Setting
from shmcast.multicast.protocols.registry import Options, Spec, Tolerates, minority, register
from shmcast.multicast.protocols.stack import Module, Stack
from shmcast.multicast.protocols.timed_diffusion import TimedDiffusion
from shmcast.multicast.protocols.timed_total import TimedTotal
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.trb_from_consensus import Broadcast, TrbFromConsensus

if TYPE_CHECKING:
    from random import Random

DELTA = 1000
T0 = 2000  # when all terminating broadcasts of a run begin
OMISSION = Setting("sync-omission", synchronous=True, omissions=True)
SHAPES = (Topology.regular(1, 3), Topology.regular(1, 5))

CONSENSUS_PROMISES = (
    "consensus-termination",
    "consensus-agreement",
    "consensus-integrity",
)


def others(process: ProcessId, topology: Topology) -> tuple[ProcessId, ...]:
    return tuple(p for p in topology.groups[0] if p != process)


def timed_atomic_modules(process: ProcessId, topology: Topology) -> list[Module]:
    synchrony = synchrony_of(OMISSION, len(topology.groups[0]))
    bottom = TimedDiffusion(process, others(process, topology), synchrony)
    total = TimedTotal("timed-diffusion", synchrony.local_bound_ticks)
    return [
        Module("timed-total", total, ("timed-diffusion",)),
        Module("timed-diffusion", bottom),
    ]


def build_from_timed(process: ProcessId, topology: Topology, options: Options) -> Machine:
    top = Module("propose", ConsensusFromAtomic(process, "timed-total"), ("timed-total",))
    return Stack([top, *timed_atomic_modules(process, topology)])


def build_there_and_back(process: ProcessId, topology: Topology, options: Options) -> Machine:
    """Consensus from an atomic broadcast that is made from consensus: both directions at once."""
    return Stack(
        [
            Module("propose", ConsensusFromAtomic(process, "atomic"), ("atomic",)),
            Module("atomic", AtomicFromConsensus("r", "batches"), ("r", "batches")),
            Module("r", Diffusion(process, others(process, topology))),
            Module("batches", Consensus(process, topology.groups[0])),
        ]
    )


def trb_modules(process: ProcessId, topology: Topology) -> list[Module]:
    members = topology.groups[0]
    trb = TrbFromConsensus(process, members, "consensus", T0, DELTA)
    return [
        Module("trb", trb, ("consensus",)),
        Module("consensus", Consensus(process, members)),
    ]


def build_trb(process: ProcessId, topology: Topology, options: Options) -> Machine:
    return Stack(trb_modules(process, topology))


def build_from_trb(process: ProcessId, topology: Topology, options: Options) -> Machine:
    top = Module("propose", ConsensusFromTrb(topology.groups[0], "trb"), ("trb",))
    return Stack([top, *trb_modules(process, topology)])


def everyone_proposes_in_time(
    topology: Topology, rng: Random, span: int
) -> list[tuple[int, ProcessId, Propose]]:
    return everyone_proposes(topology, rng, T0 - 1)


def everyone_broadcasts(
    topology: Topology, rng: Random, span: int
) -> list[tuple[int, ProcessId, Broadcast]]:
    proposals = everyone_proposes_in_time(topology, rng, span)
    return [(at, p, Broadcast(what.value)) for at, p, what in proposals]


CRASH_SYNC = Tolerates(
    crashes_per_group=minority, slow_processes=False, delay_max=DELTA, suspicions=True
)

register(
    Spec(
        name="consensus-from-timed-atomic",
        build=build_from_timed,
        promises=CONSENSUS_PROMISES,
        tolerates=Tolerates(
            crashes_per_group=tolerated, slow_processes=False, delay_max=DELTA, omissions=True
        ),
        shapes=SHAPES,
        calls=everyone_proposes,
        multicasts=False,
    )
)
register(
    Spec(
        name="consensus-from-atomic",
        build=build_there_and_back,
        promises=CONSENSUS_PROMISES,
        tolerates=Tolerates(
            crashes_per_group=minority, partitions=True, reordering=True, suspicions=True
        ),
        shapes=SHAPES,
        calls=everyone_proposes,
        multicasts=False,
    )
)
register(
    Spec(
        name="trb",
        build=build_trb,
        promises=("trb-termination", "trb-validity", "uniform-trb-agreement", "trb-integrity"),
        tolerates=CRASH_SYNC,
        shapes=SHAPES,
        calls=everyone_broadcasts,
        multicasts=False,
    )
)
register(
    Spec(
        name="consensus-from-trb",
        build=build_from_trb,
        promises=CONSENSUS_PROMISES,
        tolerates=CRASH_SYNC,
        shapes=SHAPES,
        calls=everyone_proposes_in_time,
        multicasts=False,
    )
)
