"""Where a key of a TOML file stands. `tomllib` gives values without lines; errors need them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_\"'-]+)*)\s*=")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _keys(text: str) -> list[tuple[tuple[str, ...], int]]:
    """Every header and key at the start of a line, with its full path."""
    found: list[tuple[tuple[str, ...], int]] = []
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            found.append((table, number))
        elif key := _KEY.match(line):
            found.append(((*table, *_parts(key[1])), number))
    return found


def line_of(text: str, path: Sequence[str], value: object = None) -> int:
    """The line of `path`, or of the nearest thing around it that stands on a line of its own.

    With `value`, a text that is an element of the array at `path`: the line of that element.
    """
    keys = _keys(text)
    wanted = tuple(path)
    while wanted:
        lines = [number for found, number in keys if found == wanted]
        if lines:
            return _line_within(text, lines[0], keys, value)
        wanted = wanted[:-1]
        value = None
    return 1


def _line_within(
    text: str, start: int, keys: list[tuple[tuple[str, ...], int]], value: object
) -> int:
    if value is None:
        return start
    end = min((number for _, number in keys if number > start), default=len(text) + 1)
    shown = (json.dumps(value, ensure_ascii=False), f"'{value}'")
    for number, line in enumerate(text.splitlines()[start - 1 : end - 1], start):
        if any(one in line for one in shown):
            return number
    return start
