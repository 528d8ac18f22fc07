"""The frame of the proof: nothing that failed can pass for proven."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from prove import run
from prove.mutants import CSRC, Edit, Mutant, StaleMutant, mutated_sources
from prove.page import Ran, page
from prove.pool import run_all
from prove.results import Caught, Claim, Report
from prove.run import MUTANTS_LEAST, PARTS, digest, reusable, shortcomings


def claim(*, held: bool = True) -> Claim:
    return Claim("eager, sender", "nothing is lost", held, {"points": 1200}, 1.5, "repeat me")


def mutant(*, caught: bool = True) -> Caught:
    return Caught("no-fence", "ordering", caught, "repeat me", "r1 saw b before a", 0.5)


def ran(*claims: Claim, mutants: int = MUTANTS_LEAST) -> Ran:
    return Ran("models", Report("models", "full", list(claims), [mutant()] * mutants), 1.0)


def test_a_proof_in_which_all_holds_has_no_shortcoming() -> None:
    assert shortcomings([ran(claim())], MUTANTS_LEAST) == []


def test_a_claim_that_did_not_hold_fails_the_proof() -> None:
    wrong = shortcomings([ran(claim(), claim(held=False))], MUTANTS_LEAST)
    assert wrong == ["models: eager, sender did not hold"]


def test_a_surviving_mutant_fails_the_proof() -> None:
    one = Ran("models", Report("models", "full", [claim()], [mutant(caught=False)]), 1.0)
    assert shortcomings([one], 1) == ["models: no-fence survived"]


def test_a_part_without_report_fails_the_proof() -> None:
    assert shortcomings([Ran("crash", None, 0.1)], 0) == ["crash brought no report"]


def test_a_part_without_claims_fails_the_proof() -> None:
    assert shortcomings([ran()], MUTANTS_LEAST) == ["models claims nothing"]


def test_too_few_mutants_fail_the_proof() -> None:
    wrong = shortcomings([ran(claim(), mutants=MUTANTS_LEAST - 1)], MUTANTS_LEAST)
    assert wrong == ["only 19 broken variants were tried, not 20"]


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = Report("models", "full", [claim(), claim(held=False)], [mutant()], ["no spin here"])
    report.save(tmp_path / "deep" / "models.json")
    again = Report.load(tmp_path / "deep" / "models.json")
    assert again == report
    assert not again.passed


def test_the_page_has_a_place_for_every_part_and_shows_what_did_not_hold() -> None:
    bad = Report("models", "full", [claim(held=False)], [mutant(), mutant(caught=False)])
    text = page([Ran(part, bad, 1.0) for part in PARTS], "2026-01-31", 2)
    assert "{" not in text
    assert text.count("**no**: `repeat me`") == len(PARTS)
    assert text.count("| no-fence | ordering | **no** |") == len(PARTS)
    assert "| models | 1 | 0 | 2 | 1 | 1.0 |" in text


def test_a_mutant_whose_text_is_gone_is_an_error(tmp_path: Path) -> None:
    stale = Mutant("stale", "nothing", (Edit("agree.c", "no such text in this file", ""),))
    with pytest.raises(StaleMutant, match=r"stale: 0 times in csrc/agree\.c"):
        mutated_sources(stale, tmp_path)


def test_a_mutant_is_a_copy_with_its_edit_alone(tmp_path: Path) -> None:
    edit = Edit("turn.c", "#define SPINS 100", "#define SPINS 1")
    tree = mutated_sources(Mutant("few-spins", "nothing", (edit,)), tmp_path)
    assert "#define SPINS 1\n" in (tree / "turn.c").read_text()
    assert (tree / "agree.c").read_text() == (CSRC / "agree.c").read_text()


def test_a_report_is_reused_only_for_the_same_sources_and_effort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BUILD", tmp_path)
    assert reusable("models", "full") is None
    Report("models", "full", [claim()]).save(tmp_path / "models.json")
    known = {"effort": "full", "digest": digest(run.SOURCES["models"]), "minutes": 2.0}
    (tmp_path / "models.stamp").write_text(json.dumps(known))
    again = reusable("models", "full")
    assert again is not None and again.minutes == 2.0
    assert reusable("models", "short") is None
    (tmp_path / "models.stamp").write_text(json.dumps({**known, "digest": "of other sources"}))
    assert reusable("models", "full") is None


def test_the_digest_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "a.c").write_text("int a;")
    before = digest(["csrc"])
    assert digest(["csrc"]) == before
    (tmp_path / "csrc" / "a.c").write_text("int b;")
    assert digest(["csrc"]) != before
    (tmp_path / "csrc" / "tsan.supp").write_text("race:f")
    with_suppression = digest(["csrc"])
    (tmp_path / "csrc" / "tsan.supp").write_text("race:g")
    assert digest(["csrc"]) != with_suppression


def test_every_part_depends_on_how_mutants_are_made() -> None:
    for sources in run.SOURCES.values():
        assert "tests/prove/mutants.py" in sources
        assert all((run.ROOT / source).exists() for source in sources)


def test_works_run_side_by_side_the_longest_first_and_come_back_in_order() -> None:
    began: list[str] = []

    def work(name: str) -> str:
        began.append(name)
        return name

    done = run_all(
        [(cost, partial(work, name)) for cost, name in ((1, "a"), (9, "b"), (5, "c"))], 1
    )
    assert done == ["a", "b", "c"]
    assert began == ["b", "c", "a"]
