"""Vectors of counters, one per process, as messages carry them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shmcast.multicast.protocols.core import ProcessId

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """The payload of the layer above, with what its sender had delivered."""

    payload: object
    counts: Vector


def at_least(a: Iterable[int], b: Iterable[int]) -> bool:
    """a ≥ b, component by component."""
    return all(x >= y for x, y in zip(a, b, strict=True))


def places(processes: tuple[ProcessId, ...]) -> dict[ProcessId, int]:
    """Where in a vector each process is counted."""
    return {process: place for place, process in enumerate(processes)}
