"""Checks the Promela models with spin, and that spin catches each broken variant of them.

PYTHONPATH=tests python -m models.prove --effort short|full --out FILE
"""

from __future__ import annotations

import re
import sys
from functools import partial

from models import spin
from models.cases import MODELS, MUTANTS, Case, Mutant
from prove.pool import run_all
from prove.results import Caught, Claim, Report, main

PARTS = re.compile(r",? and |, ")  # "consensus and validity"


def check(case: Case) -> Claim:
    found = spin.search(case.model, case.switches, quick=case.short)
    held = found.errors == 0 and found.complete
    return Claim(
        name=case.name,
        says=case.says,
        held=held,
        figures={
            "states": found.states,
            "depth": found.depth,
            "memory MB": round(found.memory_mb),
            "search": "exhaustive" if found.complete else "not complete",
        },
        seconds=round(found.seconds, 1),
        command=spin.command(case.model, case.switches, quick=case.short),
        counterexample="" if held else f"{found.complaint}\n{found.story}",
    )


def catch(mutant: Mutant) -> Caught:
    switches = (*mutant.switches, f"MUTANT_{mutant.name}")
    found = spin.search(mutant.model, switches, quick=True)
    last_words = found.story.splitlines()[-3:]
    evidence = f"{found.broken}: {found.complaint} | {'; '.join(last_words)}" if found.errors else (
        f"{found.states} states, nothing found{'' if found.complete else '; ' + found.complaint}"
    )  # fmt: skip
    return Caught(
        mutant=f"{mutant.model}.pml: {mutant.name.lower().replace('_', ' ')}",
        breaks=mutant.breaks,
        caught=mutant.breaks in PARTS.split(found.broken),
        by=spin.command(mutant.model, switches, quick=True),
        evidence=evidence,
        seconds=round(found.seconds, 1),
    )


def prove(report: Report) -> None:
    reason = spin.available()
    if reason:
        report.missing.append(reason)
        return
    full = report.effort == "full"
    cases = [case for case in MODELS if full or case.short]
    mutants = [mutant for mutant in MUTANTS if full or mutant.short]
    report.claims += run_all((case.cost, partial(check, case)) for case in cases)
    report.caught += run_all((0, partial(catch, mutant)) for mutant in mutants)


if __name__ == "__main__":
    sys.exit(main("models", prove))
