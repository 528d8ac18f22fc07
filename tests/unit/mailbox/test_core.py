"""Runs tests/c/test_core.c: the core's inner functions, under the sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sanitize import builds

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests" / "c" / "test_core.c"
NAMES = re.findall(r"^    TEST\((\w+)\),$", SOURCE.read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def program() -> Path:
    compiler = builds.compiler()
    if not compiler:
        pytest.skip("no C compiler")
    return builds.build_unit_tests(builds.ASAN, compiler)


@pytest.mark.parametrize("name", NAMES)
def test_in_c(program: Path, name: str) -> None:
    done = subprocess.run(
        [program, name],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **builds.ASAN.environment},
    )
    assert done.returncode == 0, done.stderr


STAMP = """
#include "clock.h"
uint64_t stamp(word_t *intent);
uint64_t stamp(word_t *intent) { STORE_RELEASE(intent, 1); return clock_after_stores(); }
"""


def test_on_aarch64_the_clock_is_read_after_the_stores_are_visible() -> None:
    """clock.h, K1: DMB orders no system register, and ISB waits for no store."""
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if not compiler:
        pytest.skip("no compiler for aarch64")
    done = subprocess.run(
        [compiler, "-O2", "-S", "-x", "c", "-", "-o", "-", "-I", str(builds.CSRC)],
        input=STAMP,
        capture_output=True,
        text=True,
        check=True,
    )
    steps = re.findall(r"^\s+(stlr|dsb|isb|bl?)\b", done.stdout, re.MULTILINE)
    assert [step[:1] for step in steps[:4]] == ["s", "d", "i", "b"], done.stdout


def test_every_c_test_is_run(program: Path) -> None:
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert listed == NAMES
    assert len(NAMES) >= 11
