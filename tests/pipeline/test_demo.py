"""The demo as people see it: at a terminal, all of it, verified in Spark."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

from shmcast.cli.demo.script import TITLES

COMMAND = [sys.executable, "-m", "shmcast.cli", "demo", "--seconds", "2"]
pytestmark = pytest.mark.timeout(400)


def everything_shown(command: list[str], folder: Path) -> tuple[int, str]:
    """Its exit code, and all that it wrote to a terminal of 24 lines of 80."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment
    )
    os.close(slave)
    shown = b""
    try:
        while True:
            readable, _, _ = select.select([master], [], [], 120.0)
            assert readable, f"nothing was drawn for a while after {shown[-2000:]!r}"
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        return process.wait(timeout=60), shown.decode(errors="replace")
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_whole_demo_at_a_terminal_ends_with_a_verdict_from_spark(tmp_path: Path) -> None:
    code, shown = everything_shown(COMMAND, tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert code == 0, plain[-3000:]
    for number, title in enumerate(TITLES, 1):
        assert f"{number}/7 ▶ {title}" in plain
    assert "verifying in Spark: mailboxes" in plain and "verifying in Spark: cluster" in plain
    closing = plain[plain.rindex("what happened") :]
    for wanted in (*TITLES, "lost 0", "reordered 0", "doubled 0", "worst send", "worst delivery",
                   "14 properties verified in memory, and all of them in Spark",
                   "report: ", "verdict: "):  # fmt: skip
        assert wanted in closing
    lines = [line.rstrip() for line in closing.splitlines()]
    assert max(map(len, lines)) <= 80 and len(lines) < 24  # on one screen
    assert (tmp_path / "shmcast-demo.html").stat().st_size > 0
