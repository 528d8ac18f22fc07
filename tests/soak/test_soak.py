"""Short soak runs, and proof that their judge can say no. `make soak` runs them for minutes."""

from __future__ import annotations

import pytest

from soak.soak import Soak
from support.verdict import Key, SenderLog, violations

SECONDS = 3

A0, A1, B0 = Key(10, 0, "a", 0), Key(20, 0, "a", 1), Key(15, 1, "b", 0)


def judge(receivers: dict[str, list[Key]], refused: set[int] | None = None) -> set[str]:
    senders = [
        SenderLog("a", {0, 1, 2}, {0: "all", 1: "all"}, refused or set()),
        SenderLog("b", {0}, {0: "all"}),
    ]
    return {line.split(":")[0] for line in violations(senders, receivers, "w")}


def test_judge_accepts_slices_of_one_order() -> None:
    assert judge({"w": [A0, B0, A1], "x": [A0, B0], "y": [B0, A1], "z": []}) == set()


@pytest.mark.parametrize(
    ("receivers", "broken"),
    [
        ({"w": [A0, B0, A1], "x": [B0, A0]}, "order"),
        ({"w": [A0, B0, A1], "x": [A0, A1]}, "consensus"),
        ({"w": [A0, A1]}, "validity"),
        ({"w": [A0, A0._replace(timestamp=12), B0, A1]}, "integrity"),
        ({"w": [A0, B0, A1, Key(30, 1, "b", 7)]}, "creation"),
        ({"w": [A0._replace(number=1), B0, A1._replace(number=0)]}, "fifo"),
    ],
)
def test_judge_catches(receivers: dict[str, list[Key]], broken: str) -> None:
    assert broken in judge(receivers)


def test_judge_catches_a_refused_message_that_was_delivered() -> None:
    assert "rejection" in judge({"w": [A0, B0, A1, Key(30, 0, "a", 2)]}, refused={2})


@pytest.mark.slow
def test_eager_survives_random_kills_stops_and_lost_copies() -> None:
    assert Soak(protocol="eager", seconds=SECONDS, seed=11).run() == []


@pytest.mark.slow
def test_a_domain_survives_random_kills_stops_and_lost_copies() -> None:
    assert Soak(seconds=SECONDS, seed=13, mailboxes=("a", "b")).run() == []


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["crash", "timing"])
def test_timed_protocols_survive_random_kills_and_lost_copies(protocol: str) -> None:
    """No stops: a process that is merely late breaks the model of `crash`."""
    assert Soak(protocol=protocol, seconds=SECONDS, seed=14, stops=False).run() == []
