"""Members of a mailbox on another host, through a proxy."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.relay import Relay
from helpers import wait_until
from shmcast.errors import DeadlineMissed, MessageTooLarge, PeerDead
from shmcast.mailbox.mailbox import Mailbox
from shmcast.multicast.run import keys, proxy
from shmcast.multicast.run.proxy import Proxy, RemoteMailbox

LINK_NS = 2_000_000_000  # generous: the machine is busy, not the loopback


class Served:
    def __init__(self, directory: Path) -> None:
        for host in ("here", "there"):
            keys.make(directory, host)
        self.keys = directory
        self.name = f"proxied-{os.getpid()}"
        self.box = Mailbox.create(self.name, copies=2, message_size=256, capacity=16)
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.address = f"tcp://127.0.0.1:{one.getsockname()[1]}"
        self.proxy = Proxy(self.name, self.address, directory, "here")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.proxy.serve, args=(self._stop.is_set,))
        self._thread.start()

    def connect(self, address: str = "") -> RemoteMailbox:
        return RemoteMailbox.connect(
            address or self.address, keys=self.keys, me="there", host="here", link_ns=LINK_NS
        )

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def close(self) -> None:
        self.stop()
        self.proxy.close()
        self.box.close()
        Mailbox.remove(self.name)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "keys")
    yield made
    made.close()


def test_an_idle_member_keeps_its_place(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that had nothing to say for five seconds lost it."""
    monkeypatch.setattr(proxy, "ALIVE_S", 0.01)
    remote = served.connect()
    (member,) = served.proxy.members.values()
    first_ns = member.heard_ns
    wait_until(lambda: member.heard_ns > first_ns, "a sign of life without a question")
    with served.box.sender() as tx:
        tx.send(b"meanwhile")
    assert remote.receive(timeout=10).data == b"meanwhile"
    served.proxy.members.clear()
    with pytest.raises(PeerDead, match="lost its place"):
        remote.send(b"lost", timeout=10)
    member.tx.close()
    member.rx.close()
    remote.close()


def test_remote_and_local_members_see_one_order(served: Served) -> None:
    local_rx, local_tx = served.box.receiver(), served.box.sender()
    remote = served.connect()
    for i in range(10):
        remote.send(f"remote {i}".encode(), timeout=10)
        local_tx.send(f"local {i}".encode(), timeout=10)
        remote.receive(timeout=10), local_rx.receive(timeout=10)
    local_tx.send(b"end", timeout=10)
    remote.send(b"end 2", timeout=10)
    there = [remote.receive(timeout=10) for _ in range(12)]
    here = [local_rx.receive(timeout=10) for _ in range(12)]
    assert [(m.timestamp, m.sender, m.data) for m in there] == [
        (m.timestamp, m.sender, bytes(m.data)) for m in here
    ]
    remote.close()
    local_rx.close()
    local_tx.close()


def test_errors_keep_their_type_and_the_bound_is_stated(served: Served) -> None:
    remote = served.connect()
    assert remote.bound_ns >= LINK_NS + remote.delta_ns > LINK_NS
    with pytest.raises(TimeoutError):
        remote.receive(timeout=0.01)
    with pytest.raises(MessageTooLarge):
        remote.send(b"x" * 300, timeout=1)
    remote.close()


def test_an_answer_that_did_not_come_is_asked_for_again_and_sent_once(served: Served) -> None:
    rx = served.box.receiver()
    remote = served.connect()
    remote.link_ns = remote.delta_ns = 0
    served.stop()
    with pytest.raises(DeadlineMissed, match="retry"):
        remote.send(b"once", timeout=0.05)
    served._stop.clear()
    served._thread = threading.Thread(target=served.proxy.serve, args=(served._stop.is_set,))
    served._thread.start()
    remote.retry(timeout=30)
    remote.send(b"twice", timeout=30)
    assert [bytes(rx.receive(timeout=10).data) for _ in range(2)] == [b"once", b"twice"]
    remote.close()
    rx.close()


def test_a_retry_outlives_bytes_that_were_damaged_on_the_way_back(served: Served) -> None:
    """libzmq gives a connection up for good when it receives what it cannot decrypt."""
    host, port = served.address.removeprefix("tcp://").split(":")
    relay = Relay((host, int(port)))
    rx = served.box.receiver()
    remote = served.connect(relay.address)
    remote.link_ns = remote.delta_ns = 0
    relay.corrupt["back"] = 1
    with pytest.raises(DeadlineMissed, match="retry"):
        remote.send(b"once", timeout=0.5)
    wait_until(lambda: relay.corrupt["back"] == 0, "the answer was damaged")
    remote.link_ns = LINK_NS
    assert remote.retry(timeout=30) is not None
    assert rx.receive(timeout=10).data == b"once"
    with pytest.raises(TimeoutError):
        rx.receive(timeout=0)
    remote.close()
    relay.close()
    rx.close()


def test_a_member_that_leaves_or_dies_frees_its_place(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = served.connect()
    assert len(served.box.stats().receivers) == 1
    first.close()
    wait_until(lambda: not served.box.stats().receivers, "the place of one that left is free")
    silent = served.connect()
    monkeypatch.setattr(proxy, "LEASE_NS", 1)
    wait_until(lambda: not served.box.stats().receivers, "the place of a dead one is free")
    with pytest.raises(PeerDead, match="connect again"):
        silent.receive(timeout=1)
    silent.close()


def test_a_stranger_gets_no_answer_and_no_place(served: Served, tmp_path: Path) -> None:
    others = tmp_path / "others"
    keys.make(others, "there")
    (others / "here.public").write_bytes((served.keys / "here.public").read_bytes())
    with pytest.raises(DeadlineMissed, match="key"):
        RemoteMailbox.connect(
            served.address, keys=others, me="there", host="here", link_ns=1000, timeout=0.5
        )
    assert served.proxy.members == {}
