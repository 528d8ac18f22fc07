"""Runs the cases of the crash program, several scripts side by side, and reads what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from crash.build import named

JOB_SECONDS_MAX = 1500
DEAD_SENDER = 8  # as in actor.h
# Why a timed case may be repeated: what broke its bound. As in gauge.c.
LATENESSES = ("stalled", "overslept", "late_round", "late_send", "late_vote", "late_peer")


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    role: str
    protocols: frozenset[str]
    has_dead_sender: bool

    @property
    def copies(self) -> int:
        """The replacer has lost one, copy 0, before it begins."""
        return 3 if self.name == "replace" else 2

    @property
    def fault_copies(self) -> tuple[int, ...]:
        """Which copies may fail in addition, so that one stays intact. 3: the one being made."""
        return (1, 2, 3) if self.name == "replace" else (0, 1)


@dataclass(frozen=True, slots=True)
class Job:
    """One script in one protocol, one fault, at some or all of its points."""

    protocol: str
    script: Script
    fault: str  # see main.c
    points: str = "all"
    copies: int = 0

    @property
    def arguments(self) -> list[str]:
        copies = self.copies or self.script.copies
        return [self.protocol, self.script.name, self.fault, self.points, str(copies)]

    @property
    def command(self) -> str:
        return "PYTHONPATH=tests python -m crash.run " + " ".join(self.arguments)


@dataclass(slots=True)
class Ran:
    job: Job
    figures: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    worst: str = ""

    @property
    def passed(self) -> bool:
        """A job none of whose faults struck has shown nothing."""
        return not self.failures and self.figures.get("passed", 0) > 0

    @property
    def broken(self) -> str:
        """The property that the first failure names; "stuck" and "never quiet" are none."""
        found = re.match(r"FAILED .*\n  ([a-z ]+): ", self.first_failure)
        return found[1] if found else ""

    @property
    def first_failure(self) -> str:
        if self.failures or self.passed:
            return self.failures[0] if self.failures else ""
        return f"{' '.join(self.job.arguments)}: no fault struck  repeat: {self.job.command}"


def scripts(program: Path) -> list[Script]:
    """All scripts that the program knows."""
    output = subprocess.run([program, "scripts"], capture_output=True, text=True, check=True).stdout
    known = {1: "crash", 2: "timing", 3: "eager"}
    found = []
    for line in output.splitlines():
        _, name, protocols, setting, role = line.split(" ", 4)
        spoken = frozenset(p for bit, p in known.items() if int(protocols) >> bit & 1)
        found.append(Script(name, role, spoken, bool(int(setting) & DEAD_SENDER)))
    return found


def _repeat(job: Job, failure: str) -> str:
    point = re.search(r"at point (\d+)", failure)
    one = Job(job.protocol, job.script, job.fault, point[1] if point else job.points, job.copies)
    return f"{failure}  repeat: {one.command}"


def run_job(program: Path, job: Job, how: str = "run") -> Ran:
    """`how`: "run", or "hunt" to stop at the first failure."""
    began = time.monotonic()
    ran = Ran(job)
    try:
        done = subprocess.run(
            [program, how, *job.arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=JOB_SECONDS_MAX,
        )
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        output, done = f"not over after {JOB_SECONDS_MAX} s", None
    ran.seconds = time.monotonic() - began
    output = named(program, output)
    figures = re.search(r"^figures (.*) in: ?(.*)$", output, re.MULTILINE)
    if figures:
        words = figures[1].split()
        ran.figures = {k: int(v) for k, v in zip(words[::2], words[1::2], strict=True)}
        ran.worst = figures[2]
    ran.failures = [_repeat(job, text) for text in
                    re.findall(r"^FAILED .*\n(?:  .*\n)*", output, re.MULTILINE)]  # fmt: skip
    if not ran.failures and (done is None or done.returncode != 0):
        ran.failures = [f"{' '.join(job.arguments)}: {output}  repeat: {job.command}"]
    return ran


def run_jobs(program: Path, jobs: Iterable[Job], at_once: int | None = None) -> Iterator[Ran]:
    """All jobs, `at_once` of them side by side; in the order given."""
    with ThreadPoolExecutor(at_once or os.cpu_count() or 1) as pool:
        yield from pool.map(lambda job: run_job(program, job), jobs)


@dataclass(slots=True)
class Trace:
    points: list[str]
    private: set[str]


def trace(program: Path, job: Job) -> Trace:
    """The points of a dry run, in order; and the sites that wrote to private memory only."""
    copies = str(job.copies or job.script.copies)
    command = [program, "trace", job.protocol, job.script.name, job.fault, copies]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    output = named(program, done.stdout)
    if done.returncode != 0:
        raise AssertionError(output)
    points = re.findall(r"^point \d+ (.*)$", output, re.MULTILINE)
    return Trace(points, set(re.findall(r"^private (.*)$", output, re.MULTILINE)))
