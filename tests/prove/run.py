"""`make prove`: every part of the proof, one after the other; then docs/proof.md.

    PYTHONPATH=tests python -m prove.run [--effort short] [--only crash models] [--reuse]

Ends with 1 if a claim did not hold, a broken variant survived, a part brought no report, or fewer
broken variants were tried than promised. Only a full run of all parts writes docs/proof.md; others
write build/prove/proof.md. With --reuse, a part whose last report is of the same effort and sources
is not run again.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from prove.page import Ran, page
from prove.results import Report

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "prove"
FRAME = ("tests/prove/mutants.py", "tests/prove/pool.py", "tests/prove/results.py")
SOURCES = {  # what a part's result depends on
    "crash": (*FRAME, "csrc", "tests/crash"),
    "interleave": (*FRAME, "csrc", "tests/interleave"),
    "models": (*FRAME, "tests/models"),
    "sanitize": (*FRAME, "csrc", "tests/c", "tests/fuzz", "tests/sanitize"),
    "sim": (*FRAME, "multicast/protocols", "multicast/checks", "multicast/sim", "tests/sim"),
}
PARTS = tuple(SOURCES)
SUFFIXES = {".c", ".h", ".py", ".pml", ".supp"}
MUTANTS_LEAST = 20
TOOLS = (
    "spin",
    "valgrind",
    "clang",
)  # without them a short proof says what it lacks, a full one fails
PART_SECONDS_MAX = 3 * 3600  # the campaigns take an hour of two cores that have nothing else to do


def digest(folders: Sequence[str]) -> str:
    """Changes when one of these files does, or one below these folders."""
    seen = hashlib.sha256()
    for folder in folders:
        whole = ROOT / folder
        for path in [whole] if whole.is_file() else sorted(whole.rglob("*")):
            known = path.suffix in SUFFIXES or path.parent.name == "regressions"
            if known and path.is_file() and path.name != "_native.c":
                seen.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return seen.hexdigest()


def reusable(part: str, effort: str) -> Ran | None:
    """The part's last run, if nothing has changed since."""
    stamp, out = BUILD / f"{part}.stamp", BUILD / f"{part}.json"
    if not stamp.exists() or not out.exists():
        return None
    known = json.loads(stamp.read_text())
    if known["effort"] != effort or known["digest"] != digest(SOURCES[part]):
        return None
    return Ran(part, Report.load(out), known["minutes"])


def run_part(part: str, effort: str) -> Ran:
    stamp, out = BUILD / f"{part}.stamp", BUILD / f"{part}.json"
    stamp.unlink(missing_ok=True)
    out.unlink(missing_ok=True)
    sources = digest(SOURCES[part])
    began = time.monotonic()
    command = [sys.executable, "-m", f"{part}.prove", "--effort", effort, "--out", str(out)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    try:
        subprocess.run(command, cwd=ROOT, env=env, check=False, timeout=PART_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        print(f"{part}: still running after {PART_SECONDS_MAX} s, so stopped")
    minutes = (time.monotonic() - began) / 60
    if not out.exists():
        return Ran(part, None, minutes)
    stamp.write_text(json.dumps({"effort": effort, "digest": sources, "minutes": minutes}))
    return Ran(part, Report.load(out), minutes)


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
    parser.add_argument("--reuse", action="store_true", help="do not repeat what is unchanged")
    options = parser.parse_args()
    everything = set(options.only) == set(PARTS)
    ran = []
    for part in options.only:
        print(f"== {part}, {options.effort}", flush=True)
        last = reusable(part, options.effort) if options.reuse else None
        ran.append(last or run_part(part, options.effort))
    target = (ROOT / "docs" if everything and options.effort == "full" else BUILD) / "proof.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    target.write_text(page(ran, today, os.cpu_count() or 1))
    wrong = shortcomings(ran, MUTANTS_LEAST if everything else 0)
    if options.effort == "full":
        wrong += [f"{tool} is not installed: tools/checkers" for tool in TOOLS if not which(tool)]
    for line in wrong:
        print(line)
    verdict = "FAILED" if wrong else "every claim held, every broken variant was caught"
    print(f"{verdict}; the page is {target.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
