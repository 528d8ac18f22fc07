"""The short form of tests/sanitize/prove.py: every tool holds, and every tool can speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from prove.results import Report
from sanitize import builds, prove
from sanitize.mutants import CASES, Case


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
