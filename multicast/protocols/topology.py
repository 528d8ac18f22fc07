"""Who is in which group. Fixed for a run; processes that come and go are still listed here."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from shmcast.multicast.protocols.core import GroupId, ProcessId

REMEMBERED_MAX = 4096


@dataclass(frozen=True)
class Topology:
    """Groups are disjoint (paper 000 §II) unless a protocol says otherwise."""

    groups: tuple[tuple[ProcessId, ...], ...]
    clients: tuple[ProcessId, ...] = ()
    _members: dict[tuple[GroupId, ...], tuple[ProcessId, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def regular(cls, groups: int, replicas: int, clients: int = 0) -> Topology:
        """`groups` groups of `replicas` processes each, numbered in order, clients last."""
        first_client = groups * replicas
        return cls(
            groups=tuple(tuple(range(g * replicas, (g + 1) * replicas)) for g in range(groups)),
            clients=tuple(range(first_client, first_client + clients)),
        )

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        everyone = {p for group in self.groups for p in group} | set(self.clients)
        return tuple(sorted(everyone))

    def members(self, dest: tuple[GroupId, ...]) -> tuple[ProcessId, ...]:
        """All processes of all groups in `dest`, each once, in the order of `dest`."""
        found = self._members.get(dest)
        if found is None:
            if len(self._members) >= REMEMBERED_MAX:
                self._members.clear()  # a thousand groups have a billion combinations
            found = tuple(dict.fromkeys(p for g in dest for p in self.groups[g]))
            self._members[dest] = found  # asked for every message: worth remembering
        return found

    def group_of(self, process: ProcessId) -> GroupId | None:
        """The first group that lists `process`; None for a client."""
        return self._first_group.get(process)

    @cached_property
    def _first_group(self) -> dict[ProcessId, GroupId]:
        last_to_first = reversed(list(enumerate(self.groups)))
        return {p: g for g, group in last_to_first for p in group}

    def name(self, process: ProcessId) -> str:
        """ "g2.b" for the second replica of group 2, "c1" for the second client."""
        group = self.group_of(process)
        if group is None:
            return f"c{self.clients.index(process)}"
        members = self.groups[group]
        if len(members) == 1:
            return f"g{group}"
        return f"g{group}.{letters(members.index(process))}"


def letters(index: int) -> str:
    """a, b, …, z, aa, ab, …"""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
