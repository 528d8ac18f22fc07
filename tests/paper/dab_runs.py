"""Runs of Dynamic Atomic Broadcast with the constants of dab.md: Δ=4, Θ=10, Γ=2, f=2; slot s is
local time [10s, 10s + 10), and process numbers begin at 1."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shmcast.multicast.protocols.dab import Dab
from shmcast.multicast.protocols.dab_bounds import Timing
from shmcast.multicast.protocols.dab_protocol import builder
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant
from shmcast.multicast.sim.faults import Fault
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Input, Submit

ALL = (0,)
TIMING = Timing(delta=4, theta=10, gamma=2, f=2)
SAFETY = ("uniform-integrity", "contiguous-slices", "incarnation-order", "sender-order")
LIVENESS = ("join-liveness", "leave-liveness", "member-delivery")


def dab(
    inputs: Iterable[Input],
    *faults: Fault,
    members: int = 3,
    joiners: int = 0,
    clocks: Mapping[int, Clock] | None = None,
    kind: type[Dab] = Dab,
    timing: Timing = TIMING,
    until: int | None = None,
    full: bool = True,
    **options: object,
) -> Run:
    everyone = tuple(range(1, members + joiners + 1))
    spec = replace(lookup("dab"), build=builder(kind), settle_ticks=40 * timing.theta, bound=None)
    spec = replace(spec, promises=(*SAFETY, *LIVENESS))
    return simulate(
        spec,
        topology=Topology((everyone,)),
        inputs=sorted(inputs, key=lambda item: item.at),
        faults=faults,
        delay=Constant(timing.delta),
        clocks=clocks,
        options={"timing": timing, "initially": everyone[:members], **options},
        until=until,
        record="full" if full else "application",
    )


def talk(process: int, *times: int) -> list[Input]:
    return [Submit(at, process, ALL) for at in times]


def everyone_talks(processes: Iterable[int], start: int, end: int, step: int) -> list[Input]:
    return [Submit(at, p, ALL) for p in processes for at in range(start, end, step)]


def delivered(run: Run, process: int) -> list[tuple[int, int]]:
    return [
        e.msg for e in run.trace if e.kind == "deliver" and e.proc == process and e.msg is not None
    ]


def latencies(run: Run) -> dict[tuple[int, int], int]:
    """Of each message, to its last deliverer."""
    return {d.message: d.last for d in run.delays()}


def reports(run: Run, about: int) -> dict[int, tuple[int, int]]:
    """By reporter: the last complete slot, and when, on its own clock."""
    found = {}
    for e in run.trace:
        if e.kind == "note" and e.detail.startswith(f"p{about} ended with slot "):
            found[e.proc] = (int(e.detail.split()[-1]), e.local_t)
    return found


def decisions(run: Run, about: int) -> dict[int, int]:
    found = {}
    for e in run.trace:
        if e.kind == "note" and e.detail.startswith(f"decided ({about},"):
            found[e.proc] = int(e.detail.split()[-1])
    return found


def times(run: Run, kind: str) -> dict[int, int]:
    """By process: the local time of its last row of this kind."""
    return {e.proc: e.local_t for e in run.trace if e.kind == kind}


def replies(run: Run, what: str) -> list[int]:
    return [e.proc for e in run.trace if e.kind == "note" and e.detail.startswith(f"reply: {what}")]
