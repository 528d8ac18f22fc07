"""Mistakes against the properties that no protocol promises under that name: the weaker forms of an
order, or its form for multicasts.

Each stands around a protocol that keeps the property, promised or implied. One process errs. For a
uniform form it crashes in the end: only what a process did before its crash shows the mistake.
"""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.checks.agreements import SENDER_FAULTY
from shmcast.multicast.checks.trace import DECIDE
from shmcast.multicast.protocols.core import Deliver, Effect, Event, LocalTime, Record
from shmcast.multicast.protocols.registry import Spec, lookup
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.broken.wrappers import (
    Dawdles,
    DeliversTwice,
    SwapsPairs,
    Wrapper,
    the_one_that_errs,
    wrapped,
)
from shmcast.multicast.sim.campaign import scenario_of
from shmcast.multicast.sim.faults import Crash
from shmcast.multicast.sim.mutants import mutant
from shmcast.multicast.sim.scenario import Scenario

SEEDS = 30
LAST = 200 * DELTA  # all is done, and a crash breaks nothing any more


class OneDawdles(Dawdles):
    """One process delivers long after the bound."""

    def tamper(self, effect: Deliver, now: LocalTime) -> list[Effect]:
        return super().tamper(effect, now) if self.chosen else [effect]


class OneGivesUp(Wrapper):
    """One process takes every sender for faulty."""

    answer = SENDER_FAULTY

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        return [self.decided(effect) for effect in super().handle(event, now)]

    def decided(self, effect: Effect) -> Effect:
        if not self.chosen or not isinstance(effect, Record) or effect.kind != DECIDE:
            return effect
        return replace(effect, detail=self.answer)


class OneInvents(OneGivesUp):
    answer = "'nobody broadcast this'"


def crash_at_the_end(spec: Spec, seed: int) -> Scenario:
    scenario = scenario_of(spec, seed)
    last = max((item.at for item in scenario.inputs), default=0) + LAST
    return replace(scenario, faults=(Crash(the_one_that_errs(scenario.topology), last),))


SWAPS = "one process swaps pairs of messages"
CORRECT: tuple[tuple[str, str, type[Wrapper], str], ...] = (
    ("reliable", "integrity", DeliversTwice, "every message is delivered twice"),
    ("fifo-broadcast", "fifo", SwapsPairs, SWAPS),
    ("causal-broadcast", "causal", SwapsPairs, SWAPS),
    ("causal-broadcast", "local-order", SwapsPairs, SWAPS),
    ("causal-broadcast", "global-causal", SwapsPairs, SWAPS),
    ("causal-broadcast", "local-causal", SwapsPairs, SWAPS),
    ("atomic-broadcast", "total", SwapsPairs, SWAPS),
    ("skeen", "global-total", SwapsPairs, SWAPS),
    ("skeen", "pairwise-total", SwapsPairs, SWAPS),
    ("skeen", "local-total", SwapsPairs, SWAPS),
    ("baseline", "global-fifo", SwapsPairs, SWAPS),
    ("baseline", "local-fifo", SwapsPairs, SWAPS),
    ("trb", "trb-agreement", OneGivesUp, "one process takes every sender for faulty"),
)
CRASHING: tuple[tuple[str, str, type[Wrapper], str], ...] = (
    ("causal-broadcast", "uniform-local-order", SwapsPairs, SWAPS),
    ("causal-broadcast", "uniform-global-causal", SwapsPairs, SWAPS),
    ("causal-broadcast", "uniform-local-causal", SwapsPairs, SWAPS),
    ("skeen", "uniform-pairwise-total", SwapsPairs, SWAPS),
    ("skeen", "uniform-local-total", SwapsPairs, SWAPS),
    ("baseline", "uniform-local-fifo", SwapsPairs, SWAPS),
    ("reliable-timely", "uniform-real-time", OneDawdles, "one process delivers late"),
    ("trb", "uniform-trb-integrity", OneInvents, "one process delivers what nobody broadcast"),
)

for _table, _scenarios in ((CORRECT, None), (CRASHING, crash_at_the_end)):
    for _protocol, _property, _kind, _differs in _table:
        mutant(
            _protocol,
            f"against-{_property}",
            _differs,
            breaks=_property,
            seeds=SEEDS,
            build=wrapped(lookup(_protocol).build, _kind),
            scenarios=_scenarios,
        )
