"""Sanitizers, valgrind and fuzzers over the C core: one part of the proof.

    PYTHONPATH=tests python -m sanitize.prove --effort short|full --out FILE [--only WORD]

See README.md beside this file.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from prove.mutants import mutated_sources
from prove.pool import run_all
from prove.results import Caught, Claim, Report, main
from sanitize import builds, runs
from sanitize.mutants import CASES, Case, told

HERE = "PYTHONPATH=tests python -m sanitize.prove --effort"
VALGRIND_STRESS = "threads_inside_a_handle_are_sent_away_when_it_is_closed"
TARGETS = {
    "fuzz_open": "a segment of any bytes is opened, read and used without crash, hang or leak",
    "fuzz_read": "wounds in a domain at work: no crash, no hang, no wrong delivery",
}
TOOLS = {tool.name: tool for tool in (builds.ASAN, builds.TSAN, builds.VALGRIND)}
SAYS = {
    "asan": "no invalid access, no undefined behaviour, no leak",
    "tsan": "no data race",
    "valgrind": "no invalid access, nothing uninitialised used, no leak",
}
Checks = list[tuple[str, tuple[str, ...]]]
UNGUIDED = "not guided: clang has no libFuzzer runtime here, and a full proof wants it"
SHORT_RUNS = {"fuzz_open": 500, "fuzz_read": 400}
FULL_SECONDS = 230


def usable(report: Report) -> list[str]:
    """The tools that can be had here; the others are named in the report."""
    found = []
    for name, tool in TOOLS.items():
        if tool.runner and not shutil.which(tool.runner[0]):
            report.missing.append(f"{tool.runner[0]}: not installed")
        else:
            found.append(name)
    if not builds.clang_with_fuzzer():
        report.missing.append("guidance of the fuzzers: no clang with libFuzzer; random mutation")
    report.missing.append(f"tsan: {SEVERAL_MAPPINGS}: it follows addresses, not memory")
    return found


def checks(tool: str, effort: str) -> Checks:
    """Program and arguments, one per run."""
    unit = [("test_core", (name,)) for name in runs.names("test_core.c")]
    stress = [("stress", (name,)) for name in runs.names("stress.c")]
    if tool == "valgrind":  # fifty times slower, one thread at a time
        chosen = [VALGRIND_STRESS, "eager_traffic_survives_failing_copies"]
        stress = [("stress", (name, "10")) for name in chosen[: 1 if effort == "short" else 2]]
        return (
            [("test_core", (n,)) for n in VALGRIND_UNITS] if effort == "short" else unit
        ) + stress
    if tool == "tsan":
        stress = [(program, args) for program, args in stress if args[0] != SEVERAL_MAPPINGS]
    if effort == "full":
        return unit + stress * 5
    # The short form's unit tests under asan are tests/unit/mailbox/test_core.py.
    return stress if tool == "asan" else unit + stress


# The thread sanitizer follows synchronisation by address. Threads that map one segment at several
# addresses order themselves by words that it takes for different ones, and now and then it says so.
SEVERAL_MAPPINGS = "eager_traffic_between_several_mappings"

VALGRIND_UNITS = (
    "the_first_proposal_is_everybodys_decision",
    "a_walk_goes_on_behind_a_failed_copy",
    "a_cut_mapping_reads_as_zeros_in_every_thread",
)


def programs(tool: str, csrc: Path = builds.CSRC) -> dict[str, Callable[[], Path]]:
    cc = builds.compiler() or "cc"
    return {
        "test_core": lambda: builds.build_unit_tests(TOOLS[tool], cc, csrc),
        "stress": lambda: builds.build_stress(TOOLS[tool], cc, csrc),
    }


def run_tool(report: Report, tool: str) -> None:
    """Builds what the tool runs, then runs it, as many at once as there are cores."""
    began = time.monotonic()
    made = {name: make() for name, make in programs(tool).items()}
    listed = checks(tool, report.effort)
    outcomes = run_all(
        (1, partial(runs.run, made[program], TOOLS[tool], *arguments))
        for program, arguments in listed
    )
    failed = [
        f"{program} {' '.join(arguments)}\n{outcome.output[-4000:]}"
        for (program, arguments), outcome in zip(listed, outcomes, strict=True)
        if not outcome.passed
    ]
    report.claims.append(
        Claim(
            f"{tool}: C tests",
            SAYS[tool],
            not failed,
            {"runs": len(listed), "of them failed": len(failed)},
            time.monotonic() - began,
            f"{HERE} {report.effort} --only {tool}",
            failed[0] if failed else "",
        )
    )
    report.missing += not_run(tool, listed)


def not_run(tool: str, listed: Checks) -> list[str]:
    """The C tests that this tool leaves out, and what it is told not to say."""
    found = []
    ran = {arguments[0] for _, arguments in listed}
    every = [*runs.names("test_core.c"), *runs.names("stress.c")]
    if left := [name for name in every if name not in ran]:
        found.append(
            f"{tool}: {len(left)} of {len(every)} C tests: {', '.join(left[:8])}"
            + (" …" if len(left) > 8 else "")
        )
    if tool == "tsan":
        lines = builds.SUPPRESSIONS.read_text().splitlines()
        kept = [line for line in lines if line and not line.startswith("#")]
        found.append(
            f"tsan: reports that its suppressions hide: {', '.join(kept)} (tsan.supp says why)"
        )
    return found


def run_target(report: Report, target: str) -> None:
    tool, cc = builds.fuzz_tool()
    program = builds.build_fuzz(target, tool, cc or "cc")
    amount = {"runs": SHORT_RUNS[target]} if report.effort == "short" else {"seconds": FULL_SECONDS}
    outcome, inputs = runs.fuzz(program, tool, target, **amount)
    wrong = "" if outcome.passed else outcome.output[-4000:]
    if report.effort == "full" and tool is not builds.GUIDED:
        wrong += UNGUIDED
    report.claims.append(
        Claim(
            f"{target}, {tool.name}",
            TARGETS[target],
            not wrong,
            {"inputs": inputs},
            outcome.seconds,
            f"{HERE} {report.effort} --only {target}",
            wrong,
        )
    )


def try_mutant(case: Case, folder: Path) -> runs.Outcome:
    tree = mutated_sources(case.mutant, folder)
    if case.tool != "fuzz":
        program = programs(case.tool, tree)[case.program]()
        return runs.run(program, TOOLS[case.tool], *case.arguments)
    tool, cc = builds.fuzz_tool()
    program = builds.build_fuzz(case.program, tool, cc or "cc", tree)
    return runs.fuzz(program, tool, case.program, runs=30000)[0]


def run_mutant(report: Report, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome = try_mutant(case, Path(folder))
    report.caught.append(
        Caught(
            case.mutant.name,
            case.mutant.breaks,
            told(case.mutant.breaks, outcome),
            f"{HERE} {report.effort} --only {case.mutant.name}",
            outcome.evidence,
            outcome.seconds,
        )
    )


def only() -> str:
    """The word after --only, taken out of the command line."""
    if "--only" not in sys.argv:
        return ""
    at = sys.argv.index("--only")
    word = sys.argv[at + 1]
    del sys.argv[at : at + 2]
    return word


def prove(report: Report, word: str = "") -> None:
    tools = usable(report)
    for tool in tools:
        if not word or word == tool:
            run_tool(report, tool)
    works: list[tuple[float, Callable[[], None]]] = [
        (FULL_SECONDS, partial(run_target, report, target))
        for target in TARGETS
        if not word or word == target
    ]
    for case in CASES:
        wanted = case.short or report.effort == "full" if not word else word == case.mutant.name
        if wanted and case.tool in (*tools, "fuzz"):
            works.append((30, partial(run_mutant, report, case)))
    run_all(works)
    report.caught.sort(key=lambda one: one.mutant)


if __name__ == "__main__":
    chosen = only()
    sys.exit(main("sanitize", lambda report: prove(report, chosen)))
