"""What a part of the proof reports: claims that held or not, mutants that were caught or not.

Each part (crash points, interleavings, models, sanitizers, campaigns) is a program of its own,
`PYTHONPATH=tests python -m <part>.prove --effort short|full --out FILE`, that writes one Report.
tests/prove/run.py runs them all and makes docs/proof.md from their reports.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

Figure = int | float | str


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that was checked."""

    name: str  # "eager, sender killed at every step"
    says: str  # what holds, in a sentence
    held: bool
    figures: dict[str, Figure]  # counts, in the order of the table: points, states, schedules, …
    seconds: float
    command: str  # repeats just this
    counterexample: str = ""  # readable, when it did not hold


@dataclass(frozen=True, slots=True)
class Caught:
    """One broken variant, and whether the check that must notice it did."""

    mutant: str
    breaks: str  # the property
    caught: bool
    by: str  # the command that repeats it
    evidence: str  # first line of the counterexample, or what was tried in vain
    seconds: float


@dataclass(slots=True)
class Report:
    part: str
    effort: str
    claims: list[Claim] = field(default_factory=list)
    caught: list[Caught] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what could not be run here, and why

    @property
    def passed(self) -> bool:
        return all(claim.held for claim in self.claims) and all(one.caught for one in self.caught)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Report:
        raw = json.loads(path.read_text())
        return cls(
            part=raw["part"],
            effort=raw["effort"],
            claims=[Claim(**claim) for claim in raw["claims"]],
            caught=[Caught(**one) for one in raw["caught"]],
            missing=raw["missing"],
        )


def main(part: str, prove: Callable[[Report], None]) -> int:
    """The command line of a part. `prove` fills the report; 0 if everything held."""
    parser = argparse.ArgumentParser(description=f"{part}: one part of `make prove`")
    parser.add_argument("--effort", choices=["short", "full"], default="short")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report = Report(part, options.effort)
    began = time.monotonic()
    prove(report)
    if options.out:
        report.save(options.out)
    for claim in report.claims:
        print(f"{'held ' if claim.held else 'BROKE'}  {claim.name}  {claim.figures}")
        if not claim.held:
            print(claim.counterexample, f"\nrepeat: {claim.command}", sep="")
    for one in report.caught:
        print(f"{'caught ' if one.caught else 'SURVIVED'}  {one.mutant} ({one.breaks})")
    for reason in report.missing:
        print(f"not run: {reason}")
    print(f"{part}, {report.effort}: {'passed' if report.passed else 'FAILED'}", end=" ")
    print(f"in {time.monotonic() - began:.0f} s")
    return 0 if report.passed else 1
