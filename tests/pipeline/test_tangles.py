"""What is found inside a component: the same as by looking at every pair, at any size."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

pytest.importorskip("scipy", reason="needs what the pipeline brings: make .venv/.pipeline")

import pyarrow as pa

from shmcast.pipeline import tangles
from shmcast.pipeline.tangles import MESSAGES_MAX, NEVER, Tangle

Step = tuple[int, int]
Place = tuple[int, int, int, bool]  # q, message, place, owed


def table(steps: list[Step], places: list[Place]) -> pa.Table:
    rows = [(0, a, 0, b, -1, 0, False) for a, b in steps]
    rows += [(0, m, 0, m, q, pos, owed) for q, m, pos, owed in places]
    columns = zip(*rows, strict=True)
    names = ("s1", "n1", "s2", "n2", "q", "pos", "owed")
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


def violations(steps: list[Step], places: list[Place]) -> set[tuple[int, int, int]]:
    """By definition: q, effect, cause."""
    causes = defaultdict(set)
    for cause, effect in steps:
        causes[effect].add(cause)
    past: dict[int, set[int]] = {}
    for message in {m for _, m, _, _ in places}:
        reached, left = set[int](), [message]
        while left:
            new = causes[left.pop()] - reached
            reached |= new
            left += new
        past[message] = reached
    return {
        (q, effect, cause)
        for q, effect, at, _ in places
        if at != NEVER
        for other, cause, where, owed in places
        if other == q and owed and where > at and cause in past[effect]
    }


def random_tangle(seed: int) -> tuple[list[Step], list[Place]]:
    rng = random.Random(seed)
    count = rng.randint(2, 12)
    steps = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(1, 12))]
    steps = [(a, b) for a, b in steps if a < b or (a != b and rng.random() < 0.1)]
    places = []
    for q in range(rng.randint(1, 4)):
        line = sorted(range(count), key=lambda m: m + rng.choice((0, 0, 0, 4)))
        for at, message in enumerate(line):
            if rng.random() < 0.9:
                owed = rng.random() < 0.9
                missing = owed and rng.random() < 0.05
                places.append((q, message, NEVER if missing else at, owed))
    return steps, places or [(0, 0, 0, True)]


def test_it_finds_what_the_definition_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangles, "_RECEIVERS", 2)
    kinds = {True: 0, False: 0}
    for seed in range(600):
        steps, places = random_tangle(seed)
        expected = violations(steps, places)
        found = Tangle(table(steps, places)).violation()
        kinds[bool(expected)] += 1
        if found is None:
            assert not expected, f"seed {seed}"
        else:
            assert (found.q, found.effect[1], found.cause[1]) in expected, f"seed {seed}"
    assert min(kinds.values()) > 100


def test_the_largest_tangle_is_walked_once_and_not_once_per_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[int] = []
    nearest = tangles._nearest

    def counted(causes: dict[int, list[int]], message: int, late: dict[int, int]) -> int:
        searches.append(message)
        return nearest(causes, message, late)

    monkeypatch.setattr(tangles, "_nearest", counted)
    steps = [(m, m + 1) for m in range(MESSAGES_MAX - 1)]
    places = [(q, m, m, True) for q in range(2) for m in range(MESSAGES_MAX)]
    assert Tangle(table(steps, places)).violation() is None
    assert searches == []
    places[0] = (0, 0, NEVER, True)
    found = Tangle(table(steps, places)).violation()
    assert found is not None
    assert (found.q, found.cause) == (0, (0, 0))
    assert len(searches) == 1
