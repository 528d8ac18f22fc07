"""Whole runs of WbCast: stability of leaders, leaders that change all the time."""

import pytest

from shmcast.multicast.protocols.registry import World, lookup
from shmcast.multicast.protocols.wbcast_invariants import invariant_6
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.sim.api import run, simulate
from shmcast.multicast.sim.campaign import scenario_of
from shmcast.multicast.sim.churn import churn, memory_loss
from shmcast.multicast.sim.run import Run


def members(outcome: Run) -> list[Member]:
    return [m for m in outcome.machines.values() if isinstance(m, Member)]


def test_nothing_but_sessions_is_kept_when_all_is_delivered() -> None:
    outcome = simulate("wbcast", groups=3, replicas=3, clients=3, messages=50, invariants=False)
    for machine in members(outcome):
        s = machine.state
        assert not (s.phase or s.local_ts or s.global_ts or s.messages or s.accepts or s.acks)


def test_every_run_ends_with_leaders_that_quorums_follow() -> None:
    """Invariant 6."""
    for seed in range(60):
        outcome = run(scenario_of(lookup("wbcast"), seed), record="application", invariants=False)
        invariant_6(World(outcome.scenario.topology, outcome.machines))


def test_member_that_loses_its_memory_amid_changing_leaders_harms_nobody() -> None:
    for seed in range(60):
        outcome = run(memory_loss(lookup("wbcast"), seed))
        assert not outcome.check().undetermined, f"memory loss seed {seed}"


@pytest.mark.parametrize("protocol", ["wbcast", "ft-skeen", "fastcast"])
def test_leaders_that_follow_each_other_quickly_lose_nothing(protocol: str) -> None:
    for seed in range(60):
        outcome = run(churn(lookup(protocol), seed))
        assert not outcome.check().undetermined, f"churn seed {seed}"
