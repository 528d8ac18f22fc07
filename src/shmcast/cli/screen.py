"""A full-screen picture in a terminal, drawn line by line: only lines that changed are written.

So a slow connection carries little, and nothing flickers. Keys are read without waiting for Enter.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from typing import Any, Self

from rich.console import COLOR_SYSTEMS, Console, RenderableType

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"  # the other screen, no cursor, empty
_LEAVE = "\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # shown at once, where the terminal knows that
_KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[5~": "page-up", "\x1b[6~": "page-down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1bOA": "up", "\x1bOB": "down", "\x1bOH": "home",
    "\x1bOF": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1b": "escape", "\r": "enter",
    "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
}  # fmt: skip


class Screen:
    def __init__(self, out: Console) -> None:
        self._out = out
        self._shown: list[str] = []
        self._size = (0, 0)

    def draw(self, picture: RenderableType) -> None:
        size = (self._out.width, self._out.height)
        lines = self._lines(picture)[: size[1]]
        parts = []
        if size != self._size:
            parts.append("\x1b[2J")
            self._shown, self._size = [], size
        for number, line in enumerate(lines):
            if number >= len(self._shown) or self._shown[number] != line:
                parts.append(f"\x1b[{number + 1};1H{line}\x1b[0m\x1b[K")
        if len(lines) < len(self._shown):
            parts.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = lines
        if parts:
            self._write(_BEGIN + "".join(parts) + _END)

    def _lines(self, picture: RenderableType) -> list[str]:
        options = self._out.options.update(height=None)
        colours = COLOR_SYSTEMS.get(self._out.color_system or "")
        return [
            "".join(
                part.style.render(part.text, color_system=colours) if part.style else part.text
                for part in line
                if not part.control
            )
            for line in self._out.render_lines(picture, options, pad=False)
        ]

    def _write(self, text: str) -> None:
        self._out.file.write(text)
        self._out.file.flush()

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE)


class Keyboard:
    """Keys by name. Without a terminal at stdin there are none, and waiting is only that."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
        self._before: list[Any] = []

    def wait(self, seconds: float) -> list[str]:
        """The keys that were pressed; returns early with the first one."""
        if self._fd < 0:
            time.sleep(seconds)
            return []
        readable, _, _ = select.select([self._fd], [], [], seconds)
        return keys_in(os.read(self._fd, 1024).decode(errors="ignore")) if readable else []

    def __enter__(self) -> Self:
        if self._fd >= 0:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)


def keys_in(text: str) -> list[str]:
    """What a terminal sends, as names; a letter is its own name. Unknown sequences are dropped."""
    found = []
    while text:
        known = next((s for s in sorted(_KEYS, key=len, reverse=True) if text.startswith(s)), None)
        if known is not None and not (known == "\x1b" and len(text) > 1):
            found.append(_KEYS[known])
            text = text[len(known) :]
        elif text[0] == "\x1b":  # an unknown sequence ends with a letter or a tilde
            end = next((i for i, c in enumerate(text[2:], 2) if c.isalpha() or c == "~"), len(text))
            text = text[end + 1 :]
        else:
            if text[0].isprintable():
                found.append(text[0])
            text = text[1:]
    return found
