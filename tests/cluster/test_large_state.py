"""A replica that comes back to a large state, or to one that nobody can hand over."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.replicas import Replicas, replicas
from cluster.traffic import Traffic, judged
from helpers import wait_until
from shmcast.errors import MessageTooLarge
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run import handover as handover_module
from shmcast.multicast.run.detector import Detector
from shmcast.multicast.run.eager import EagerNode
from shmcast.multicast.run.handover import CHUNKS_PER_TURN, Handover, Take
from shmcast.multicast.run.records import Declined, Record, SnapshotChunk, decode
from shmcast.multicast.run.replica import EXIT_AGAIN
from shmcast.multicast.run.transfer import MarkerId

LARGE_APPLICATION = """
class Large:
    state = bytes(40 << 20)
    def deliver(self, delivery):
        pass
    def snapshot(self):
        return self.state
    def restore(self, snapshot):
        assert len(snapshot) == len(self.state)
"""
BROKEN_APPLICATION = LARGE_APPLICATION.replace("return self.state", "return 1 // 0")


def comes_back(cluster: Replicas, traffic: Traffic) -> None:
    traffic.wait_for(10)
    cluster.kill("g1.b")
    traffic.wait_for(10)
    cluster.start("g1.b")


def test_a_state_of_many_pieces_is_handed_over_while_traffic_flows(tmp_path: Path) -> None:
    """Above 32 MiB the donor ended; then the next one was asked, and ended as well."""
    (tmp_path / "large.py").write_text(LARGE_APPLICATION)
    with replicas(tmp_path, "large-state", groups=1, app="large:Large") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster, ["g1"])
        comes_back(cluster, traffic)
        wait_until(lambda: cluster.delivered("g1.b", incarnation=1), "it delivers again")
        judged(cluster, traffic, ["g1.a", "g1.c"])


def test_donors_that_cannot_take_a_snapshot_decline_and_live_on(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_APPLICATION)
    with replicas(tmp_path, "no-state", groups=1, app="broken:Large") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster, ["g1"])
        comes_back(cluster, traffic)
        joiner = cluster.processes["g1.b"]
        assert joiner.wait(120) == EXIT_AGAIN
        assert joiner.stderr and "snapshot() failed: ZeroDivisionError" in joiner.stderr.read()
        traffic.wait_for(10)
        judged(cluster, traffic, ["g1.a", "g1.c"])


class Donor:
    """The handover of process 0, and what it sends."""

    def __init__(self) -> None:
        self.room = True
        self.sent: list[Record] = []
        self.handover = Handover(
            Detector(Topology(((0, 1, 2),)), 0, 1000, 0),
            0,
            "g1",
            enter=lambda marker: None,
            send=lambda to, data: self.sent.extend(decode(data)),
            room_for=lambda to: self.room,
            put=lambda item: None,
            deliver=lambda request, place, dest: None,
        )

    def snapshot(self) -> bytes:
        return bytes(1000)

    def restore(self, snapshot: bytes) -> None:
        raise AssertionError("a donor takes nothing over")


def test_what_is_too_large_is_declined_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handover_module, "SNAPSHOT_BYTES_MAX", 999)
    donor = Donor()
    donor.handover.take(Take(MarkerId(1, 1, 1), []), donor)
    donor.handover.give()
    (answer,) = donor.sent
    assert isinstance(answer, Declined)
    assert MessageTooLarge.__name__ in answer.why and "1000 bytes" in answer.why
    assert "gets no state from here" in capsys.readouterr().err


def test_one_that_grows_large_is_told_so_early(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(handover_module, "SNAPSHOT_BYTES_MUCH", 999)
    donor = Donor()
    donor.handover.take(Take(MarkerId(1, 1, 1), []), donor)
    assert "a snapshot of 1000 bytes; at most" in capsys.readouterr().err


def test_pieces_leave_as_there_is_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once they were more than a backlog holds, and the joiner was cut off."""
    monkeypatch.setattr(handover_module, "CHUNK_BYTES", 10)
    donor = Donor()
    donor.handover.take(Take(MarkerId(1, 1, 1), []), donor)
    donor.room = False
    donor.handover.give()
    assert donor.sent == []
    donor.room = True
    donor.handover.give()
    assert len(donor.sent) == CHUNKS_PER_TURN
    while donor.handover.is_giving:
        donor.handover.give()
    chunks = [c for c in donor.sent if isinstance(c, SnapshotChunk)]
    assert [c.index for c in chunks] == list(range(chunks[0].count))


def test_a_joiner_that_died_is_given_nothing_more() -> None:
    donor = Donor()
    donor.handover.take(Take(MarkerId(1, 1, 1), []), donor)
    donor.room = False
    donor.handover._detector.died(1, 1)
    donor.handover.give()
    assert not donor.handover.is_giving


class Broken:
    def snapshot(self) -> bytes:
        raise RuntimeError("no room")

    def restore(self, snapshot: bytes) -> None:
        raise AssertionError("a donor takes nothing over")


def test_a_donor_of_eager_whose_snapshot_fails_says_so_and_lives_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = EagerNode.__new__(EagerNode)  # nothing of its memory is needed
    node.name, node.state, node._outbox = "g1.a", Broken(), []
    node._hand_over(MarkerId(1, 1, 1))
    assert node._outbox == []
    assert "gets no state from here: snapshot() failed: RuntimeError" in capsys.readouterr().err
