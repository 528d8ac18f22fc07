"""All interleavings of small cases, random ones of larger cases, and the mutants that are caught.

PYTHONPATH=tests python -m interleave.prove --effort short|full --out FILE
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from interleave import build, cases, mutants
from prove.mutants import CSRC, mutated_sources
from prove.pool import run_all
from prove.results import Caught, Claim, Report, main

SHOWN = 60  # lines of a counterexample
HUNT_S = 120  # at most: all are caught within seconds


def command(program: str, what: cases.Case) -> str:
    return " ".join([program, what.how, what.scenario, *what.options])


def extent(what: cases.Case, answer: dict[str, Any]) -> str:
    """How far the search went: no claim says more."""
    if what.how == "random":
        return "no violation in random schedules (a sample, not a proof)"
    if not answer["exhausted"]:
        return f"no violation until the {answer['stopped_by']} (not exhaustive)"
    bound = [o for o in what.options if o.startswith("preemptions=")]
    model = ", with every order in which the store buffers of x86 are emptied"
    words = f"every schedule with {bound[0]}" if bound else "every interleaving"
    return words + (model if cases.TSO in what.options else "")


def says(program: Path, what: cases.Case, answer: dict[str, Any]) -> str:
    listed = {line.split()[0]: line.split(None, 1)[1] for line in cases.listed(program)}
    text = f"{listed[what.scenario]}: {extent(what, answer)}"
    return f"{text}; the paper says that {what.breaks} is lost, and it is" if what.breaks else text


def claim(program: Path, what: cases.Case, seconds: float, to_the_end: bool) -> Claim:
    """`to_the_end`: a search that its limit of states cuts short does not hold."""
    began = time.monotonic()
    answer = cases.run(program, what, seconds)
    broke = not answer["held"]
    complete = answer["exhausted"] or not to_the_end
    shown = ""
    if broke:
        lines = cases.story(program, what, answer["schedule"]).splitlines()
        shown = "\n".join([answer["violation"], f"told by: {answer['replay']}", *lines[-SHOWN:]])
    elif not complete:
        shown = f"not searched to the end: {answer['stopped_by']}, {answer['states']} states"
    return Claim(
        name=f"{what.name}{' at random' if what.how == 'random' else ''}",
        says=says(program, what, answer),
        held=broken(answer) == what.breaks if what.breaks else not broke and complete,
        figures={
            "search": what.how if answer["exhausted"] or what.how == "random" else "incomplete",
            "states": answer["states"],
            "executions": answer["executions"],
            "steps": answer["steps"],
        },
        seconds=round(time.monotonic() - began, 2),
        command=command("tests/interleave/checker", what),
        counterexample="" if what.breaks else shown,
    )


def broken(answer: dict[str, Any]) -> str:
    """The property that the violation names; empty if there is none."""
    return str(answer["violation"]).split(":")[0]


def sound(program: Path, what: cases.Case) -> Claim:
    """The reduction (sched.c) leaves out no end of the case."""
    began = time.monotonic()
    full = cases.Case(what.scenario, (*what.options, "reduction=0"))
    reduced, whole = (cases.run(program, one) for one in (what, full))
    ends = [(a["outcomes"], a["outcome"], a["held"], a["exhausted"]) for a in (reduced, whole)]
    return Claim(
        name=f"{what.name} with and without the reduction",
        says="the search that takes steps of no consequence at once, and the one that does not, "
        "meet the same ends",
        held=ends[0] == ends[1] and reduced["exhausted"],
        figures={"ends": reduced["outcomes"], "states": reduced["states"],
                 "states without": whole["states"]},
        seconds=round(time.monotonic() - began, 2),
        command=command("tests/interleave/checker", full),
        counterexample="" if ends[0] == ends[1] else f"reduced {ends[0]}, whole {ends[1]}",
    )  # fmt: skip


def hunt(hunted: mutants.Hunted, into: Path, seconds: float) -> Caught:
    """Random schedules until one breaks the property that the mutant names, and no other."""
    began = time.monotonic()
    program = build.build(mutated_sources(hunted.mutant, into), into)
    answer = cases.run(program, hunted.case, seconds)
    caught = broken(answer) == hunted.mutant.breaks
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
        works: list[tuple[float, Callable[[], Claim | Caught]]] = []
        for what in [*cases.ALL, *cases.NEGATIVE, *([] if short else cases.SOME)]:
            if what.short or not short:
                to_the_end = not short and what in cases.ALL and what.how != "random"
                works.append((what.seconds, partial(claim, program, what, 0, to_the_end)))
        works += [
            (5, partial(sound, program, what)) for what in cases.SOUND[: 1 if short else None]
        ]
        for hunted in mutants.HUNTED:
            if hunted.short or not short:
                works.append((HUNT_S, partial(hunt, hunted, into, HUNT_S)))
        for done in run_all(works):
            if isinstance(done, Claim):
                report.claims.append(done)
            else:
                report.caught.append(done)
    report.missing.append("load reordering: a missing acquire is beyond this checker (memory.c)")


if __name__ == "__main__":
    sys.exit(main("interleavings", prove))
