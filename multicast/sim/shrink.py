"""Makes a failing scenario short: fewer messages, fewer faults, plainer delays.

Delta debugging (Zeller): drop a chunk, keep the rest if it still fails, halve the chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.delays import Constant
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.scenario import Scenario

Item = TypeVar("Item")
Fails = Callable[[Run], bool]

SEEDS_TRIED = 20


def shrink(scenario: Scenario, fails: Fails) -> Scenario:
    """The shortest scenario found that still fails. The given one must fail.

    Plain delays are easier to read, but some failures need the given ones to be short: both are
    tried.
    """

    def still(candidate: Scenario) -> bool:
        return fails(run(candidate))

    assert still(scenario), "nothing to shrink: the scenario does not fail"
    plain = _plainer(scenario, still)
    return min(_shortest(plain, still), _shortest(scenario, still), key=_size)


def _shortest(scenario: Scenario, still: Callable[[Scenario], bool]) -> Scenario:
    """Parts depend on each other (a fault may need the message it hits), so this repeats until
    nothing more can be dropped."""
    while True:
        before = _size(scenario)
        scenario = _shorter(scenario, still)
        scenario = _other_seed(scenario, still)
        if _size(scenario) == before:
            return scenario


def _size(scenario: Scenario) -> int:
    return len(tuple(scenario.inputs)) + len(scenario.faults)


def _shorter(scenario: Scenario, still: Callable[[Scenario], bool]) -> Scenario:
    faults = minimise(list(scenario.faults), lambda f: still(replace(scenario, faults=tuple(f))))
    scenario = replace(scenario, faults=tuple(faults))
    inputs = minimise(list(scenario.inputs), lambda i: still(replace(scenario, inputs=tuple(i))))
    return replace(scenario, inputs=tuple(inputs))


def _plainer(scenario: Scenario, still: Callable[[Scenario], bool]) -> Scenario:
    simplifications: tuple[Callable[[Scenario], Scenario], ...] = (
        lambda s: replace(s, delay=Constant()),
        lambda s: replace(s, clocks={}),
        lambda s: replace(s, fifo=True),
    )
    for simplify in simplifications:
        simpler = simplify(scenario)
        if still(simpler):
            scenario = simpler
    return scenario


def _other_seed(scenario: Scenario, still: Callable[[Scenario], bool]) -> Scenario:
    """Random delays of another seed may need one message less."""
    if isinstance(scenario.delay, Constant):
        return scenario
    best = scenario
    for seed in range(SEEDS_TRIED):
        candidate = replace(scenario, seed=seed)
        if still(candidate):
            shorter = _shorter(candidate, still)
            if _size(shorter) < _size(best):
                best = shorter
    return best


def minimise(items: list[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """A part of `items` that fails and of which no single item can be dropped."""
    chunk = len(items)
    while chunk >= 1:
        before = len(items)
        items = _drop_chunks(items, chunk, fails)
        if chunk > 1:
            chunk //= 2
        elif len(items) == before:
            break
    return items


def _drop_chunks(items: list[Item], chunk: int, fails: Callable[[list[Item]], bool]) -> list[Item]:
    start = 0
    while start < len(items):
        rest = items[:start] + items[start + chunk :]
        if fails(rest):
            items = rest
        else:
            start += chunk
    return items
