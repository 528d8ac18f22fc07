"""Runs tests/c/test_core.c: the core's inner functions, under the sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests" / "c" / "test_core.c"
CORE = sorted(path for path in (ROOT / "csrc").glob("*.c") if path.name != "_native.c")
NAMES = re.findall(r"^    TEST\((\w+)\),$", SOURCE.read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("core") / "test_core"
    done = subprocess.run(
        [
            compiler,
            *("-std=c11", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
            *("-I", str(ROOT / "csrc"), "-o", str(built), str(SOURCE), *map(str, CORE), "-lrt"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("name", NAMES)
def test_in_c(program: Path, name: str) -> None:
    done = subprocess.run(
        [program, name],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        # The guard is what we test; the sanitizer must not take its signal first.
        env={**os.environ, "ASAN_OPTIONS": "handle_sigbus=0:abort_on_error=0"},
    )
    assert done.returncode == 0, done.stderr


def test_every_c_test_is_run(program: Path) -> None:
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert listed == NAMES
    assert len(NAMES) >= 11
