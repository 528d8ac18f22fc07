"""The a-priori sendersTo relation and the other settings of the protocols of paper 002."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from shmcast.multicast.protocols.core import GroupId
from shmcast.multicast.protocols.registry import Options
from shmcast.multicast.protocols.topology import Topology

SendersTo = tuple[tuple[GroupId, ...], ...]  # by destination group


@dataclass(frozen=True, slots=True)
class Config:
    """Options: `senders_to` {h: groups} (default: all of all), `null_ticks` (Δ; default: barriers
    are requested), `window` (ticks; default: estimated), `sparse` (default relation: own only)."""

    senders_to: SendersTo
    null_ticks: int | None = None
    window: int | None = None

    @property
    def requested(self) -> bool:
        return self.null_ticks is None

    @classmethod
    def of(cls, topology: Topology, options: Options) -> Config:
        everyone = range(len(topology.groups))
        given = options.get("senders_to", {} if options.get("sparse") else None)
        relation = cast("Mapping[GroupId, Iterable[GroupId]] | None", given)
        return cls(
            senders_to=tuple(_senders(h, everyone, relation) for h in everyone),
            null_ticks=cast("int | None", options.get("null_ticks")),
            window=cast("int | None", options.get("window")),
        )


def _senders(
    h: GroupId,
    everyone: Iterable[GroupId],
    relation: Mapping[GroupId, Iterable[GroupId]] | None,
) -> tuple[GroupId, ...]:
    """DEVIATION: a group is always one of its own senders. The barrier of h's own log is what
    keeps a message above m_rp.ts from being delivered before m_rp is known (§5)."""
    if relation is None:
        return tuple(everyone)
    return tuple(sorted({h, *relation.get(h, ())}))
