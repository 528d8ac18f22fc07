"""Broken variants of the C core: small edits of csrc/, applied to a copy of it.

The sources stay free of switches. An edit whose text is no longer found is an error, so a mutant
cannot go stale unnoticed.
"""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"


def partial(out: Path) -> Path:
    """Where a builder writes before it renames to `out`: several may make the same at once."""
    return out.with_name(f"{out.name}.{os.getpid()}-{threading.get_ident()}.part")


@dataclass(frozen=True, slots=True)
class Edit:
    file: str
    old: str  # occurs exactly once
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str  # "no-adoption-in-the-walk"
    breaks: str  # the property: "consensus", "ordering", "validity", "bounded time", …
    edits: tuple[Edit, ...]


def mailbox_sources(csrc: Path = CSRC) -> list[Path]:
    """The C files of the mailbox: not the extension module's, nor those of schedules."""
    return [
        path
        for path in sorted(csrc.glob("*.c"))
        if path.name != "_native.c" and not path.name.startswith("rt_")
    ]


class StaleMutant(AssertionError):
    """The source has changed under a mutant; the text says which edit to write anew."""


def mutated_sources(mutant: Mutant, to: Path) -> Path:
    """A copy of csrc/ below `to`, with the mutant's edits applied."""
    tree = to / f"csrc-{mutant.name}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(CSRC, tree, ignore=shutil.ignore_patterns("*.o", "*.so", "_native.c"))
    for edit in mutant.edits:
        path = tree / edit.file
        text = path.read_text()
        found = text.count(edit.old)
        if found != 1:
            raise StaleMutant(f"{mutant.name}: {found} times in csrc/{edit.file}: {edit.old!r}")
        path.write_text(text.replace(edit.old, edit.new))
    return tree
