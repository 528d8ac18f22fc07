"""Scenarios for one question: what of a decider whose announcement is lost with it?

Six members of a slotted broadcast. Four crash, one soon after the other. The second one misses the
last slot of the first, and each tells what it knows of that to the next one only; the last one may
have decided. A general campaign draws such chains as well, but hardly ever one that is long enough
and at the right pace.
"""

from __future__ import annotations

from random import Random

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant
from shmcast.multicast.sim.faults import Crash, Fault, SendOmission
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.wobble import Timeline
from shmcast.multicast.sim.workload import Submit

SLOTS = 20
STEP_LIMIT = 50_000


def last_words(spec: Spec, seed: int) -> Scenario:
    rng = Random(f"{seed}/last words")
    topology = Topology.regular(1, 6)
    members, slot = topology.groups[0], spec.tolerates.loss_window
    reach = spec.tolerates.skew_max // 2
    clocks = {p: Clock(rng.randint(-reach, reach)) for p in members}
    times = [slot * n + rng.randrange(slot) for n in range(SLOTS) for _ in members]
    inputs = [Submit(at, rng.choice(members), (0,)) for at in times]
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=tuple(sorted(inputs, key=lambda submit: submit.at)),
        faults=_chain(topology, slot, reach, clocks, rng),
        seed=seed,
        delay=Constant(spec.tolerates.delay_max or 1),
        clocks=clocks,
        options={"initially": members},
        step_limit=STEP_LIMIT,
    )


def _chain(
    topology: Topology, slot: int, reach: int, clocks: dict[ProcessId, Clock], rng: Random
) -> tuple[Fault, ...]:
    members = topology.groups[0]
    victims = rng.sample(members, len(members) - 2)
    faults: list[Fault] = []
    crashes_in = rng.randint(5, 6)
    for process, heir in zip(victims, [*victims[1:], None], strict=True):
        # The heir alone misses the first one's last slot; then it alone hears of that.
        lost = {heir or process} if not faults else set(members) - {heir}
        at = crashes_in * slot + rng.randrange(reach, slot)
        flushed = Timeline(clocks[process]).last_flush(at, slot)
        faults += [SendOmission(process, flushed, at + 1, frozenset(lost)), Crash(process, at)]
        crashes_in += rng.choice((1, 1, 2))
    return tuple(faults)
