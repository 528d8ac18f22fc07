"""A scenario for one question: what may a leader that was replaced, and does not know it, believe?

One group of three. p1 replaces p0, with p2; p0 hears nothing of it. A client's first message is
delivered by p1 alone: its DELIVER to p2 is late. The client, told that it is done, says so to p0
with its next message. Then p1 crashes, and p0 leads again, with p2, which has accepted the message.
"""

from __future__ import annotations

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, WrongNomination
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Submit

STEP_LIMIT = 50_000
LATE = 100 * DELTA


def old_leader(spec: Spec, seed: int) -> Scenario:
    topology = Topology.regular(groups=1, replicas=3, clients=1)
    old, new, other = topology.groups[0]
    (client,) = topology.clients
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=(Submit(8 * DELTA, client, (0,)), Submit(14 * DELTA, client, (0,))),
        faults=(
            WrongNomination(0, new, 1 * DELTA, 13 * DELTA, to=frozenset({new, client})),
            Crash(new, 16 * DELTA),
        ),
        seed=seed,
        delay=Scripted(
            Constant(DELTA),
            (Rule(LATE, src=new, dst=old), Rule(LATE, src=new, dst=other, label="DeliverMsg")),
        ),
        step_limit=STEP_LIMIT,
    )
