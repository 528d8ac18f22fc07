"""Runs tests/c/test_core.c: the core's inner functions, under the sanitizers."""

from __future__ import annotations

import os
import re
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


def test_every_c_test_is_run(program: Path) -> None:
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert listed == NAMES
    assert len(NAMES) >= 11
