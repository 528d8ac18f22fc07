"""Every example runs by itself, says what it did, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def segments(pid: int) -> list[str]:
    return [path.name for path in Path("/dev/shm").glob(f"shmcast.*-{pid}.*")]


EXPECTED = [
    ("two_processes.py", "1000 messages in order"),
    ("asyncio_echo.py", "100 answers in order"),
    ("video_fanout.py", "analyst: 60 frames, every one whole and in order"),
    ("sensor_fusion.py", "estimates, off by"),
    ("work_queue.py", "jobs, each done once"),
    ("chaos_drill.py", "one order, none lost, none doubled"),
    ("replicated_bank.py", "no money made, none lost"),
]


@pytest.mark.parametrize(("script", "words"), EXPECTED)
def test_the_example_does_what_it_says(script: str, words: str) -> None:
    command = [sys.executable, str(EXAMPLES / script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    assert words in out.decode()
    assert segments(process.pid) == []


def test_no_example_is_without_a_test() -> None:
    tested = {script for script, _ in EXPECTED}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
