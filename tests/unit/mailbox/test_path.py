"""Runs tests/c/test_path.c: what a message costs after warm-up, and that it would be noticed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prove.mutants import CSRC, Edit, Mutant, mutated_sources
from sanitize import builds

WRAPPED = ("malloc", "calloc", "realloc", "sys_liveness")
PATH = builds.Tool("path", ("-O2", *(f"-Wl,--wrap={name}" for name in WRAPPED)))
SKIPPED = 77
STAMP = "    *ts = stamp(s, op->count);\n"
MUTANTS = {
    "system call": Edit("send_eager.c", STAMP, f"{STAMP}    sys_sleep_until(0);\n"),
    "allocations 20000": Edit(
        "send_eager.c",
        STAMP,
        f"{STAMP}    void *malloc(size_t), free(void *), *volatile p = malloc(1); free(p);\n",
    ),
}


def built(sources: Path) -> Path:
    compiler = builds.compiler()
    if not compiler:
        pytest.skip("no C compiler")
    return builds.build("test_path", PATH, [builds.C_TESTS / "test_path.c"], compiler, sources)


def run(program: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([program], capture_output=True, text=True, timeout=200, check=False)
    if done.returncode == SKIPPED:
        pytest.skip("seccomp filters are not permitted here")
    return done


def test_a_message_costs_no_allocation_no_page_fault_and_no_call_but_the_futex() -> None:
    done = run(built(CSRC))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "page faults 0 0, allocations 0 0" in done.stdout


@pytest.mark.parametrize("sign", MUTANTS)
def test_what_it_should_not_cost_would_be_noticed(tmp_path: Path, sign: str) -> None:
    mutant = Mutant("costly-path", "bounded time", (MUTANTS[sign],))
    done = run(built(mutated_sources(mutant, tmp_path)))
    assert done.returncode != 0
    assert sign in done.stdout + done.stderr
