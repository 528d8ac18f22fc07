"""A program at a terminal of its own: what it draws, and keys for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PATIENCE_S = 120.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Session:
    """A process, and the other side of its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master

    def read_until(self, wanted: str) -> str:
        """What is drawn from now on, up to and with that text."""
        seen = b""
        while wanted.encode() not in seen:
            piece = self._piece(seen)
            assert piece, f"{wanted!r} is not in {seen!r}"
            seen += piece
        return seen.decode(errors="replace")

    def rest(self) -> str:
        """Everything to the end of the process, without colours and movements."""
        seen = b""
        while piece := self._piece(seen):
            seen += piece
        self.process.wait(timeout=_PATIENCE_S)
        return _CONTROL.sub("", seen.decode(errors="replace"))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _piece(self, seen: bytes) -> bytes:
        readable, _, _ = select.select([self._master], [], [], _PATIENCE_S)
        assert readable, f"nothing more was drawn after {seen[-2000:]!r}"
        try:
            return os.read(self._master, 65536)
        except OSError:  # nobody is at the other end any more
            return b""


@contextlib.contextmanager
def at_a_terminal(
    command: list[str],
    folder: Path | None = None,
    *,
    size: tuple[int, int] = (24, 80),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """`size` in lines and columns. A program that ends by itself must have left the terminal as it
    was."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    before: list[Any] = termios.tcgetattr(slave)
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder,
        env={**os.environ, "TERM": "xterm", **(environment or {})},
    )  # fmt: skip
    os.close(slave)
    try:
        yield Session(process, master)
        if process.poll() == 0:
            assert termios.tcgetattr(master) == before
    finally:
        process.kill()
        process.wait()
        os.close(master)
