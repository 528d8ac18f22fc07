"""The way in: `simulate("skeen", groups=3, messages=100, seed=7).check()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec, lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant, Delay
from shmcast.multicast.sim.engine import Delivered, Engine
from shmcast.multicast.sim.faults import Fault
from shmcast.multicast.sim.recorder import Recording
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Input, random_submissions

DELTA = 1000  # the default δ, in ticks


def simulate(
    protocol: str | Spec,
    *,
    groups: int = 3,
    replicas: int = 1,
    clients: int = 2,
    messages: int = 100,
    seed: int = 0,
    faults: Iterable[Fault] = (),
    topology: Topology | None = None,
    inputs: Iterable[Input] | None = None,
    interval: int = 300,
    dest_max: int | None = None,
    delay: Delay | None = None,
    fifo: bool = True,
    clocks: Mapping[ProcessId, Clock] | None = None,
    options: Mapping[str, object] | None = None,
    detect_ticks: int = 5 * DELTA,
    until: int | None = None,
    step_limit: int | None = None,
    record: Recording = "full",
    invariants: bool = True,
    on_deliver: Delivered | None = None,
) -> Run:
    """Runs one scenario to its end. The same arguments give the same run, event by event.

    Without `inputs`, `messages` random multicasts are submitted, `interval` ticks apart on
    average. `record="application"` keeps no transmissions; a callable keeps nothing at all.
    """
    spec = lookup(protocol) if isinstance(protocol, str) else protocol
    topology = topology or Topology.regular(groups, replicas, clients)
    if inputs is None:
        inputs = random_submissions(topology, messages, seed, interval=interval, dest_max=dest_max)
        if not callable(record):
            inputs = tuple(inputs)  # so that the scenario can be run again
    scenario = Scenario(
        spec=spec,
        topology=topology,
        inputs=inputs,
        faults=tuple(faults),
        seed=seed,
        delay=delay or Constant(DELTA),
        fifo=fifo,
        clocks=clocks or {},
        options=options or {},
        detect_ticks=detect_ticks,
        until=until,
        step_limit=step_limit,
    )
    return run(scenario, record=record, invariants=invariants, on_deliver=on_deliver)


def run(
    scenario: Scenario,
    *,
    record: Recording = "full",
    invariants: bool = True,
    on_deliver: Delivered | None = None,
) -> Run:
    engine = Engine(scenario, record, invariants=invariants, on_deliver=on_deliver)
    engine.run()
    return Run(scenario, engine)
