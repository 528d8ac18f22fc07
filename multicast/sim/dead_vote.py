"""A scenario for one question: may a vote count whose voter has lost its memory since?

One group of five. p2 is a candidate whose NEWLEADER reaches p1 at once, p4 late, the others not in
time. p1 promises, crashes and comes back; p0 begins a ballot for it, below p2's, with p3 and p4,
and p0, p1 and p3 accept and deliver a message in it. Then p4 votes for p2 as well. With the promise
of p1's old life that would be a quorum, and nobody in it knows the message.
"""

from __future__ import annotations

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, Recover, WrongNomination
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Submit

STEP_LIMIT = 50_000
LATE = 100 * DELTA


def dead_vote(spec: Spec, seed: int) -> Scenario:
    topology = Topology.regular(groups=1, replicas=5, clients=1)
    p0, p1, p2, p3, p4 = topology.groups[0]
    (client,) = topology.clients
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=(Submit(10 * DELTA, client, (0,)),),
        faults=(
            WrongNomination(0, p2, DELTA, LATE, to=frozenset({p2})),
            Crash(p1, 3 * DELTA),
            Recover(p1, 4 * DELTA),
        ),
        seed=seed,
        delay=Scripted(
            Constant(DELTA),
            (
                Rule(LATE, src=p2, dst=p0),
                Rule(LATE, src=p2, dst=p3),
                Rule(14 * DELTA, src=p2, dst=p4, label="NewLeader"),
                Rule(LATE, src=p0, dst=p4, label="Accept"),
            ),
        ),
        step_limit=STEP_LIMIT,
    )
