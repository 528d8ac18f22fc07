"""Reconfiguration under faults, and the mistake curve. A failure prints what replays it."""

import runpy
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from shmcast.multicast.checks.table import check
from shmcast.multicast.protocols.barrier_entries import Entry, Leave, Left
from shmcast.multicast.protocols.barrier_specs import build_with
from shmcast.multicast.protocols.barrier_stamping import Tail
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.broken.baseline import BreaksItsBarriers
from shmcast.multicast.sim.campaign import scenario_of
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Call

BENCH = Path(__file__).parents[2] / "bench" / "optimistic_mistakes.py"
LEAVES = 6


def with_leaves(scenario: Scenario) -> Scenario:
    """Groups leave at random, and have to join again for their next message."""
    topology, inputs = scenario.topology, tuple(scenario.inputs)
    rng = Random(f"{scenario.seed}/leaves")
    calls = []
    for _ in range(LEAVES if len(topology.groups) > 1 else 0):
        process = rng.choice(topology.processes)
        others = [h for h in range(len(topology.groups)) if h != topology.group_of(process)]
        at = rng.randint(0, inputs[-1].at)
        calls.append(Call(at, process, Leave(rng.choice(others))))
    return replace(scenario, inputs=tuple(sorted((*inputs, *calls), key=lambda i: i.at)))


@pytest.mark.parametrize("protocol", ["baseline", "optimistic-sparse"])
def test_groups_leave_and_join_without_a_violation(protocol: str) -> None:
    for seed in range(60):
        outcome = run(with_leaves(scenario_of(lookup(protocol), seed)))
        report = outcome.report()
        assert not report.violated and not report.undetermined, f"seed {seed}\n{report}"


class StaysInItsOwnEyes(Tail):
    """Tells h that it leaves, and goes on as before."""

    __slots__ = ()

    def add(self, entry: Entry) -> None:
        before = dict(self.membership)
        Tail.add(self, entry)
        if isinstance(entry, Left):
            self.membership = before


class LeavesHalf(BreaksItsBarriers):
    tail = StaysInItsOwnEyes


def test_group_that_leaves_and_goes_on_sending_is_caught() -> None:
    broken = replace(lookup("baseline"), build=build_with(LeavesHalf), invariants=list)
    assert any(
        "timestamp-order" in run(with_leaves(scenario_of(broken, seed))).report().violated
        for seed in range(40)
    )


def test_fifo_reliable_multicast_keeps_its_promises_below() -> None:
    """§2.1 (i)-(iv), on the layer that the protocol stands on."""
    names = ("multicast-validity", "agreement", "uniform-integrity", "uniform-global-fifo")
    for seed in range(30):
        trace = run(scenario_of(lookup("optimistic"), seed)).trace
        violated = {n: v for n, v in check(trace, names, layer="fr").items() if v.violated}
        assert not violated, f"seed {seed}: {violated}"


def test_mistakes_fall_with_a_larger_window() -> None:
    """§7.1.3: "the percentage of mistakes decreases as the wait window becomes larger"."""
    measure = runpy.run_path(str(BENCH))["measure"]
    curve = [measure(window, messages=80, groups=3).mistakes for window in (0, 900, 4000)]
    assert curve[0] > curve[1] > curve[2] == 0


def test_estimated_window_errs_less_than_none() -> None:
    """§4.2: "we optimistically assume that p can estimate w(p)"."""
    measure = runpy.run_path(str(BENCH))["measure"]
    estimated, none = (measure(w, messages=80, groups=3).mistakes for w in (None, 0))
    assert estimated < none / 2
