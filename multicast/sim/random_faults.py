"""Faults drawn from a seed, inside what a protocol says that it tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.faults import (
    ClockFault,
    Crash,
    Disturbance,
    Fault,
    Partition,
    ReceiveOmission,
    Recover,
    SendOmission,
    Slow,
    WrongNomination,
    WrongSuspicion,
)

INSIDE_STEP = 0.7  # most crashes fall inside a step: that is where protocols break
STEP_EFFECTS_MAX = 8
MISTAKES_MAX = 5
AGAIN = 0.4  # of those that come back
CLOCK_JUMP_MAX = 5000


def random_faults(spec: Spec, topology: Topology, rng: Random, span: int) -> tuple[Fault, ...]:
    """Faults that begin within `span` ticks; a third of the runs have none."""
    if rng.random() < 1 / 3:
        return ()
    drawn = (
        *_crashes(spec, topology, rng, span),
        *_cuts(spec, topology, rng, span),
        *_disturbances(spec, rng, span),
        *_slowness(spec, topology, rng, span),
    )
    return tuple(fault for fault in drawn if can_feel(spec, fault))


def can_feel(spec: Spec, fault: Fault) -> bool:
    """Mistakes of an oracle that a protocol does not listen to would only look like faults."""
    if isinstance(fault, WrongNomination):
        return spec.tolerates.nominations
    return spec.tolerates.suspicions or not isinstance(fault, WrongSuspicion)


def crashes_again(spec: Spec, faults: Iterable[Fault], rng: Random, span: int) -> Iterator[Fault]:
    """Who came back crashes once more, perhaps before it has taken a state over; and may come back
    again. Only the same process: the members that are down or without memory are as many as
    before."""
    for fault in faults:
        if isinstance(fault, Recover) and rng.random() < AGAIN:
            at = fault.at + rng.randint(1, span)
            inside = rng.random() < INSIDE_STEP
            yield Crash(fault.process, at, rng.randint(0, STEP_EFFECTS_MAX) if inside else None)
            if rng.random() < 0.7:
                yield Recover(fault.process, at + rng.randint(1, span))


def timing_failures(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    """In place of other faults, of as many processes as may be faulty. Paper 004 has clocks that
    never go back, even faulty ones (Fig. 4)."""
    if not spec.tolerates.timing or rng.random() < 1 / 2:
        return
    members = topology.groups[0]
    count = spec.tolerates.crashes_per_group(len(members))
    for process in rng.sample(members, rng.randint(0, count)):
        if rng.random() < 0.5:
            yield Slow(process, *_window(rng, span), step_ticks=rng.randint(1, 2000), faulty=True)
        else:
            jump = rng.randint(0, CLOCK_JUMP_MAX)
            yield ClockFault(process, rng.randint(0, span), jump, rng.randint(-(10**5), 10**5))


def _window(rng: Random, span: int) -> tuple[int, int]:
    at = rng.randint(0, span)
    return at, at + rng.randint(1, max(1, span // 3))


def _crashes(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    victims: list[ProcessId] = []
    for members in topology.groups:
        allowed = spec.tolerates.crashes_per_group(len(members))
        victims += rng.sample(members, rng.randint(0, min(allowed, len(members))))
    if spec.tolerates.client_crashes and topology.clients:
        victims += rng.sample(topology.clients, rng.randint(0, 1))
    for process in victims:
        at = rng.randint(0, span)
        if spec.tolerates.omissions and rng.random() < 0.5:
            yield from _omissions(topology, process, at, rng, span)
            continue
        inside = rng.random() < INSIDE_STEP
        yield Crash(process, at, rng.randint(0, STEP_EFFECTS_MAX) if inside else None)
        if spec.tolerates.restarts and rng.random() < 0.5:
            yield Recover(process, at + rng.randint(1, span))
    if any(spec.tolerates.crashes_per_group(len(members)) for members in topology.groups):
        yield from _mistakes(topology, rng, span)


def _omissions(
    topology: Topology, process: ProcessId, at: int, rng: Random, span: int
) -> Iterator[Fault]:
    """One that lives on, and loses what it sends or what it is sent for a while."""
    until = at + rng.randint(1, max(1, span // 2))
    if rng.random() < 0.5:
        yield ReceiveOmission(process, at, until)
    else:
        yield SendOmission(process, at, until, _some(topology, rng))


def _some(topology: Topology, rng: Random) -> frozenset[ProcessId]:
    everyone = topology.processes
    return frozenset(rng.sample(everyone, rng.randint(1, len(everyone))))


def _mistakes(topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    """A detector that can report crashes can also err. Most mistakes are about one group:
    leaders that follow each other quickly are what breaks recovery."""
    group = 0 if rng.random() < 0.5 else rng.randrange(len(topology.groups))
    for _ in range(rng.randint(0, MISTAKES_MAX)):
        members = topology.groups[group]
        process = rng.choice(members)
        if rng.random() < 0.7:
            # Often only some hear of it: the old leader and its clients go on for a while.
            some = frozenset({process, *rng.sample(members, rng.randint(0, len(members)))})
            to = None if rng.random() < 0.4 else some
            yield WrongNomination(group, process, *_window(rng, span), to=to)
        else:
            yield WrongSuspicion(process, *_window(rng, span))


def _cuts(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    everyone = topology.processes
    if not spec.tolerates.partitions or len(everyone) < 2:
        return
    for _ in range(rng.randint(0, 2)):
        side = frozenset(rng.sample(everyone, rng.randint(1, len(everyone) - 1)))
        yield Partition(side, *_window(rng, span), one_way=rng.random() < 0.3)


def _disturbances(spec: Spec, rng: Random, span: int) -> Iterator[Fault]:
    allowed = spec.tolerates
    if not (allowed.loss or allowed.duplication or allowed.reordering):
        return
    at, until = _window(rng, span)
    yield Disturbance(
        at,
        until,
        loss=rng.uniform(0, 0.3) if allowed.loss else 0.0,
        duplication=rng.uniform(0, 0.3) if allowed.duplication else 0.0,
        reordering=rng.uniform(0, 0.5) if allowed.reordering else 0.0,
        jitter=3000,
    )


def _slowness(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    if spec.tolerates.slow_processes and rng.random() < 0.3:
        process = rng.choice(topology.processes)
        yield Slow(process, *_window(rng, span), step_ticks=rng.randint(1, 500))
