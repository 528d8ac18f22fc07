"""The models hold, and spin finds what is wrong with each broken variant: the short form."""

from __future__ import annotations

import pytest

from models import prove

REASON = prove.spin.available()
needs_spin = pytest.mark.skipif(bool(REASON), reason=REASON)


@needs_spin
@pytest.mark.parametrize("case", [c for c in prove.MODELS if c.short], ids=lambda c: c.name)
def test_the_model_holds(case: object) -> None:
    claim = prove.check(case)
    assert claim.held, f"{claim.counterexample}\nrepeat: {claim.command}"
    assert claim.figures["states"] > 0


@needs_spin
@pytest.mark.parametrize("mutant", [m for m in prove.MUTANTS if m.short], ids=lambda m: m.name)
def test_the_broken_variant_is_caught(mutant: object) -> None:
    caught = prove.catch(mutant)
    assert caught.caught, f"{caught.evidence}\nrepeat: {caught.by}"


@needs_spin
def test_a_search_that_was_cut_short_does_not_count() -> None:
    case = next(c for c in prove.MODELS if c.model == "wait")
    whole = prove.spin.search(case.model, case.switches, quick=True)
    assert whole.complete and whole.errors == 0
    prove.spin.DEPTH, depth = 5, prove.spin.DEPTH
    try:
        assert not prove.spin.search(case.model, case.switches, quick=True).complete
    finally:
        prove.spin.DEPTH = depth
