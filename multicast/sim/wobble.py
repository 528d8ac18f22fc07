"""Clocks that stay within Γ/2 of real time and keep no rate, and crashes that lose last words then.

Paper 003 bounds the distance of a clock from real time, not its drift. A crash loses what was sent
in the last Θ before it. On a clock that wobbles, "the last Θ" must be told by that clock (dab.md
§1): of the slot in which the process crashes, and of the slot before, its closing flush included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from random import Random

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.clock import MILLION, Clock
from shmcast.multicast.sim.faults import ClockFault, Crash, Fault, Recover, SendOmission
from shmcast.multicast.sim.random_faults import crashes_again
from shmcast.multicast.sim.scenario import Scenario

ROUNDING = 3  # ticks by which whole ticks may miss an aim
TURNS_MAX = 8
IN_A_ROW = 0.6  # of the runs with crashes: each one while the last one is dealt with


@dataclass(frozen=True, slots=True)
class Timeline:
    """A clock and all its changes."""

    begin: Clock
    changes: tuple[ClockFault, ...] = ()

    def pieces(self) -> list[tuple[int, Clock]]:
        """From when on which clock holds."""
        found = [(0, self.begin)]
        for change in self.changes:
            last = found[-1][1]
            found.append((change.at, last.changed(change.at, change.jump, change.drift_ppm)))
        return found

    def at(self, now: int) -> Clock:
        return next(clock for since, clock in reversed(self.pieces()) if since <= now)

    def last_flush(self, now: int, slot: int) -> int:
        """The first real tick of the slot in which this clock stands."""
        first = self.at(now).local(now) // slot * slot
        pieces = self.pieces()
        ends = [since for since, _ in pieces[1:]] + [now + 1]
        for (since, clock), end in zip(pieces, ends, strict=True):
            found = max(since, clock.real(first))
            if found < end:
                return min(found, now)
        return now


def wobbling(process: ProcessId, skew_max: int, rng: Random, span: int) -> Timeline:
    """Its offset goes to and fro within half of `skew_max`; time never goes backwards."""
    reach = skew_max // 2 - ROUNDING
    clock = begin = Clock(rng.randint(-reach, reach))
    changes: list[ClockFault] = []
    at = rng.randint(0, span)
    for _ in range(rng.randint(1, TURNS_MAX)):
        way = rng.randint(-reach, reach) - (clock.local(at) - at)
        took = 2 * abs(way) + rng.randint(1, max(2, span // TURNS_MAX))
        for when, rate in ((at, way * MILLION // took), (at + took, 0)):
            changes.append(ClockFault(process, when, 0, rate, faulty=False))
            clock = clock.changed(when, 0, rate)
        at += took + rng.randint(1, max(1, span // TURNS_MAX))
    return Timeline(begin, tuple(changes))


def in_slots(scenario: Scenario, span: int) -> Scenario:
    """The same with such clocks and crashes; a third of the runs have no fault, but for their
    clocks."""
    spec, topology = scenario.spec, scenario.topology
    rng = Random(f"{scenario.seed}/slots")
    skew = spec.tolerates.skew_max
    if rng.random() < 0.5:
        times = {p: wobbling(p, skew, rng, span) for p in topology.processes}
    else:
        half = skew // 2
        times = {p: Timeline(Clock(rng.randint(-half, half))) for p in topology.processes}
    faults: tuple[Fault, ...] = tuple(c for timeline in times.values() for c in timeline.changes)
    if rng.random() >= 1 / 3:
        crashes = tuple(crashes_in_slots(spec, topology, times, rng, span))
        faults += (*crashes, *crashes_again(spec, crashes, rng, span))
    return replace(scenario, faults=faults, clocks={p: t.begin for p, t in times.items()})


def crashes_in_slots(
    spec: Spec,
    topology: Topology,
    times: dict[ProcessId, Timeline],
    rng: Random,
    span: int,
) -> Iterator[Fault]:
    """Up to f members crash, often one after the other, each with what it alone has learnt; most
    lose their last words."""
    slot = spec.tolerates.loss_window
    members = topology.groups[0]
    victims = rng.sample(members, rng.randint(0, spec.tolerates.crashes_per_group(len(members))))
    in_a_row, heir_only = rng.random() < IN_A_ROW, rng.random() < 0.5
    at = rng.randint(0, span)
    for process, heir in zip_longest(victims, victims[1:]):
        at = at + rng.randint(0, 2 * slot) if in_a_row else rng.randint(0, span)
        if rng.random() < 0.8:
            flushed = times[process].last_flush(at, slot)
            lost = (
                set(members) - {heir}
                if heir_only
                else rng.sample(members, 1 + rng.randrange(len(members)))
            )
            yield SendOmission(process, flushed, at + 1, frozenset(lost))
            yield Crash(process, at)
        else:
            yield Crash(process, at, rng.choice((None, rng.randint(0, len(members)))))
        if spec.tolerates.restarts and rng.random() < 0.5:
            yield Recover(process, at + rng.randint(1, span))
