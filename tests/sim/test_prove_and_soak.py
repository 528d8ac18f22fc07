"""The long campaigns made short: what they report, and that they object to a broken protocol."""

import runpy
from pathlib import Path

from sim import prove

TESTS = Path(__file__).parents[1]


def test_claim_states_runs_faults_and_virtual_hours() -> None:
    (claim,) = prove.campaign_claims(["reliable"], 12)
    assert claim.held and not claim.counterexample
    assert claim.figures["runs"] == 12 and claim.figures["faults"] > 0
    assert {"virtual hours", "violated", "open"} <= set(claim.figures)


def test_claim_about_a_broken_protocol_does_not_hold() -> None:
    (claim,) = prove.campaign_claims(["skeen~impatient"], 12)
    assert not claim.held
    assert "--replay" in claim.counterexample


def test_mutant_that_is_caught_names_its_seed() -> None:
    caught = prove.try_mutant("skeen~impatient")
    assert caught.caught and caught.evidence.startswith("seed ")


def test_full_proof_tries_every_mutant_and_a_short_one_some_of_each_protocol() -> None:
    every = {m.name for m in prove.chosen_mutants("full")}
    some = {m.name for m in prove.chosen_mutants("short")}
    assert every == set(prove.all_mutants()) and some < every
    assert {name.split("~")[0] for name in some} == set(prove.names())


def test_soak_goes_on_from_its_first_seed_and_says_where_it_ended() -> None:
    soak = runpy.run_path(str(TESTS / "soak" / "campaign.py"))["soak"]
    found, end = soak(["skeen"], 0.0, 500)
    assert found["skeen"].runs == end - 500 > 0
    assert found["skeen"].passed
