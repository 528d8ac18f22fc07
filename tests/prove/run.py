"""`make prove`: every part of the proof, one after the other; then docs/proof.md.

    PYTHONPATH=tests python -m prove.run [--effort short] [--only crash models]

Ends with 1 if a claim did not hold, a broken variant survived, a part brought no report, or fewer
broken variants were tried than promised. Only a full run of all parts writes docs/proof.md; others
write build/prove/proof.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from prove.page import Ran, page
from prove.results import Report

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "prove"
PARTS = ("crash", "interleave", "models", "sanitize", "sim")
MUTANTS_LEAST = 20
PART_SECONDS_MAX = 3600


def run_part(part: str, effort: str) -> Ran:
    out = BUILD / f"{part}.json"
    out.unlink(missing_ok=True)
    began = time.monotonic()
    command = [sys.executable, "-m", f"{part}.prove", "--effort", effort, "--out", str(out)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    try:
        subprocess.run(command, cwd=ROOT, env=env, check=False, timeout=PART_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        print(f"{part}: still running after {PART_SECONDS_MAX} s, so stopped")
    minutes = (time.monotonic() - began) / 60
    return Ran(part, Report.load(out) if out.exists() else None, minutes)


def shortcomings(ran: Sequence[Ran], mutants_least: int) -> list[str]:
    """Why the proof as a whole does not hold; empty if it does."""
    found = []
    tried = 0
    for one in ran:
        if one.report is None:
            found.append(f"{one.part} brought no report")
            continue
        if not one.report.claims:
            found.append(f"{one.part} claims nothing")
        found += [f"{one.part}: {c.name} did not hold" for c in one.report.claims if not c.held]
        found += [f"{one.part}: {m.mutant} survived" for m in one.report.caught if not m.caught]
        tried += len(one.report.caught)
    if tried < mutants_least:
        found.append(f"only {tried} broken variants were tried, not {mutants_least}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="runs the proof and writes its page")
    parser.add_argument("--effort", choices=["short", "full"], default="full")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    everything = set(options.only) == set(PARTS)
    ran = []
    for part in options.only:
        print(f"== {part}, {options.effort}", flush=True)
        ran.append(run_part(part, options.effort))
    target = (ROOT / "docs" if everything and options.effort == "full" else BUILD) / "proof.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    target.write_text(page(ran, today, os.cpu_count() or 1))
    wrong = shortcomings(ran, MUTANTS_LEAST if everything else 0)
    for line in wrong:
        print(line)
    verdict = "FAILED" if wrong else "every claim held, every broken variant was caught"
    print(f"{verdict}; the page is {target.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
