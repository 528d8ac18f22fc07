"""Scenarios for one question: does a group survive leaders that follow each other quickly?

Two groups of three; leaders change in the first. Nominations reach one member only and links
differ much in speed, so an old leader goes on while its successors come and go. Broken recovery
rules need this to show; a general campaign meets it once in thousands of seeds.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.delays import Rule, Scripted, Uniform
from shmcast.multicast.sim.faults import Crash, Fault, Recover, WrongNomination
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Submit

SPAN = 30 * DELTA
STEP_LIMIT = 50_000


def churn(spec: Spec, seed: int) -> Scenario:
    rng = Random(f"{seed}/churn")
    topology = Topology.regular(groups=2, replicas=3, clients=2)
    members = topology.groups[0]
    times = sorted(rng.randint(0, SPAN) for _ in range(rng.randint(2, 6)))
    faults: tuple[Fault, ...] = tuple(_nomination(at, rng.choice(members)) for at in times)
    other_leader = topology.groups[1][0]
    links = [(p, q) for p in (*members, other_leader) for q in members if p != q]
    slow = rng.sample(links, rng.randint(1, 4))
    inputs = sorted((_submission(topology, rng) for _ in range(12)), key=lambda s: s.at)
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=tuple(inputs),
        faults=faults,
        seed=seed,
        delay=Scripted(
            Uniform(1, 2 * DELTA),
            tuple(Rule(rng.randint(5, 20) * DELTA, src=p, dst=q) for p, q in slow),
        ),
        step_limit=STEP_LIMIT,
    )


def memory_loss(spec: Spec, seed: int) -> Scenario:
    """The same, and a member of the first group loses its memory."""
    scenario = churn(spec, seed)
    rng = Random(f"{seed}/memory loss")
    victim, at = rng.choice(scenario.topology.groups[0]), rng.randint(0, SPAN)
    loss = (Crash(victim, at), Recover(victim, at + 1))
    return replace(scenario, faults=(*scenario.faults, *loss))


def _submission(topology: Topology, rng: Random) -> Submit:
    return Submit(rng.randint(0, SPAN), rng.choice(topology.clients), rng.choice(((0,), (0, 1))))


def _nomination(at: int, leader: int) -> WrongNomination:
    return WrongNomination(0, leader, at, at + SPAN, to=frozenset({leader}))
