"""Every mutant is caught within its seeds; every promise, and every property, has one that breaks
it."""

from dataclasses import replace

import pytest

from shmcast.multicast.checks.table import PROPERTIES, TIMED
from shmcast.multicast.protocols.registry import Spec, lookup, names
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.campaign import replay_command, scenario_for
from shmcast.multicast.sim.mutants import MUTANT_MARK, Mutant, all_mutants
from shmcast.multicast.sim.run import Report

UNIFORM = "uniform-"


@pytest.mark.parametrize("name", all_mutants())
def test_mutant_is_caught_within_its_seeds(name: str) -> None:
    mutant = all_mutants()[name]
    assert any(
        mutant.conviction(run(scenario_for(name, seed)).report()) is not None
        for seed in range(mutant.seeds)
    ), f"{mutant.differs}: {mutant.breaks} holds; {replay_command(name, 0)}"


@pytest.mark.parametrize("protocol", names())
def test_every_promise_has_a_mutant_that_breaks_it(protocol: str) -> None:
    broken = {m.breaks for n, m in all_mutants().items() if n.startswith(f"{protocol}~")}
    assert set(lookup(protocol).promises) <= broken


@pytest.mark.parametrize("name", [*PROPERTIES, *TIMED])
def test_every_property_has_a_mutant_that_breaks_it(name: str) -> None:
    assert name in {mutant.breaks for mutant in all_mutants().values()}


def unpromised() -> list[str]:
    """Mutants against what their protocol keeps and does not promise under that name."""
    found = all_mutants().items()
    return [n for n, m in found if m.breaks in PROPERTIES.keys() | TIMED.keys() and is_added(m)]


def is_added(mutant: Mutant) -> bool:
    return mutant.breaks not in original(mutant).promises


def original(mutant: Mutant) -> Spec:
    return lookup(mutant.name.split(MUTANT_MARK)[0])


def first_conviction(mutant: Mutant) -> tuple[int, Report]:
    for seed in range(mutant.seeds):
        report = run(scenario_for(mutant.name, seed)).report(*properties_of(mutant))
        if mutant.breaks in report.violated:
            return seed, report
    raise AssertionError(f"{mutant.name} is not caught")


def properties_of(mutant: Mutant) -> set[str]:
    return {mutant.breaks, mutant.breaks.removeprefix(UNIFORM)}


@pytest.mark.parametrize("name", unpromised())
def test_protocol_without_the_mistake_keeps_the_property(name: str) -> None:
    """Else the mutant would show nothing about the checker."""
    mutant = all_mutants()[name]
    seed, _ = first_conviction(mutant)
    right = replace(scenario_for(name, seed), spec=original(mutant))
    assert not run(right).report(*properties_of(mutant)).violated


@pytest.mark.parametrize("name", [n for n in unpromised() if f"against-{UNIFORM}" in n])
def test_mistake_of_a_process_that_crashed_breaks_the_uniform_form_only(name: str) -> None:
    mutant = all_mutants()[name]
    _, report = first_conviction(mutant)
    assert set(report.violated) == {mutant.breaks}
