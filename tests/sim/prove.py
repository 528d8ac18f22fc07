"""Campaigns as a part of the proof: every protocol under seeded faults, every mutant caught.

    PYTHONPATH=tests python -m sim.prove --effort short|full --out FILE

PROVE_RUNS in the environment sets the number of runs per protocol.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from prove.results import Caught, Claim, Figure, Report, main
from shmcast.multicast.protocols.registry import names
from shmcast.multicast.sim.api import run
from shmcast.multicast.sim.campaign import Campaign, replay_command, scenario_for
from shmcast.multicast.sim.mutants import MUTANT_MARK, Mutant, all_mutants
from shmcast.multicast.sim.parallel import added_up, campaigns, jobs_here

RUNS = {"short": 8, "full": 20_000}


def prove(report: Report) -> None:
    runs = int(os.environ.get("PROVE_RUNS", RUNS[report.effort]))
    report.claims += campaign_claims(names(), runs)
    report.caught += caught(chosen_mutants(report.effort))


def campaign_claims(protocols: list[str], runs: int) -> Iterator[Claim]:
    """One protocol after the other, so that each has its own time."""
    for name in protocols:
        began = time.monotonic()
        found = added_up(campaigns([name], 0, runs))[name]
        yield claim(found, time.monotonic() - began)


def claim(found: Campaign, took_s: float) -> Claim:
    figures: dict[str, Figure] = {
        "runs": found.runs,
        "faults": found.faults.total(),
        "steps": found.steps,
        "virtual hours": round(found.virtual_hours, 3),
        "violated": len(found.failures),
        "open": len(found.undetermined),
    }
    return Claim(
        name=f"{found.name}, seeds 0 to {found.runs - 1}",
        says="every promise holds in every run, faults included, and every invariant in each step",
        held=found.passed,
        figures=figures,
        seconds=round(took_s, 1),
        command=f"shmcast sim --campaign {found.name} --seeds {found.runs}",
        counterexample=counterexample(found),
    )


def counterexample(found: Campaign) -> str:
    if found.failures:
        return min(found.failures.items())[1]
    if found.undetermined:
        seed = min(found.undetermined)
        return f"the run of seed {seed} never ends: {replay_command(found.name, seed)}"
    return ""


def chosen_mutants(effort: str) -> list[Mutant]:
    """All; in a short proof, of each protocol the one that is caught soonest."""
    mutants = list(all_mutants().values())
    if effort == "full":
        return mutants
    soonest: dict[str, Mutant] = {}
    for mutant in sorted(mutants, key=lambda m: m.seeds):
        soonest.setdefault(mutant.name.split(MUTANT_MARK, maxsplit=1)[0], mutant)
    return list(soonest.values())


def caught(mutants: list[Mutant]) -> Iterator[Caught]:
    with ProcessPoolExecutor(jobs_here(), get_context("fork")) as pool:
        yield from pool.map(try_mutant, [mutant.name for mutant in mutants])


def try_mutant(name: str) -> Caught:
    mutant = all_mutants()[name]
    began = time.monotonic()
    seed, reason = next(objections(mutant), (None, ""))
    evidence = f"nothing in {mutant.seeds} seeds" if seed is None else f"seed {seed}: {reason}"
    return Caught(
        mutant=f"{name}: {mutant.differs}",
        breaks=mutant.breaks,
        caught=seed is not None,
        by=replay_command(name, seed or 0),
        evidence=evidence,
        seconds=round(time.monotonic() - began, 2),
    )


def objections(mutant: Mutant) -> Iterator[tuple[int, str]]:
    for seed in range(mutant.seeds):
        verdict = mutant.conviction(run(scenario_for(mutant.name, seed)).report())
        if verdict is not None:
            yield seed, verdict.reason.splitlines()[0]


if __name__ == "__main__":
    raise SystemExit(main("campaigns", prove))
