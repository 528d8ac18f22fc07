"""All interleavings of small cases, random ones of larger cases, and the mutants that are caught.

PYTHONPATH=tests python -m interleave.prove --effort short|full --out FILE
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from interleave import build, cases, mutants
from prove.mutants import CSRC, mutated_sources
from prove.results import Caught, Claim, Report, main

SHOWN = 60  # lines of a counterexample
RANDOM_SHORT_S = 3


def command(program: str, what: cases.Case) -> str:
    return " ".join([program, what.how, what.scenario, *what.options])


def says(program: Path, what: cases.Case, answer: dict[str, object]) -> str:
    listed = {line.split()[0]: line.split(None, 1)[1] for line in cases.listed(program)}
    text = listed[what.scenario]
    if what.how == "random":
        return f"{text}: no violation in random schedules (a sample, not a proof)"
    if not answer["exhausted"]:
        return f"{text}: no violation until the {answer['stopped_by']} (not exhaustive)"
    bound = [o for o in what.options if o.startswith("preemptions=")]
    extent = f"every schedule with {bound[0]}" if bound else "every interleaving"
    return f"{text}: {extent}"


def claim(program: Path, what: cases.Case, seconds: float, to_the_end: bool) -> Claim:
    """`to_the_end`: a search that its time cuts short does not hold."""
    began = time.monotonic()
    answer = cases.run(program, what, seconds)
    broke = not answer["held"]
    complete = answer["exhausted"] or not to_the_end
    figures: dict[str, int | float | str] = {
        "search": what.how if answer["exhausted"] or what.how == "random" else "incomplete",
        "states": answer["states"],
        "executions": answer["executions"],
        "steps": answer["steps"],
    }
    text = says(program, what, answer)
    if what.breaks:
        text += f"; the paper says that {what.breaks} is lost, and it is"
    shown = ""
    if broke:
        lines = cases.story(program, what, answer["schedule"]).splitlines()
        shown = "\n".join([answer["violation"], f"told by: {answer['replay']}", *lines[-SHOWN:]])
    return Claim(
        name=f"{what.name}{' at random' if what.how == 'random' else ''}",
        says=text,
        held=broke if what.breaks else not broke and complete,
        figures=figures,
        seconds=round(time.monotonic() - began, 2),
        command=command("tests/interleave/checker", what),
        counterexample="" if what.breaks else shown,
    )


def hunt(hunted: mutants.Hunted, into: Path, seconds: float) -> Caught:
    began = time.monotonic()
    program = build.build(mutated_sources(hunted.mutant, into), into)
    what = cases.Case(hunted.scenario, hunted.options, how="random")
    answer = cases.run(program, what, seconds)
    caught = not answer["held"]
    tried = f"{answer['executions']} random schedules"
    return Caught(
        mutant=hunted.mutant.name,
        breaks=hunted.mutant.breaks,
        caught=caught,
        by=f"    PYTHONPATH=tests python -m interleave.hunt {hunted.mutant.name}",
        evidence=f"{answer['violation']} [{answer['schedule']}]" if caught else tried,
        seconds=round(time.monotonic() - began, 2),
    )


def prove(report: Report) -> None:
    short = report.effort == "short"
    with tempfile.TemporaryDirectory(prefix="interleave-") as scratch:
        into = Path(scratch)
        program = build.build(CSRC, into)
        for what in [*cases.ALL, *cases.NEGATIVE, *([] if short else cases.SOME)]:
            if what.short or not short:
                limit = RANDOM_SHORT_S if short and what.how == "random" else what.seconds
                to_the_end = not short and what in cases.ALL and what.how != "random"
                report.claims.append(claim(program, what, limit, to_the_end))
        for hunted in mutants.HUNTED:
            if hunted.short or not short:
                report.caught.append(hunt(hunted, into, 10 if short else 60))
    report.missing.append("load reordering: a missing acquire is beyond this checker (memory.c)")


if __name__ == "__main__":
    sys.exit(main("interleavings", prove))
