"""Every mutant is caught within its seeds, and every promise has one that breaks it."""

import pytest

from shmcast.multicast.protocols.registry import lookup, names
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.campaign import replay_command, scenario_for
from shmcast.multicast.sim.mutants import all_mutants


@pytest.mark.parametrize("name", all_mutants())
def test_mutant_is_caught_within_its_seeds(name: str) -> None:
    mutant = all_mutants()[name]
    assert any(
        mutant.breaks in run(scenario_for(name, seed)).report().violated
        for seed in range(mutant.seeds)
    ), f"{mutant.differs}: {mutant.breaks} holds; {replay_command(name, 0)}"


@pytest.mark.parametrize("protocol", names())
def test_every_promise_has_a_mutant_that_breaks_it(protocol: str) -> None:
    broken = {m.breaks for n, m in all_mutants().items() if n.startswith(f"{protocol}~")}
    assert set(lookup(protocol).promises) <= broken
