"""The verdict over logs of a cluster catches what it is there to catch."""

from __future__ import annotations

import pytest

from cluster.verdict import Acked, Life, Seen, violations

BOTH, ONE = frozenset({"g1", "g2"}), frozenset({"g1"})


def acked(n: int, groups: frozenset[str] = BOTH, at: int | None = None) -> Acked:
    return Acked((7, n), groups, (n if at is None else at, 0))


def seen(n: int, groups: frozenset[str] = BOTH, at: int | None = None) -> Seen:
    return Seen((n if at is None else at, 0), (7, n), groups)


GOOD = [
    Life("g1.a", "g1", [seen(1), seen(2, ONE), seen(3)]),
    Life("g1.b", "g1", [seen(1)], survived=False),
    Life("g1.b", "g1", [seen(2, ONE), seen(3)]),
    Life("g2.a", "g2", [seen(1), seen(3)]),
]
CLIENT = [acked(1), acked(2, ONE), acked(3)]


def test_a_good_run_has_no_violation() -> None:
    assert violations([CLIENT], GOOD) == []


@pytest.mark.parametrize(
    ("lives", "what"),
    [
        ([*GOOD[:3], Life("g2.a", "g2", [seen(1)])], "g2 never saw it"),
        ([Life("g1.a", "g1", [seen(1), seen(3)]), *GOOD[1:]], "missed 1"),
        ([Life("g1.a", "g1", [seen(1), seen(2, ONE)]), *GOOD[1:]], "missed 1"),
        ([Life("g1.a", "g1", [seen(1), seen(1), seen(2, ONE), seen(3)]), *GOOD[1:]], "twice"),
        ([Life("g1.a", "g1", [seen(2, ONE), seen(1), seen(3)]), *GOOD[1:]], "came after"),
        ([*GOOD[:3], Life("g2.a", "g2", [seen(1), seen(3, at=4)])], "(7, 3) is at"),
        ([*GOOD[:3], Life("g2.a", "g2", [seen(1), seen(2, ONE), seen(3)])], "only"),
        ([*GOOD[:2], Life("g1.b", "g1", [seen(9, at=2), seen(3)]), GOOD[3]], "both at"),
    ],
)
def test_a_broken_run_is_caught(lives: list[Life], what: str) -> None:
    assert any(what in one for one in violations([CLIENT], lives))


def test_a_client_whose_messages_changed_places_is_caught() -> None:
    lives = [Life("g1.a", "g1", [seen(2, ONE, at=1), seen(1, ONE, at=2)])]
    found = violations([[acked(1, ONE, at=2), acked(2, ONE, at=1)]], lives)
    assert any("stands before it" in one for one in found)
