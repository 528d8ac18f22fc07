"""Every protocol keeps its promises in seeded runs. A failure prints the command that replays it;
test_mutants.py shows that a broken protocol fails."""

from collections.abc import Callable

import pytest

from shmcast.multicast.protocols.registry import lookup, names
from shmcast.multicast.sim.campaign import (
    Campaign,
    campaign,
    campaign_with_faults,
    scenario_of,
)
from shmcast.multicast.sim.faults import (
    ClockFault,
    Crash,
    Fault,
    Recover,
    Slow,
    WrongNomination,
    WrongSuspicion,
)

RUNS = 300  # with faults; those without are left to `make prove`

Summary = Callable[[str, object], None]


def summarise(found: Campaign, record_property: Summary) -> None:
    """For the table at the end of `make test`: conftest.py."""
    row = [found.name, found.runs, found.with_faults, found.faults.total(), found.virtual_hours]
    record_property("campaign", row)


@pytest.mark.parametrize("protocol", names())
def test_campaign_finds_no_violation(protocol: str, record_property: Summary) -> None:
    found = campaign_with_faults(lookup(protocol), RUNS)
    summarise(found, record_property)
    assert not found.failures, "\n".join(found.failures.values())
    assert not found.undetermined, "a run that stays open shows no liveness"
    assert found.with_faults == RUNS <= found.faults.total()


def test_run_in_which_no_fault_happens_does_not_count_as_one_with_faults() -> None:
    """A third of the seeds draw none."""
    found = campaign(lookup("skeen"), range(30))
    assert 0 < found.with_faults < found.runs == 30


def drawn(name: str, seeds: int = 150) -> list[tuple[Fault, ...]]:
    return [scenario_of(lookup(name), seed).faults for seed in range(seeds)]


@pytest.mark.parametrize("name", names())
def test_no_mistake_is_drawn_that_nobody_listens_to(name: str) -> None:
    allowed = lookup(name).tolerates
    kinds = {type(fault) for faults in drawn(name) for fault in faults}
    assert (WrongNomination in kinds) == allowed.nominations
    assert (WrongSuspicion in kinds) == allowed.suspicions


@pytest.mark.parametrize("name", ["wbcast", "wbcast-acks", "dab"])
def test_some_that_came_back_crash_again_and_some_of_them_come_back(name: str) -> None:
    assert {2, 3} & {len(f) for faults in drawn(name) for f in lives(faults) if f[-1] is Crash}
    assert {4} & {len(f) for faults in drawn(name) for f in lives(faults)}


def lives(faults: tuple[Fault, ...]) -> list[list[type[Fault]]]:
    """Crash, Recover, … of each process, by time."""
    found: dict[int, list[tuple[int, type[Fault]]]] = {}
    for fault in faults:
        if isinstance(fault, Crash | Recover):
            found.setdefault(fault.process, []).append((fault.at, type(fault)))
    return [[kind for _, kind in sorted(f, key=lambda one: one[0])] for f in found.values()]


TIMING = [name for name in names() if lookup(name).tolerates.timing]


@pytest.mark.parametrize("name", TIMING)
def test_timing_failures_are_drawn_of_no_more_than_may_be_faulty(name: str) -> None:
    some = set()
    for faults in drawn(name):
        failures = [f for f in faults if isinstance(f, Slow | ClockFault) and f.faulty]
        assert len({f.process for f in failures}) <= 2
        assert not failures or not any(isinstance(fault, Crash) for fault in faults)
        some |= {type(failure) for failure in failures}
    assert some == {Slow, ClockFault}


def test_timing_failures_are_drawn_for_timed_diffusion_and_what_stands_on_it() -> None:
    assert TIMING == ["timed-causal-atomic-ahead", "timed-fifo-atomic", "timed-reliable"]


@pytest.mark.parametrize("seed", [7971, 9756])
def test_run_does_not_close_while_a_message_of_its_load_is_under_way(seed: int) -> None:
    """A link that took 2.2 s held up a member; the run was over after 0.8 s, and it was blamed."""
    found = campaign(lookup("baseline-null"), [seed])
    assert found.passed, str(found)
