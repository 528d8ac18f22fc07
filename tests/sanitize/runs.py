"""Runs of the C tests under a tool, and of the fuzz targets, each with a deadline."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sanitize.builds import C_TESTS, FUZZ, ROOT, Tool

SEEDS = FUZZ / "seeds.py"
REGRESSIONS = FUZZ / "regressions"
DEADLINE_S = 300.0
RUN_S_MAX = 0.2  # an input on a slow, busy machine: a number of runs has a deadline by this
RSS_MB_MAX = 2048
TELLING = re.compile(
    r"does not hold: .*|SUMMARY: .*|ERROR: .*|runtime error: .*|== +(?:Invalid|Conditional|Use of|"
    r"\d[\d,]* bytes in).*|.* gave -\d+"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    passed: bool
    seconds: float
    output: str
    timed_out: bool = False

    @property
    def evidence(self) -> str:
        found = TELLING.search(self.output)
        lines = self.output.strip().splitlines()
        return (found[0] if found else lines[-1] if lines else "no output")[:200]


def names(source: str) -> list[str]:
    """The tests of a C file, as its table lists them."""
    text = (C_TESTS / source).read_text()
    return re.findall(r"^    TEST\((\w+)\),$", text, re.MULTILINE)


def remove_leftovers(pid: int) -> None:
    """A process that was ended cannot clean up."""
    for kind in ("stress", "fuzz"):
        for path in Path("/dev/shm").glob(f"shmcast.{kind}-{pid}.*"):
            path.unlink(missing_ok=True)


def run(
    program: Path, tool: Tool, *arguments: str, folder: Path = ROOT, deadline: float = DEADLINE_S
) -> Outcome:
    command = [*tool.runner, str(program), *arguments]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=folder,
        env={**os.environ, **tool.environment},
    )
    try:
        output, _ = process.communicate(timeout=deadline)
        timed_out = False
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0] + f"\ndoes not hold: ends within {deadline:.0f} s"
        timed_out = True
    remove_leftovers(process.pid)
    return Outcome(process.returncode == 0, time.monotonic() - began, output, timed_out)


def seeds(target: str, folder: Path) -> Path:
    """A corpus to start from: made by a program, and what was found before."""
    corpus = folder / f"corpus-{target}"
    corpus.mkdir()
    subprocess.run(["python3", str(SEEDS), target, str(corpus)], check=True)
    for path in REGRESSIONS.glob(f"{target}-*"):
        shutil.copy(path, corpus)
    return corpus


def fuzz(
    program: Path, tool: Tool, target: str, *, runs: int = 0, seconds: int = 0, seed: int = 1
) -> tuple[Outcome, int]:
    """Replays the corpus, then as many runs, or as long, as was asked for. And how many."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = seeds(target, folder)
        limit = [f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
        # A child's peak begins with its parent's (vfork, then exec), so ours comes on top.
        ours_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        memory = f"-rss_limit_mb={ours_mb + RSS_MB_MAX}"
        guided = ["-len_control=0", "-max_len=2000", "-timeout=20", "-handle_bus=0", memory]
        deadline = seconds + runs * RUN_S_MAX + DEADLINE_S
        outcome = run(
            program,
            tool,
            *limit,
            *(guided if tool.name == "guided" else []),
            f"-seed={seed}",
            str(corpus),
            folder=folder,
            deadline=deadline,
        )
        kept = ROOT / "build" / "sanitize" / "crashes"
        for path in folder.glob("*-*"):
            if path.is_file() and not outcome.passed:
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, kept / f"{target}-{path.name}")
    done = re.findall(r"(?:Done|^#)\s*(\d+)", outcome.output, re.MULTILINE)
    return outcome, int(done[-1]) if done else 0
