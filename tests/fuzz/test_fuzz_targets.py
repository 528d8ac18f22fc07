"""The fuzz targets, short: the corpus is replayed, then a fixed number of inputs is tried."""

from __future__ import annotations

import pytest

from prove.results import Report
from sanitize import builds, prove, runs


@pytest.mark.slow
@pytest.mark.parametrize("target", prove.TARGETS)
def test_a_fuzz_target_holds(target: str) -> None:
    if not builds.compiler():
        pytest.skip("no C compiler")
    report = Report("sanitize", "short")
    prove.run_target(report, target)
    claim = report.claims[0]
    assert claim.held, claim.counterexample
    assert claim.figures["inputs"] >= 100


@pytest.mark.slow
def test_without_clang_the_plain_driver_tries_inputs_too() -> None:
    cc = builds.compiler()
    if not cc:
        pytest.skip("no C compiler")
    program = builds.build_fuzz("fuzz_open", builds.UNGUIDED, cc)
    outcome, inputs = runs.fuzz(program, builds.UNGUIDED, "fuzz_open", runs=150)
    assert outcome.passed, outcome.output[-4000:]
    assert inputs == 150
