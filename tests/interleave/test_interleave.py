"""The checker itself, on programs whose outcomes are known, and the short form of its search."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interleave import build, cases, mutants, prove
from prove.mutants import CSRC, mutated_sources

SEARCHED = [what for what in cases.ALL if what.short]
HUNTED = [hunted for hunted in mutants.HUNTED if hunted.short]
SECONDS = 60


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interleave")


@pytest.fixture(scope="session")
def program(objects: Path) -> Path:
    return build.build(CSRC, objects)


@pytest.mark.parametrize(
    ("scenario", "model", "forbidden"),
    [
        ("litmus-sb", "sc", True),
        ("litmus-sb", "tso", False),
        ("litmus-sb-fences", "tso", True),
        ("litmus-sb-fences", "relaxed", True),
        ("litmus-mp", "tso", True),
        ("litmus-mp", "relaxed", False),
        ("litmus-mp-release", "relaxed", True),
    ],
)
def test_store_buffers_do_what_the_model_says(
    program: Path, scenario: str, model: str, forbidden: bool
) -> None:
    answer = cases.run(program, cases.case(f"{scenario} model={model}"), SECONDS)
    assert answer["held"] == forbidden
    assert answer["exhausted"] == forbidden


def test_a_tiny_program_has_the_states_that_can_be_counted_by_hand(program: Path) -> None:
    # Two threads, two steps each, where both can go on: (0,0), (0,1), (1,0), (1,1). Where only one
    # is left there is no choice, and no state is kept.
    answer = cases.run(program, cases.case("litmus-sb model=sc"), SECONDS)
    assert answer["states"] == 4


def test_the_same_search_finds_the_same_states(program: Path) -> None:
    what = cases.case("eager-2s1r grows=0")
    first, second = (cases.run(program, what, SECONDS) for _ in range(2))
    assert first["states"] == second["states"] > 1000
    assert first["choices"] == second["choices"]


def test_the_reduction_loses_no_violation(program: Path) -> None:
    # Forbidden outcomes of both kinds are found by the reduced search as by random schedules.
    for how in ("all", "random"):
        what = cases.case("litmus-sb model=tso", how=how)
        assert not cases.run(program, what, 1)["held"]


@pytest.mark.parametrize("what", cases.SOUND[:1], ids=lambda what: what.name)
def test_the_reduction_loses_no_end(program: Path, what: cases.Case) -> None:
    claim = prove.sound(program, what)
    assert claim.held, claim.counterexample
    assert claim.figures["states without"] > claim.figures["states"]
    assert claim.figures["ends"] > 1


def test_a_search_ends_by_its_states_and_says_so(program: Path) -> None:
    what = cases.Case("eager-2s1r", states=1000)
    answer = cases.run(program, what)
    assert not answer["exhausted"]
    assert answer["stopped_by"] == "limit of states"
    claim = prove.claim(program, what, 0, to_the_end=True)
    assert not claim.held
    assert "not exhaustive" in claim.says


def test_only_the_named_property_counts(program: Path) -> None:
    """`crash` with a fast receiver loses validity: that is no violation of ordering."""
    fast = cases.case("crash-fast-receiver property=ordering", how="random")
    assert cases.run(program, fast, 1)["held"]


@pytest.mark.parametrize("what", SEARCHED, ids=lambda what: what.name)
def test_every_interleaving(program: Path, what: cases.Case) -> None:
    answer = cases.run(program, what)
    assert answer["held"], cases.story(program, what, answer["schedule"])
    assert answer["exhausted"], answer["stopped_by"]


@pytest.mark.parametrize("what", cases.NEGATIVE, ids=lambda what: what.name)
def test_the_first_protocol_breaks_where_the_paper_says_so(program: Path, what: cases.Case) -> None:
    answer = cases.run(program, what, SECONDS)
    assert not answer["held"]
    # The command that the answer names tells the same failure again.
    words = answer["replay"].split()
    assert words[0] == "tests/interleave/checker"
    told = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    assert told.stdout.splitlines()[-1] == answer["violation"]


@pytest.mark.parametrize("hunted", HUNTED, ids=lambda hunted: hunted.mutant.name)
def test_a_mutant_is_caught_and_its_schedule_replays(objects: Path, hunted: mutants.Hunted) -> None:
    mutated = build.build(mutated_sources(hunted.mutant, objects), objects)
    what = hunted.case
    answer = cases.run(mutated, what, SECONDS)
    assert answer["violation"].startswith(f"{hunted.mutant.breaks}: ")
    told = cases.story(mutated, what, answer["schedule"])
    assert told.splitlines()[-1] == answer["violation"]
    assert " | 1: " in told.splitlines()[0]  # a column for each thread
