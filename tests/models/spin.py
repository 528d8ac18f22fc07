"""Runs spin on one model: generate, compile, search, and, if a property broke, tell the story.

A search counts only if it was exhaustive: no hash compression that may lose states, no depth
limit reached, no memory or time limit reached.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).parent
DEPTH = 200_000
MEMORY_MB = 4000
STORY_LINES = 40


@dataclass(frozen=True, slots=True)
class Search:
    errors: int
    complete: bool
    states: int
    depth: int
    memory_mb: float
    seconds: float
    complaint: str  # spin's own words on the error, or on why the search is not complete
    story: str  # what the processes did, in their own words
    broken: str = ""  # the properties that the violated assertion names


def available() -> str:
    """Empty if models can be checked here, else the reason why not."""
    for tool, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            return f"`{tool}` is not installed (Debian package {package}), so no model was checked"
    return ""


def _optimised(quick: bool) -> str:
    """For up to a million states the compiler takes longer than it saves."""
    return "-O0" if quick else "-O1"


def command(model: str, switches: tuple[str, ...], *, quick: bool = False) -> str:
    defines = " ".join(f"-D{switch}" for switch in switches)
    return (
        f"cd tests/models && spin {defines} -a {model}.pml && "
        f"gcc {_optimised(quick)} -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m{DEPTH}"
    ).replace("  ", " ")


def _run(arguments: list[str], where: Path, seconds: float) -> str:
    done = subprocess.run(
        arguments, cwd=where, capture_output=True, text=True, timeout=seconds, check=False
    )
    return done.stdout + done.stderr


def _figure(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    return float(found[1]) if found else 0.0


def _complaint(output: str) -> str:
    for line in output.splitlines():
        if line.startswith("pan:1:") or "error:" in line or ("reached" in line and "max" in line):
            return line.removeprefix("pan:1: ").strip()
    return ""


def _broken(told: str) -> str:
    """The comment behind the assertion, up to its colon. Whoever can go on no more is stuck."""
    at = re.search(r"spin: (?:.*/)?(\w+\.pml):(\d+), Error: assertion violated", told)
    if not at:
        return "bounded time"
    line = (MODELS / at[1]).read_text().splitlines()[int(at[2]) - 1]
    comment = re.search(r"/\* ([^*:]+?)(:[^*]*)? \*/", line)
    return comment[1] if comment else ""


def _story(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.startswith("   ")]
    told = [line for line in lines if " = " not in line]
    return "\n".join(told[-STORY_LINES:])


def search(
    model: str, switches: tuple[str, ...], seconds: float = 1800, *, quick: bool = False
) -> Search:
    """Checks `model`.pml with these switches; ends after `seconds` at the latest."""
    began = time.monotonic()
    defines = [f"-D{switch}" for switch in switches]
    with tempfile.TemporaryDirectory(prefix="shmcast-model-") as name:
        where = Path(name)
        for source in MODELS.glob("*.pml"):
            shutil.copy(source, where)
        generated = _run(["spin", *defines, "-a", f"{model}.pml"], where, 60)
        if not (where / "pan.c").exists():
            raise RuntimeError(f"spin -a {model}.pml: {generated}")
        flags = [_optimised(quick), "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}"]
        compiled = _run(["gcc", *flags, "-o", "pan", "pan.c"], where, 120)
        if not (where / "pan").exists():
            raise RuntimeError(f"gcc, {model}.pml: {compiled}")
        try:
            output = _run(["./pan", f"-m{DEPTH}", "-w24"], where, seconds)
        except subprocess.TimeoutExpired:
            took = time.monotonic() - began
            return Search(0, False, 0, 0, 0.0, took, f"not finished after {seconds:.0f} s", "")
        errors = int(_figure(r"errors: (\d+)", output))
        incomplete = "max search depth too small" in output or "reached -DMEMLIM" in output
        finished = "errors: 0" in output and not incomplete and "out of memory" not in output
        told = _run(["spin", *defines, "-t", f"{model}.pml"], where, 60) if errors else ""
        return Search(
            errors=errors,
            complete=finished,
            states=int(_figure(r"(\d+) states, stored", output)),
            depth=int(_figure(r"depth reached (\d+)", output)),
            memory_mb=_figure(r"([\d.]+)\s+total actual memory usage", output),
            seconds=time.monotonic() - began,
            complaint=_complaint(output),
            story=_story(told),
            broken=_broken(told) if errors else "",
        )
