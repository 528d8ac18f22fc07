"""Scenarios for one question: what of a member that was cut off, and taken for dead, for long?

Two groups of three; a member of the first is cut off and suspected while the others go on and
collect what they have delivered. It comes back as a candidate, so that the DELIVERs that waited
at the cut mean nothing to it any more, or the others change their leader, or nothing happens. A
general campaign rarely cuts somebody off for as long as collection takes.
"""

from __future__ import annotations

from random import Random

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.delays import Uniform
from shmcast.multicast.sim.faults import Fault, Partition, WrongNomination, WrongSuspicion
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Submit

CUT_TICKS = 80 * DELTA
STEP_LIMIT = 50_000
MESSAGES = 40


def left_behind(spec: Spec, seed: int) -> Scenario:
    rng = Random(f"{seed}/left behind")
    topology = Topology.regular(groups=2, replicas=3, clients=2)
    victim = rng.choice(topology.groups[0])
    at, until = rng.randint(0, 5 * DELTA), CUT_TICKS + rng.randint(0, 20 * DELTA)
    dest = ((0,), (0,), (0, 1))
    inputs = [
        Submit(rng.randint(0, 2 * until), rng.choice(topology.clients), rng.choice(dest))
        for _ in range(MESSAGES)
    ]
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=tuple(sorted(inputs, key=lambda submit: submit.at)),
        faults=(
            Partition(frozenset({victim}), at, until),
            WrongSuspicion(victim, at + 2 * DELTA, until),
            *_candidate(topology, victim, until, rng),
        ),
        seed=seed,
        delay=Uniform(1, 2 * DELTA),
        step_limit=STEP_LIMIT,
    )


def _candidate(topology: Topology, victim: int, until: int, rng: Random) -> tuple[Fault, ...]:
    """Shortly before the cut heals, or after."""
    leader = rng.choice((None, victim, *topology.groups[0]))
    if leader is None:
        return ()
    at = until + rng.randint(-10 * DELTA, 2 * DELTA)
    return (WrongNomination(0, leader, at, at + 50 * DELTA),)
