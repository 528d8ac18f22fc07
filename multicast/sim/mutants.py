"""Broken variants of protocols, which the checkers must catch.

A checker that never objected has proved nothing. Each mutant names how it differs, the property
that this must break, and the number of campaign seeds within which it is caught. Mutants live in
sim/broken/<protocol>.py and register themselves:

    mutant("skeen", "forgets-clock", "L15 does not advance the clock", breaks=..., seeds=...,
           build=...)
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace

from shmcast.multicast.checks.verdict import Verdict
from shmcast.multicast.protocols.registry import Build, Spec, lookup
from shmcast.multicast.sim.run import Report
from shmcast.multicast.sim.scenario import Scenario

ENDLESS = "an end"  # what a mutant breaks whose runs never end: a campaign fails on these too
MUTANT_MARK = "~"  # "skeen~forgets-clock"
_BROKEN = "shmcast.multicast.sim.broken"


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    differs: str
    breaks: str  # a property of checks/table.py, "invariant <its name>", or ENDLESS
    seeds: int
    spec: Spec
    scenarios: Callable[[Spec, int], Scenario] | None = None  # None: those of a campaign

    def conviction(self, report: Report) -> Verdict | None:
        """The verdict that shows what this mutant breaks, if there is one."""
        if self.breaks == ENDLESS:
            return next(iter(report.undetermined.values()), None)
        return report.violated.get(self.breaks)


_mutants: dict[str, Mutant] = {}


def mutant(
    protocol: str,
    name: str,
    differs: str,
    *,
    breaks: str,
    seeds: int,
    build: Build,
    scenarios: Callable[[Spec, int], Scenario] | None = None,
) -> Mutant:
    full_name = f"{protocol}{MUTANT_MARK}{name}"
    original = lookup(protocol)
    spec = replace(original, name=full_name, build=build)
    if not breaks.startswith("invariant "):
        # The invariants would stop the run before the property shows what it can see.
        spec = replace(spec, invariants=list)
        if breaks not in (*spec.promises, ENDLESS):
            spec = replace(spec, promises=(*spec.promises, breaks))
    found = Mutant(full_name, differs, breaks, seeds, spec, scenarios)
    _mutants[full_name] = found
    return found


def find_mutant(full_name: str) -> Mutant:
    return all_mutants()[full_name]


def all_mutants() -> dict[str, Mutant]:
    package = importlib.import_module(_BROKEN)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{_BROKEN}.{module.name}")
    return dict(sorted(_mutants.items()))
