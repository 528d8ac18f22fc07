"""Every protocol keeps its promises in seeded runs. A failure prints the command that replays it;
test_mutants.py shows that a broken protocol fails."""

from collections.abc import Callable

import pytest

from shmcast.multicast.protocols.registry import lookup, names
from shmcast.multicast.sim.campaign import Campaign, campaign, campaign_with_faults

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


@pytest.mark.parametrize("seed", [7971, 9756])
def test_run_does_not_close_while_a_message_of_its_load_is_under_way(seed: int) -> None:
    """A link that took 2.2 s held up a member; the run was over after 0.8 s, and it was blamed."""
    found = campaign(lookup("baseline-null"), [seed])
    assert found.passed, str(found)
