"""Every protocol keeps its promises in seeded runs. A failure prints the command that replays it;
test_mutants.py shows that a broken protocol fails."""

import pytest

from shmcast.multicast.protocols.registry import lookup, names
from shmcast.multicast.sim.campaign import campaign

SEEDS = 300


@pytest.mark.parametrize("protocol", names())
def test_campaign_finds_no_violation(protocol: str) -> None:
    found = campaign(lookup(protocol), range(SEEDS))
    print(found)
    assert not found.failures, "\n".join(found.failures.values())
    assert not found.undetermined, "a run that stays open shows no liveness"


@pytest.mark.parametrize("seed", [7971, 9756])
def test_run_does_not_close_while_a_message_of_its_load_is_under_way(seed: int) -> None:
    """A link that took 2.2 s held up a member; the run was over after 0.8 s, and it was blamed."""
    found = campaign(lookup("baseline-null"), [seed])
    assert found.passed, str(found)
