"""Runs tests/c/test_seams.c: errors between two steps of the core, under the sanitizers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from sanitize import builds

SOURCE = builds.C_TESTS / "test_seams.c"
NAMES = re.findall(r"^    TEST\((\w+)\),$", SOURCE.read_text(), re.MULTILINE)
WRAPPED = sorted(set(re.findall(r"__wrap_(\w+)\(", SOURCE.read_text())))
SEAMS = builds.Tool(
    "seams",
    (*builds.UBSAN, *(f"-Wl,--wrap={name}" for name in WRAPPED)),
    builds.ASAN.environment,
)


@pytest.fixture(scope="session")
def program() -> Path:
    compiler = builds.compiler()
    if not compiler:
        pytest.skip("no C compiler")
    return builds.build("test_seams", SEAMS, [SOURCE], compiler)


@pytest.mark.parametrize("name", NAMES)
def test_between_two_steps(program: Path, name: str) -> None:
    done = subprocess.run(
        [program, name],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **builds.ASAN.environment},
    )
    assert done.returncode == 0, done.stderr


def test_every_one_is_run(program: Path) -> None:
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert listed == NAMES
    assert len(NAMES) >= 12
