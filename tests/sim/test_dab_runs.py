"""Whole runs of Dynamic Atomic Broadcast: chains of crashes, clocks that keep no rate."""

from dataclasses import replace
from itertools import pairwise

import pytest

from shmcast.multicast.protocols.dab import Dab
from shmcast.multicast.protocols.dab_first_round import FirstRound
from shmcast.multicast.protocols.dab_manager import Manager
from shmcast.multicast.protocols.dab_protocol import TIMING, builder
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.campaign import scenario_of
from shmcast.multicast.sim.faults import ClockFault, SendOmission
from shmcast.multicast.sim.last_words import last_words
from shmcast.multicast.sim.late_joiner import late_joiner
from shmcast.multicast.sim.wobble import Timeline

DAB = lookup("dab")


class NoWait(FirstRound):
    def is_over(self, now: int) -> bool:
        return not self.awaited


class NoWaitManager(Manager):
    first_round = NoWait


class DabWithoutWait(Dab):
    manager_kind = NoWaitManager


def test_chain_of_crashes_that_lose_their_last_words_splits_no_decision() -> None:
    """Mutant `decides-too-soon` fails in the same scenarios."""
    for seed in range(60):
        outcome = run(last_words(DAB, seed), record="application")
        assert not outcome.check().undetermined, f"last words, seed {seed}"


def test_joiner_that_takes_no_part_holds_up_nobody() -> None:
    """Mutant `helps-nobody` fails in the same scenario."""
    assert not run(late_joiner(DAB, 0)).check().undetermined


def test_first_round_needs_no_wait_of_its_own() -> None:
    """Decision 0030: the wait of Δ + Θ keeps rounds in step and guards nothing."""
    without = replace(DAB, build=builder(DabWithoutWait))
    for seed in range(40):
        run(last_words(without, seed), record="application").check()
        run(scenario_of(without, seed), record="application").check()


@pytest.mark.parametrize("seed", range(12))
def test_clock_that_wobbles_stays_within_half_of_gamma_and_never_goes_back(seed: int) -> None:
    scenario = scenario_of(DAB, seed)
    for process, clock in scenario.clocks.items():
        changes = [f for f in scenario.faults if isinstance(f, ClockFault) and f.process == process]
        timeline = Timeline(clock, tuple(changes))
        end = changes[-1].at if changes else 0
        shown = [timeline.at(now).local(now) - now for now in range(0, end, 97)]
        assert all(abs(offset) <= TIMING.gamma // 2 for offset in shown)
        assert all(after - before > -97 for before, after in pairwise(shown))


def test_campaign_draws_many_members_many_crashes_and_lost_last_words() -> None:
    scenarios = [scenario_of(DAB, seed) for seed in range(120)]
    assert {len(s.topology.groups[0]) for s in scenarios} == {4, 5, 6}
    lost = [sum(isinstance(f, SendOmission) for f in s.faults) for s in scenarios]
    assert max(lost) >= 3
    assert any(isinstance(f, ClockFault) for s in scenarios for f in s.faults)
