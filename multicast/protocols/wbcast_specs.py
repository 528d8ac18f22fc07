"""WbCast as the registry knows it: `wbcast`, and `wbcast-acks`, whose followers do not wait for
their leader's DELIVER."""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.protocols.registry import (
    Build,
    Options,
    Spec,
    Tolerates,
    minority,
    register,
    ticks,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_acks import AckMember
from shmcast.multicast.protocols.wbcast_invariants import invariants
from shmcast.multicast.protocols.wbcast_member import RETRY_TICKS, Member
from shmcast.multicast.protocols.wbcast_session import Client

FOLLOWER_DELIVERY: dict[str, type[Member]] = {"deliver": Member, "acks": AckMember}


def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
    """The option `follower_delivery` says on what a follower delivers: its leader's DELIVER
    (Fig. 4), or the ACCEPT_ACKs that the leader waits for (wbcast_acks.py)."""
    member = FOLLOWER_DELIVERY[str(options.get("follower_delivery", "deliver"))]
    return build_with(member)(process, topology, options)


def build_with(member: type[Member]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        if topology.group_of(process) is None:
            return Client(topology, ticks(options, "retry_ticks", RETRY_TICKS))
        return member(topology, process, options)

    return build


PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "termination",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
    "genuineness",
    "rejoin-contiguity",
    "rejoin-liveness",
)

WBCAST = register(
    Spec(
        name="wbcast",
        build=build,
        promises=PROMISES,
        tolerates=Tolerates(
            crashes_per_group=minority,
            client_crashes=True,
            restarts=True,
            partitions=True,
            nominations=True,
            suspicions=True,
        ),
        shapes=(
            Topology.regular(groups=2, replicas=3, clients=2),
            Topology.regular(groups=3, replicas=3, clients=3),
            Topology.regular(groups=1, replicas=5, clients=2),
            Topology.regular(groups=3, replicas=3, clients=0),
        ),
        invariants=invariants,
    )
)


def _on_acks(process: ProcessId, topology: Topology, options: Options) -> Machine:
    return build(process, topology, {**options, "follower_delivery": "acks"})


WBCAST_ACKS = register(replace(WBCAST, name="wbcast-acks", build=_on_acks))
