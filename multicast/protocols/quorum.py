"""Quorums: any two share a process, so what one has seen the next one learns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shmcast.multicast.protocols.core import ProcessId

Vote = TypeVar("Vote")


def majority(member_count: int) -> int:
    """f + 1 of 2f + 1."""
    return member_count // 2 + 1


@dataclass(slots=True)
class Tally(Generic[Vote]):
    """Votes of one group on one question; a second vote of a process counts for nothing."""

    members: tuple[ProcessId, ...]
    votes: dict[ProcessId, Vote] = field(default_factory=dict)

    def add(self, voter: ProcessId, vote: Vote) -> bool:
        """True exactly once: when this vote completes the quorum."""
        if voter not in self.members or voter in self.votes:
            return False
        self.votes[voter] = vote
        return len(self.votes) == majority(len(self.members))

    @property
    def reached(self) -> bool:
        return len(self.votes) >= majority(len(self.members))


@dataclass(slots=True)
class Tallies(Generic[Vote]):
    """One tally per key, for a group that answers many questions at once."""

    members: tuple[ProcessId, ...]
    by_key: dict[Hashable, Tally[Vote]] = field(default_factory=dict)

    def add(self, key: Hashable, voter: ProcessId, vote: Vote) -> bool:
        tally = self.by_key.get(key)
        if tally is None:
            tally = self.by_key[key] = Tally(self.members)
        return tally.add(voter, vote)

    def forget(self, key: Hashable) -> None:
        self.by_key.pop(key, None)
