"""A scenario for one question: who speaks for a joiner that an agreement waits for?

Four members with a slotted broadcast; the last one joins. Another crashes just after the slot in
which the join took effect, and its mark of that slot is lost on its way to the joiner. So the
joiner saw that life end before its own began, and takes no part; the others wait for it.
"""

from __future__ import annotations

from shmcast.multicast.protocols.dab_messages import Join
from shmcast.multicast.protocols.dab_protocol import timing_of
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.delays import Constant
from shmcast.multicast.sim.faults import Crash, SendOmission
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Call, Submit


def late_joiner(spec: Spec, seed: int) -> Scenario:
    topology = Topology.regular(1, 4)
    talker, victim, _, joiner = topology.groups[0]
    timing = timing_of(4)
    joined = timing.join_slot(timing.join_wait)
    closing = (joined + 1) * timing.theta
    talk = (Submit(closing + n * timing.theta, talker, (0,)) for n in range(-3, 10))
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=(Call(0, joiner, Join(1)), *talk),
        faults=(
            SendOmission(victim, closing, closing + 1, frozenset({joiner})),
            Crash(victim, closing + 1),
        ),
        seed=seed,
        delay=Constant(timing.delta),
        step_limit=50_000,
    )
