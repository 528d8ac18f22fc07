"""A replica that cannot reach a majority holds still."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcast.multicast.protocols.core import Message, MessageId
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import MulticastMsg
from shmcast.multicast.run import inbox
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.life import OwnLife, path_of
from shmcast.multicast.run.loop import LATE_NS, LATE_NS_MAX, Loop
from shmcast.multicast.run.reach import leaves_majorities
from shmcast.multicast.run.records import Reply

FILE = """
[cluster]
name = "reach-{pid}"
engine = "wbcast"
[groups]
g1 = ["a", "b", "c"]
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """Of g1.a; nobody else has lived yet."""
    file = tmp_path / "cluster.toml"
    file.write_text(FILE.format(pid=os.getpid()))
    config = Cluster.load(file).config
    life = OwnLife(config, 0)
    made = Loop(
        config, config.replica("g1.a"), life, sink=lambda item: None, accepting=lambda: True
    )
    made.begin()
    yield made
    made.close()
    life.close()
    path_of(config, 0).unlink()


def next_beat(loop: Loop) -> None:
    loop.next_beat = 0
    loop.turn()


def test_a_group_may_lose_a_minority() -> None:
    topology = Topology(((0, 1, 2), (3,)))
    assert leaves_majorities(topology, [1])
    assert not leaves_majorities(topology, [1, 2])
    assert not leaves_majorities(topology, [3])


def test_without_a_majority_no_timer_fires_and_each_fires_when_it_is_back(loop: Loop) -> None:
    """One NEWLEADER for each attempt, with rising ballots, waited for the others to be back."""
    next_beat(loop)
    assert not loop.holds_still
    for process in (1, 2):
        loop.detector.died(process, 0)
    next_beat(loop)
    assert loop.holds_still
    loop.timers["x"] = loop.timers["y"] = 1
    loop.timer_heap[:0] = [(1, -2, "x"), (1, -1, "y")]
    loop.turn()
    assert {"x", "y"} <= set(loop.timers)
    loop.detector.heard(1, 1, loop.now)
    next_beat(loop)
    assert not loop.holds_still
    loop.turn()
    assert not {"x", "y"} & set(loop.timers)


def test_what_waits_for_a_majority_stops_what_makes_more(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for process in (1, 2):
        loop.peers.send(process, bytes(9 << 20))
    next_beat(loop)
    assert loop.holds_still


def test_a_peer_that_is_behind_is_looked_at_more_and_more_seldom(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every 200 µs, for as long as it was stopped."""
    for _ in range(8):
        loop.turn()
    assert loop.late_ns == LATE_NS  # whoever falls behind is looked at soon, at first
    outlet = inbox.Outlet("reach-nobody", b"")
    outlet._backlog.append(b"frame")
    monkeypatch.setattr(outlet, "flush", lambda: False)
    loop.peers._late.add(outlet)
    for _ in range(8):
        loop.next_beat = loop.now + 1_000_000
        loop.turn()
    assert loop.late_ns == LATE_NS_MAX


def test_a_lone_answer_leaves_before_what_its_delivery_makes_others_do(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client waited until its delivery had been told to everybody else."""
    left: list[str] = []
    monkeypatch.setattr(loop.peers, "send", lambda to, data: left.append("replica"))
    monkeypatch.setattr(loop.peers, "answer", lambda client, data: left.append("client"))
    loop.outgoing[1] = [MulticastMsg(Message(MessageId(0, 1), (0,), b""))]
    loop.answers[7] = [Reply(7, 1, 1, 0)]
    loop._send_all()
    assert left == ["client", "replica"]
    left.clear()
    loop.outgoing[1] = [MulticastMsg(Message(MessageId(0, 2), (0,), b""))]
    loop.answers = {7: [Reply(7, 2, 1, 0)], 8: [Reply(8, 1, 1, 0)]}
    loop._send_all()
    assert left == ["replica", "client", "client"]
