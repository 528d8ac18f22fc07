"""Whole runs of WbCast: stability of leaders, leaders that change all the time."""

import pytest

from shmcast.multicast.protocols.registry import World, lookup
from shmcast.multicast.protocols.wbcast_invariants import invariant_6
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.sim.api import run, simulate
from shmcast.multicast.sim.broken.wbcast_acks import half_a_ballot
from shmcast.multicast.sim.campaign import campaign, scenario_of
from shmcast.multicast.sim.churn import churn, memory_loss
from shmcast.multicast.sim.dead_vote import dead_vote
from shmcast.multicast.sim.old_leader import old_leader
from shmcast.multicast.sim.run import Run


def members(outcome: Run) -> list[Member]:
    return [m for m in outcome.machines.values() if isinstance(m, Member)]


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks"])
def test_nothing_but_sessions_is_kept_when_all_is_delivered(protocol: str) -> None:
    outcome = simulate(protocol, groups=3, replicas=3, clients=3, messages=50, invariants=False)
    for machine in members(outcome):
        s = machine.state
        assert not (s.phase or s.local_ts or s.global_ts or s.messages or s.accepts or s.acks)


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks"])
def test_every_run_ends_with_leaders_that_quorums_follow(protocol: str) -> None:
    """Invariant 6."""
    for seed in range(60):
        outcome = run(scenario_of(lookup(protocol), seed), record="application", invariants=False)
        invariant_6(World(outcome.scenario.topology, outcome.machines))


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks"])
def test_member_that_loses_its_memory_amid_changing_leaders_harms_nobody(protocol: str) -> None:
    for seed in range(60):
        outcome = run(memory_loss(lookup(protocol), seed))
        assert not outcome.check().undetermined, f"memory loss seed {seed}"


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks", "ft-skeen", "fastcast"])
def test_leaders_that_follow_each_other_quickly_lose_nothing(protocol: str) -> None:
    for seed in range(60):
        outcome = run(churn(lookup(protocol), seed))
        assert not outcome.check().undetermined, f"churn seed {seed}"


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks"])
def test_message_that_only_a_lost_leader_delivered_is_not_taken_for_forgotten(
    protocol: str,
) -> None:
    """Its sender had told the leader before that it was finished; mutant `believes-at-once`."""
    outcome = run(old_leader(lookup(protocol), 0))
    assert not outcome.check().undetermined
    assert {e.proc for e in outcome.trace if e.kind == "deliver" and e.msg == (3, 1)} == {0, 1, 2}


@pytest.mark.parametrize("protocol", ["wbcast", "wbcast-acks"])
def test_promise_of_a_life_that_is_over_does_not_make_a_quorum(protocol: str) -> None:
    """Mutant `counts-the-dead` fails in the same scenario."""
    outcome = run(dead_vote(lookup(protocol), 0))
    assert not outcome.check().undetermined
    assert {e.proc for e in outcome.trace if e.kind == "deliver"} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("seed", [2292, 6326])
def test_follower_that_was_a_leader_waits_for_what_it_missed(seed: int) -> None:
    """It had been told, as a leader that nobody followed any more, that they were finished."""
    found = campaign(lookup("wbcast-acks"), [seed])
    assert found.passed, str(found)


def test_new_state_that_reaches_one_follower_of_five_decides_nothing() -> None:
    """Mutant `delivers-on-new-state` fails in the same scenario."""
    outcome = run(half_a_ballot(lookup("wbcast-acks"), 0))
    assert not outcome.check().undetermined
    ballots = {m.state.cballot.n for m in members(outcome) if m.g0 == 0}
    assert max(ballots) > 2, "the candidate's ballot was overtaken"
