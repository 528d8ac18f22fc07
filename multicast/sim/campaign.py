"""Many seeded runs of one protocol, each a scenario of its own: `shmcast sim --campaign`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.protocols.registry import Spec, lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA, run
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant, Delay, HeavyTailed, SlowLinks, Uniform
from shmcast.multicast.sim.mutants import MUTANT_MARK, find_mutant
from shmcast.multicast.sim.random_faults import crashes_again, random_faults, timing_failures
from shmcast.multicast.sim.recorder import Recording
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.weather import weather
from shmcast.multicast.sim.wobble import in_slots
from shmcast.multicast.sim.workload import Call, Input, random_submissions

MESSAGES_MAX = 30
STEP_LIMIT = 50_000  # a run that takes more is stuck in a loop, and stays open
TICKS_PER_HOUR = 3_600_000_000  # at one microsecond each


def scenario_of(spec: Spec, seed: int) -> Scenario:
    """The scenario that this seed stands for: shape, load, delays, clocks, faults."""
    rng = Random(f"{seed}/scenario")
    topology = rng.choice(spec.shapes)
    interval = rng.choice((50, 300, 2000))
    messages = rng.randint(1, MESSAGES_MAX)
    span = messages * interval + 5 * DELTA
    faults = random_faults(spec, topology, rng, span)
    more = Random(f"{seed}/more faults")
    scenario = Scenario(
        spec=spec,
        topology=topology,
        inputs=_inputs(spec, topology, messages, interval, seed),
        faults=(
            *(tuple(timing_failures(spec, topology, more, span)) or faults),
            *crashes_again(spec, faults, more, span),
            *weather(spec, topology, seed, span),
        ),
        seed=seed,
        delay=_delay(spec, topology, rng),
        fifo=not spec.tolerates.reordering or rng.random() < 0.5,
        clocks=_clocks(spec, topology, rng),
        step_limit=STEP_LIMIT,
    )
    return in_slots(scenario, span) if spec.tolerates.loss_window else scenario


def _inputs(
    spec: Spec, topology: Topology, messages: int, interval: int, seed: int
) -> tuple[Input, ...]:
    """Multicasts, and the protocol's other calls, by time."""
    inputs: list[Input] = []
    if spec.multicasts:
        inputs += random_submissions(topology, messages, seed, interval=interval)
    if spec.calls is not None:
        rng = Random(f"{seed}/calls")
        inputs += [Call(*call) for call in spec.calls(topology, rng, messages * interval)]
    return tuple(sorted(inputs, key=lambda item: item.at))


def _delay(spec: Spec, topology: Topology, rng: Random) -> Delay:
    if spec.tolerates.delay_max is not None:
        top = spec.tolerates.delay_max
        return rng.choice((Constant(top), Uniform(min(1, top), top)))
    usual = rng.choice((Constant(DELTA), Uniform(1, 2 * DELTA), HeavyTailed(DELTA)))
    group = topology.groups[0]
    if not spec.tolerates.crashes_per_group(len(group)) or rng.random() < 0.5:
        return usual
    links = [(p, q) for p in group for q in group if p != q]
    slow = frozenset(rng.sample(links, rng.randint(1, len(links) // 2)))
    return SlowLinks(usual, slow, rng.choice((5, 20)))


def _clocks(spec: Spec, topology: Topology, rng: Random) -> dict[ProcessId, Clock]:
    skew, drift = spec.tolerates.skew_max, spec.tolerates.drift_ppm_max
    if not skew and not drift:
        return {}
    return {
        p: Clock(rng.randint(-(skew // 2), skew // 2), rng.randint(-drift, drift))
        for p in topology.processes
    }


def recording_for(spec: Spec) -> Recording:
    """No more than its promises need: keeping every transmission costs a quarter of a run."""
    return "parts" if "genuineness" in spec.promises else "application"


@dataclass(slots=True)
class Campaign:
    """What a campaign found, and how much it looked at. Parts of one can be added up."""

    name: str
    runs: int = 0
    with_faults: int = 0  # runs in which at least one fault happened
    steps: int = 0
    virtual_ticks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)  # by seed
    undetermined: list[int] = field(default_factory=list)  # seeds of runs that stayed open

    def add(self, seed: int, outcome: Run) -> None:
        report = outcome.report()
        self.runs += 1
        self.with_faults += bool(outcome.faults)
        self.steps += outcome.steps
        self.virtual_ticks += outcome.ended_at
        self.faults.update(outcome.faults)
        if report.violated:
            self.failures[seed] = f"{report}\nreplay: {replay_command(self.name, seed)}"
        elif report.undetermined:
            self.undetermined.append(seed)

    def merge(self, other: Campaign) -> None:
        self.runs += other.runs
        self.with_faults += other.with_faults
        self.steps += other.steps
        self.virtual_ticks += other.virtual_ticks
        self.faults.update(other.faults)
        self.failures.update(other.failures)
        self.undetermined += other.undetermined

    @property
    def passed(self) -> bool:
        return not self.failures and not self.undetermined

    @property
    def virtual_hours(self) -> float:
        return self.virtual_ticks / TICKS_PER_HOUR

    def __str__(self) -> str:
        faults = ", ".join(f"{n} {kind}" for kind, n in sorted(self.faults.items())) or "none"
        return (
            f"{self.name}: {self.runs} runs, {self.with_faults} with faults, {self.steps} steps, "
            f"{self.virtual_hours:.4f} virtual hours, {self.faults.total()} faults: {faults}; "
            f"{len(self.failures)} violated, {len(self.undetermined)} undetermined"
        )


def campaign(spec: Spec, seeds: Iterable[int]) -> Campaign:
    found = Campaign(spec.name)
    for seed in seeds:
        _look_at(scenario_of(spec, seed), found)
    return found


def campaign_with_faults(spec: Spec, runs: int) -> Campaign:
    """Seeds from 0 on, but for those that draw no fault, until so many runs had one: a fault that
    is drawn need not happen, as a crash inside a step that never comes."""
    found = Campaign(spec.name)
    drawn = (scenario for seed in count() if (scenario := scenario_of(spec, seed)).faults)
    while found.with_faults < runs:
        _look_at(next(drawn), found)
    return found


def _look_at(scenario: Scenario, found: Campaign) -> None:
    seed = scenario.seed
    try:
        found.add(seed, run(scenario, record=recording_for(scenario.spec)))
    except Exception as error:
        error.add_note(f"replay: {replay_command(found.name, seed)}")
        raise


def replay_command(name: str, seed: int) -> str:
    return f"shmcast sim {name} --replay {seed} --diagram"


def spec_of(name: str) -> Spec:
    """A protocol by its name, or a broken variant as "protocol~mutant"."""
    return find_mutant(name).spec if MUTANT_MARK in name else lookup(name)


def scenario_for(name: str, seed: int) -> Scenario:
    """The scenario of this seed for a protocol or a mutant; some mutants have their own."""
    if MUTANT_MARK in name:
        found = find_mutant(name)
        if found.scenarios is not None:
            return found.scenarios(found.spec, seed)
    return scenario_of(spec_of(name), seed)
