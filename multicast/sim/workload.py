"""What applications ask for, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from shmcast.multicast.protocols.core import GroupId, ProcessId
from shmcast.multicast.protocols.topology import Topology


@dataclass(frozen=True, slots=True)
class Submit:
    """`process` multicasts to `dest`. Its messages are numbered in the order of submission."""

    at: int
    process: ProcessId
    dest: tuple[GroupId, ...]
    payload: object = None


@dataclass(frozen=True, slots=True)
class Call:
    """`process` is asked something else: to join, to leave, to propose a value."""

    at: int
    process: ProcessId
    what: object


Input: TypeAlias = Submit | Call


def random_submissions(
    topology: Topology,
    messages: int,
    seed: int,
    *,
    interval: int = 300,
    dest_max: int | None = None,
    senders: tuple[ProcessId, ...] | None = None,
) -> Iterator[Submit]:
    """A stream that is never held in memory as a whole.

    Gaps are uniform in [0, 2 · interval], so some messages collide and some travel alone.
    """
    rng = Random(f"{seed}/workload")
    senders = senders or topology.clients or topology.processes
    groups = range(len(topology.groups))
    dest_max = min(dest_max or len(groups), len(groups))
    now = 0
    for _ in range(messages):
        now += rng.randint(0, 2 * interval)
        dest = tuple(sorted(rng.sample(groups, rng.randint(1, dest_max))))
        yield Submit(now, rng.choice(senders), dest)
