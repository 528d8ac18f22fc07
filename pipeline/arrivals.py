"""The files of a run in progress, looked at again and again: which are new, and what is missing.

Spark is told nothing of this: it skips what it cannot read. So that this is no silence, each new
file's footer is read here, and holes in the numbering of a life's rows are found. A hole counts
when it is there at two looks: a directory is not listed in one instant.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.traces.reader import Span, check_footer
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import Part, parts
from shmcast.pipeline.live import Finding, Life

Hole = tuple[int, int]  # first and last row that are missing


def _part(item: tuple[Part, object]) -> Part:
    return item[0]


class Arrivals:
    def __init__(self, run: Path, info: RunInfo) -> None:
        self._run, self._info = run, info
        self._files: dict[Life, dict[Part, Span | None]] = defaultdict(dict)  # None: damaged
        self._seen_once: set[tuple[Life, Hole]] = set()
        self._told: set[tuple[Life, Hole]] = set()
        self.rows = 0  # in sound files
        self.refused: Incompatible | None = None  # a file that no answer can leave out

    @property
    def files(self) -> int:
        return sum(map(len, self._files.values()))

    @property
    def lives(self) -> set[Life]:
        return set(self._files)

    @property
    def missing(self) -> list[int]:
        """Members of which nothing is on record."""
        return sorted(self._info.members - {proc for proc, _ in self.lives})

    @property
    def damaged(self) -> list[str]:
        """Paths inside the run."""
        return [
            part.path.relative_to(self._run).as_posix()
            for its in self._files.values()
            for part, span in its.items()
            if span is None
        ]

    def is_cut_short(self, life: Life) -> bool:
        """Its last file cannot be read, so nothing says whether it has ended."""
        own = self._own(life)
        return bool(own) and own[-1] is None

    def look(self) -> list[Finding]:
        found, is_new = [], False
        for part in parts(self._run):
            if part not in self._files[part.proc, part.incarnation]:
                is_new = True
                found += self._arrived(part)
        return found + self._lost() if is_new or self._seen_once - self._told else found

    def _arrived(self, part: Part) -> list[Finding]:
        its = self._files[part.proc, part.incarnation]
        its[part] = None
        try:
            span = check_footer(part)
        except Incompatible as error:
            self.refused = self.refused or error
            return []
        except (Corrupt, OSError) as error:
            return [Finding("damaged", part.proc, part.incarnation, 0, str(error))]
        its[part] = span
        self.rows += span.rows
        return []

    def _own(self, life: Life) -> list[Span | None]:
        """Without those of witnesses, in the order of their numbers."""
        return [
            span
            for part, span in sorted(self._files[life].items(), key=_part)
            if not part.is_witness
        ]

    def _lost(self) -> list[Finding]:
        there = {(life, hole) for life in self.lives for hole in self._holes(life)}
        sure = sorted((there & self._seen_once) - self._told)
        self._seen_once = there
        self._told.update(sure)
        return [
            Finding("lost", *life, last, f"rows {first} to {last} are missing")
            for life, (first, last) in sure
        ]

    def _holes(self, life: Life) -> list[Hole]:
        """Between sound files that follow each other; a damaged one is told as such."""
        found, due = [], 1
        for span in self._own(life):
            if span is None or not span.rows:
                due = 0  # what it held is not known
                continue
            if due and span.first > due:
                found.append((due, span.first - 1))
            due = span.last + 1
        return found
