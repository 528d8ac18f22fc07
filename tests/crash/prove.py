"""The crash points' part of the proof: PYTHONPATH=tests python -m crash.prove --effort short|full

Points x roles x protocols, each with its kill and its lost copy; broken variants; and the static
sites that no script reaches.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from crash.build import BUILD, build, static_sites, unknown_calls
from crash.cases import LATENESSES, Job, Ran, run_job, run_jobs, scripts, trace
from crash.mutants import SHORT, TRAPS, Trap
from crash.plan import KILLED, Claimed, plan
from crash.unreached import reason
from prove.mutants import mutated_sources
from prove.pool import run_all
from prove.results import Caught, Claim, Report, main

SEED = 1
SUMMED = ("run", "passed", "repeated", "not_reached", "no_such_copy", *LATENESSES)


def _bereft(claimed: Claimed, runs: list[Ran]) -> dict[str, int]:
    """How long a survivor's operation took once the role was dead, beside the bound of `eager`.

    Evidence, no assertion: the machine's noise is in it.
    """
    if claimed.protocol != "eager" or claimed.what != KILLED:
        return {}
    worst, bound = (max(r.figures.get(k, 0) for r in runs) for k in ("bereft_us", "bound_us"))
    return {"worst ms beside the dead": worst // 1000, "of Δs + ε, in ms": bound // 1000}


def _claim(claimed: Claimed, runs: list[Ran]) -> Claim:
    total: Counter[str] = Counter()
    points: dict[tuple[str, int], int] = {}
    for ran in runs:
        total.update({name: ran.figures.get(name, 0) for name in SUMMED})
        key = (ran.job.script.name, ran.job.copies)
        points[key] = max(points.get(key, 0), ran.figures.get("points", 0))
    failed = [ran for ran in runs if not ran.passed]
    return Claim(
        name=f"{claimed.protocol}, {claimed.role}: {claimed.what}",
        says=claimed.says,
        held=not failed,
        figures={
            "points": sum(points.values()),
            "cases": total["run"],
            "passed": total["passed"],
            "repeated": total["repeated"],
            **{f"since {why}": total[why] for why in LATENESSES if total[why]},
            "point not reached": total["not_reached"],
            "copy not there": total["no_such_copy"],
            "worst ms": max(ran.figures.get("worst_us", 0) for ran in runs) // 1000,
            **_bereft(claimed, runs),
        },
        seconds=round(sum(ran.seconds for ran in runs), 1),
        command=(failed or runs)[0].job.command,
        counterexample="\n".join(ran.first_failure for ran in failed),
    )


def _run_plan(report: Report, program: Path) -> None:
    """Most of a timed case is waiting, so more of them run side by side than there are cores."""
    cores = os.cpu_count() or 1
    claims = list(plan(scripts(program), report.effort, SEED))
    for timed in (False, True):
        some = [c for c in claims if (c.protocol != "eager") == timed]
        runs = run_jobs(program, [job for c in some for job in c.jobs], cores + timed)
        for claimed in some:
            report.claims.append(_claim(claimed, [next(runs) for _ in claimed.jobs]))


def _reached(program: Path) -> tuple[set[str], set[str]]:
    reached: set[str] = set()
    private: set[str] = set()
    for script in scripts(program):
        for protocol in sorted(script.protocols):
            faults = ["kill@12", "kill@20", "kill@27"] if script.has_dead_sender else ["kill"]
            for fault in faults:
                found = trace(program, Job(protocol, script, fault))
                reached |= set(found.points)
                private |= found.private
    return reached, private


def _check_coverage(report: Report, program: Path) -> None:
    began = time.monotonic()
    reached, private = _reached(program)
    sites = static_sites(program)
    never = sorted(sites - reached - private)
    unknown = [site for site in never if not reason(site)]
    calls = unknown_calls()
    report.claims.append(
        Claim(
            name="crash points in the core",
            says="sites that write shared memory or call the system are reached by a script, or "
            "it is known why they are not; no function outside the core is called that has neither "
            "a crash point nor a reason to have none",
            held=not unknown and not calls,
            figures={
                "sites": len(sites),
                "reached": len(sites & reached),
                "private memory only": len(sites & private - reached),
                "never reached": len(never),
                "of them for unknown reason": len(unknown),
            },
            seconds=round(time.monotonic() - began, 1),
            command="PYTHONPATH=tests python -m crash.prove",
            counterexample="".join(f"never reached: {site}\n" for site in unknown)
            + "".join(f"neither wrapped nor known as harmless: {name}\n" for name in calls),
        )
    )
    report.missing += [f"never reached: {site}: {reason(site) or 'unknown'}" for site in never]


def catch(trap: Trap, program: Path) -> Caught:
    """Builds the broken variant and runs the cases that must fail on it."""
    began = time.monotonic()
    protocol, name, fault, points, copies = trap.job
    script = next(s for s in scripts(program) if s.name == name)
    broken = build(mutated_sources(trap.mutant, BUILD))
    ran = run_job(broken, Job(protocol, script, fault, points, copies), "hunt")
    lines = ran.first_failure.splitlines()
    return Caught(
        mutant=trap.mutant.name,
        breaks=trap.mutant.breaks,
        caught=ran.broken == trap.mutant.breaks,
        by=f"PYTHONPATH=tests python -m crash.trap {trap.mutant.name}",
        evidence="; ".join(line.strip() for line in lines[:2]) or f"in vain: {ran.figures}",
        seconds=round(time.monotonic() - began, 1),
    )


def catch_all(program: Path, traps: Iterable[Trap]) -> list[Caught]:
    return run_all((1, partial(catch, trap, program)) for trap in traps)


def prove(report: Report) -> None:
    program = build()
    _run_plan(report, program)
    _check_coverage(report, program)
    report.caught += catch_all(program, TRAPS if report.effort == "full" else TRAPS[:SHORT])


if __name__ == "__main__":
    sys.exit(main("crash", prove))
