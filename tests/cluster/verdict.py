"""What clients were told and what replicas delivered, from logs that they wrote themselves.

Independent of traces and their checkers on purpose: those are written by the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Key = tuple[int, int]  # client, sequence
Place = tuple[int, int]


class Acked(NamedTuple):
    """A client was told: ordered, at this place. In the order in which it asked."""

    key: Key
    groups: frozenset[str]
    place: Place


class Seen(NamedTuple):
    """A replica's application took a delivery."""

    place: Place
    key: Key
    groups: frozenset[str]


class Life(NamedTuple):
    replica: str
    group: str
    seen: Sequence[Seen]
    survived: bool = True  # it was still there at the end: it must have everything up to then


def violations(acked: Iterable[Sequence[Acked]], lives: Sequence[Life]) -> list[str]:
    """Every promise that was broken; empty is good."""
    found: list[str] = []
    clients = list(acked)
    for life in lives:
        found += _of_one_life(life)
    by_group: dict[str, dict[Place, Seen]] = {}
    places: dict[Key, Place] = {}
    for life in lives:
        order = by_group.setdefault(life.group, {})
        for one in life.seen:
            other = order.setdefault(one.place, one)
            if other.key != one.key:
                found.append(f"{life.replica}: {other.key} and {one.key} both at {one.place}")
            if places.setdefault(one.key, one.place) != one.place:
                found.append(f"{one.key} is at {places[one.key]} and at {one.place}")
    for life in lives:
        found += _gaps(life, by_group[life.group])
    for client in clients:
        found += _of_one_client(client, by_group)
    return found


def _of_one_life(life: Life) -> list[str]:
    found = []
    keys: set[Key] = set()
    last: Place | None = None
    for one in life.seen:
        if one.key in keys:
            found.append(f"{life.replica}: {one.key} was delivered twice")
        keys.add(one.key)
        if last is not None and one.place <= last:
            found.append(f"{life.replica}: {one.key} at {one.place} came after {last}")
        last = one.place
        if life.group not in one.groups:
            found.append(f"{life.replica}: {one.key} is for {sorted(one.groups)} only")
    return found


def _gaps(life: Life, order: dict[Place, Seen]) -> list[str]:
    """From its first delivery to its last, a life misses nothing that its group delivered; one
    that survived misses nothing until the end."""
    if not life.seen:
        return []
    seen = {one.place for one in life.seen}
    first, last = min(seen), max(order) if life.survived else max(seen)
    missed = sorted(place for place in order if first <= place <= last and place not in seen)
    if missed:
        keys = [order[place].key for place in missed[:3]]
        return [f"{life.replica}: missed {len(missed)} deliveries of its group, as {keys}"]
    return []


def _of_one_client(client: Sequence[Acked], by_group: dict[str, dict[Place, Seen]]) -> list[str]:
    found = []
    last: dict[str, Acked] = {}
    for one in client:
        for group in one.groups:
            delivered = by_group.get(group, {}).get(one.place)
            if delivered is None or delivered.key != one.key:
                found.append(f"{one.key} was acknowledged at {one.place}; {group} never saw it")
            if group in last and last[group].place >= one.place:
                before = last[group].key
                found.append(f"{group}: {one.key} was asked for once {before} was acknowledged, "
                             "and stands before it")  # fmt: skip
            last[group] = one
    return found
