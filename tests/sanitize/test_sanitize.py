"""The short form of tests/sanitize/prove.py: every tool holds, and every tool can speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from prove.results import Report
from sanitize import builds, prove, runs
from sanitize.mutants import CASES, TELLS, Case, told


@pytest.mark.slow
@pytest.mark.parametrize("tool", prove.TOOLS)
def test_the_c_tests_hold_under_each_tool(tool: str) -> None:
    report = Report("sanitize", "short")
    if tool not in prove.usable(report):
        pytest.skip(f"cannot be had here: {report.missing}")
    prove.run_tool(report, tool)
    claim = report.claims[0]
    assert claim.held, claim.counterexample


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.short], ids=lambda case: case.mutant.name
)
def test_a_broken_variant_is_caught(case: Case) -> None:
    report = Report("sanitize", "short")
    if case.tool not in (*prove.usable(report), "fuzz"):
        pytest.skip(f"cannot be had here: {report.missing}")
    prove.run_mutant(report, case)
    assert report.caught[0].caught, report.caught[0].evidence


def test_a_mutant_is_caught_by_what_it_breaks_and_by_no_deadline() -> None:
    race = runs.Outcome(False, 1.0, "WARNING: ThreadSanitizer: data race (pid=1)")
    assert told("no data race", race)
    assert not told("no leak", race)
    late = runs.Outcome(False, 150.0, "does not hold: hang\ndoes not hold: ends within 150 s", True)
    assert not told("bounded time", late)
    assert not told("no data race", runs.Outcome(True, 1.0, ""))
    assert {case.mutant.breaks for case in CASES} <= set(TELLS)


def test_a_full_proof_does_not_hold_if_its_fuzzers_were_not_guided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builds, "fuzz_tool", lambda: (builds.UNGUIDED, "cc"))
    monkeypatch.setattr(builds, "build_fuzz", lambda *_: Path("none"))
    fine = runs.Outcome(True, 1.0, "")
    monkeypatch.setattr(runs, "fuzz", lambda *_, **__: (fine, 100))
    for effort, held in (("short", True), ("full", False)):
        report = Report("sanitize", effort)
        prove.run_target(report, "fuzz_open")
        assert report.claims[0].held == held
    assert "not guided" in report.claims[0].counterexample


def test_what_a_tool_leaves_out_is_told() -> None:
    left = prove.not_run("valgrind", prove.checks("valgrind", "full"))
    assert "C tests: " in left[0]
    hidden = prove.not_run("tsan", prove.checks("tsan", "full"))
    assert any("race:copy_message" in line for line in hidden)
    assert prove.not_run("asan", prove.checks("asan", "full")) == []


def test_every_mutant_still_fits_the_sources(tmp_path: Path) -> None:
    for case in CASES:
        assert prove.mutated_sources(case.mutant, tmp_path).is_dir()
    assert len(CASES) >= 6


def test_a_mutants_objects_are_not_the_cores(tmp_path: Path) -> None:
    cc = builds.compiler()
    if not cc:
        pytest.skip("no C compiler")
    tree = prove.mutated_sources(CASES[0].mutant, tmp_path)
    broken = builds.build_unit_tests(builds.VALGRIND, cc, tree)
    assert broken != builds.build_unit_tests(builds.VALGRIND, cc)
