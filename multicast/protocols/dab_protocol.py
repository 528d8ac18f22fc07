"""Dynamic Atomic Broadcast as a protocol of the table: what it promises, and how it is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.protocols.dab import Dab
from shmcast.multicast.protocols.dab_bounds import Timing
from shmcast.multicast.protocols.dab_messages import Join, Leave
from shmcast.multicast.protocols.registry import Build, Options, Spec, Tolerates, register
from shmcast.multicast.protocols.topology import Topology

if TYPE_CHECKING:
    from random import Random

TIMING = Timing(delta=200, theta=500, gamma=100, f=2)  # a run of a campaign has many slots
FAILURES_MAX = 4
PROMISES = (
    "uniform-integrity",
    "contiguous-slices",
    "incarnation-order",
    "sender-order",
    "join-liveness",
    "leave-liveness",
    "member-delivery",
    "real-time",
)


def builder(kind: type[Dab] = Dab) -> Build:
    """Options: `timing`; `initially`, the members at the start; `burst_max`; `latency`, the delay
    that the application counts on."""

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        processes = topology.groups[0]
        timing = cast("Timing", options.get("timing", timing_of(len(processes))))
        latency = cast("int | None", options.get("latency"))
        if latency is not None and latency < timing.lower_bound:
            raise ValueError(
                f"no algorithm delivers within {latency}: (f + 1)Δ is {timing.lower_bound}"
            )
        return kind(
            process,
            processes,
            timing,
            initially=cast("tuple[ProcessId, ...]", options.get("initially", processes[:-1])),
            burst_max=cast("int | None", options.get("burst_max")),
        )

    return build


def comings_and_goings(
    topology: Topology, rng: Random, span: int
) -> list[tuple[int, ProcessId, object]]:
    """The last process joins; some leave, and some come back. An incarnation is the time of its
    call, so later ones are larger."""
    members = topology.groups[0]
    calls: list[tuple[int, ProcessId, object]] = []
    joined = rng.randint(1, max(1, span // 2))
    calls.append((joined, members[-1], Join(joined)))
    for process in members:
        if rng.random() < 0.3:
            at = rng.randint(1, span)
            calls.append((at, process, Leave()))
        if rng.random() < 0.5:
            again = rng.randint(span // 2, span)
            calls.append((again, process, Join(again)))
    return calls


def failures(replicas: int) -> int:
    return min(FAILURES_MAX, replicas - 2)


def timing_of(replicas: int) -> Timing:
    return replace(TIMING, f=failures(replicas))


def worst_latency(topology: Topology) -> int:
    """Lemma 9.2, with Γ more for each failed round: detection takes that much longer than the
    lemma's proof assumes."""
    crashes = failures(len(topology.groups[0]))
    return TIMING.latency(crashes) + crashes * TIMING.gamma


_MOST = replace(TIMING, f=FAILURES_MAX)
SETTLE_TICKS = _MOST.join_bound + _MOST.latency(_MOST.f) + 2 * _MOST.theta

PROTOCOL = register(
    Spec(
        name="dab",
        build=builder(),
        promises=PROMISES,
        tolerates=Tolerates(
            crashes_per_group=failures,
            restarts=True,
            slow_processes=False,
            delay_max=TIMING.delta,
            skew_max=TIMING.gamma,
            loss_window=TIMING.theta,
        ),
        shapes=(Topology.regular(1, 4), Topology.regular(1, 5), Topology.regular(1, 6)),
        settle_ticks=SETTLE_TICKS,
        calls=comings_and_goings,
        bound=worst_latency,
    )
)
