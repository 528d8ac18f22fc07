"""Numbers the lives of each run's members, so that a set of them is a few words of bits.

Members' first lives come first, whether or not they are on record: a message is owed to all of
them. Who is in no group has no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shmcast.multicast.checks.trace import Participant

WORDS_MAX = 16  # 1,024 lives; a larger run gets no sets
_BITS = 64


class Cast(NamedTuple):
    """Who is in a run."""

    groups: tuple[tuple[int, ...], ...]
    later: frozenset[Participant]  # lives after the first
    faulty: frozenset[int]


@dataclass
class Roster:
    """Rows of the tables that pipeline/tables.py describes."""

    words: int
    names: list[str] = field(default_factory=list)  # of runs, by their number
    bits: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    masks: list[tuple[int, ...]] = field(default_factory=list)
    correct: list[tuple[str | int, ...]] = field(default_factory=list)
    restarted: set[str] = field(default_factory=set)  # runs in which a member has a second life

    @classmethod
    def of(cls, runs: Mapping[str, Cast], words_max: int) -> Roster:
        lives = {run: _numbered(cast) for run, cast in runs.items()}
        most = max((len(its) for its in lives.values()), default=0)
        roster = cls(max(1, -(-most // _BITS)), list(runs))
        if roster.words <= words_max:
            for r, (run, cast) in enumerate(runs.items()):
                roster._add(r, run, cast, lives[run])
        return roster

    def _add(self, r: int, run: str, cast: Cast, lives: dict[Participant, int]) -> None:
        for (proc, inc), number in lives.items():
            bit = _signed(1 << number % _BITS)
            self.bits.append((r, proc, inc, number // _BITS, bit))
            if inc:
                self.restarted.add(run)
        for g, group in enumerate(cast.groups):
            members = set(group)
            first = [n for (p, k), n in lives.items() if p in members and not k]
            later = [n for (p, k), n in lives.items() if p in members and k]
            self.masks.append((r, g, len(members), *self._set(first), *self._set(later)))
        correct = [n for (p, k), n in lives.items() if not k and p not in cast.faulty]
        self.correct.append((r, run, *self._set(correct)))

    def _set(self, numbers: Iterable[int]) -> list[int]:
        found = [0] * self.words
        for number in numbers:
            found[number // _BITS] |= 1 << number % _BITS
        return [_signed(word) for word in found]

    def columns(self, name: str) -> str:
        return ", ".join(f"{name}{w} bigint" for w in range(self.words))


def _numbered(cast: Cast) -> dict[Participant, int]:
    members = {p for group in cast.groups for p in group}
    first = [(p, 0) for p in sorted(members)]
    later = sorted(life for life in cast.later if life[0] in members)
    return {life: number for number, life in enumerate([*first, *later])}


def _signed(word: int) -> int:
    return word - (1 << _BITS) if word >> (_BITS - 1) else word
