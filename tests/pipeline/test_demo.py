"""The demo as people see it: at a terminal, all of it, verified in Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

from shmcast.cli.demo.script import TITLES
from support.terminal import at_a_terminal

COMMAND = [sys.executable, "-m", "shmcast.cli", "demo", "--seconds", "2"]
pytestmark = pytest.mark.timeout(400)


def test_a_whole_demo_at_a_terminal_ends_with_a_verdict_from_spark(tmp_path: Path) -> None:
    with at_a_terminal(COMMAND, tmp_path) as session:
        plain = session.rest()
        assert session.process.returncode == 0, plain[-3000:]
    for number, title in enumerate(TITLES, 1):
        assert f"{number}/7 ▶ {title}" in plain
    assert "verifying in Spark: mailboxes" in plain and "verifying in Spark: cluster" in plain
    closing = plain[plain.rindex("what happened") :]
    for wanted in (*TITLES, "lost 0", "reordered 0", "doubled 0", "worst send", "worst delivery",
                   "14 properties verified in memory, and all of them in Spark",
                   "report: ", "verdict: "):  # fmt: skip
        assert wanted in closing
    lines = [line.rstrip() for line in closing.splitlines()]
    assert max(map(len, lines)) <= 80
    if "was kept, in time" in closing:  # a busy machine adds lines that say so
        assert len(lines) < 24  # one screen
    assert (tmp_path / "shmcast-demo.html").stat().st_size > 0
