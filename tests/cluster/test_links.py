"""Links between hosts, over loopback and through a relay that misbehaves."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest
import zmq
from typer.testing import CliRunner

from cluster.relay import Relay
from helpers import wait_until
from shmcast.cli.main import app
from shmcast.errors import ConfigError, Corrupt, MessageTooLarge, NotPermitted
from shmcast.multicast.run import keys, link
from shmcast.multicast.run.config import ClusterConfig, Group, Host, Replica
from shmcast.multicast.run.links import PIECE_BYTES, Links
from shmcast.multicast.run.wire import FRAME_BYTES_MAX


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


class Pair:
    """Process 0 on host alpha, process 1 on host beta."""

    def __init__(
        self, directory: Path, address: str = "127.0.0.1", *, beside: bool = False
    ) -> None:
        """`beside`: a third member, on alpha, so that the group can do without beta."""
        for host in ("alpha", "beta", "stranger"):
            keys.make(directory, host)
        self.keys = directory
        ports = [free_port(), free_port()]
        replicas = tuple(
            Replica(f"g1.{'ab'[i]}", i, "g1", host, ports[i], None)
            for i, host in enumerate(("alpha", "beta"))
        )
        third = (Replica("g1.c", 2, "g1", "alpha", free_port(), None),) if beside else ()
        self.ports = ports
        self.config = ClusterConfig(
            path=directory / "cluster.toml",
            name="test",
            engine="wbcast",
            hosts=tuple(Host(r.host, address, r.port) for r in replicas),
            groups=(Group("g1", replicas + third),),
            copies=1,
            message_size=1024,
            options=MappingProxyType({}),
            trace=None,
            keys=directory,
        )
        self.got: dict[int, list[bytes]] = {0: [], 1: []}
        self.lost: dict[int, list[str]] = {0: [], 1: []}
        self.open: list[Links] = []
        self.relays: list[Relay] = []

    def start(self, me: int, life: int = 0, **options: object) -> Links:
        got, lost = self.got, self.lost
        links = Links(
            self.config,
            me,
            life,
            lambda _sender, data: got[me].append(data),
            lost=lambda _process, why: lost[me].append(why),
            **options,  # type: ignore[arg-type]
        )
        self.open.append(links)
        return links

    def through_a_relay(self, life: int = 0, **options: object) -> tuple[Links, Links, Relay]:
        relay = Relay(("127.0.0.1", self.ports[1]))
        self.relays.append(relay)
        beta = self.start(1)
        return self.start(0, life, addresses={1: relay.address}, **options), beta, relay

    def close(self) -> None:
        for links in self.open:
            links.close(timeout=0)
        for relay in self.relays:
            relay.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path / "keys")
    yield made
    made.close()


def frames(first: int, end: int) -> list[bytes]:
    return [f"{i}".encode() for i in range(first, end)]


def send_all(links: Links, to: int, what: list[bytes]) -> None:
    for data in what:
        wait_until(lambda data=data: links.send(to, data), "room on the link")


def expect(pair: Pair, at: int, what: list[bytes]) -> None:
    wait_until(lambda: len(pair.got[at]) >= len(what), f"{len(what)} frames at {at}")
    assert pair.got[at] == what


def test_frames_arrive_in_order_both_ways(pair: Pair) -> None:
    alpha, beta = pair.start(0), pair.start(1)
    send_all(alpha, 1, frames(0, 3000))
    send_all(beta, 0, frames(0, 500))
    expect(pair, 1, frames(0, 3000))
    expect(pair, 0, frames(0, 500))
    wait_until(lambda: alpha.status()[1].waiting_frames == 0, "all acknowledged")


def test_a_long_frame_travels_in_pieces(pair: Pair) -> None:
    alpha, _, relay = pair.through_a_relay()
    long = [b"first", bytes(3 * PIECE_BYTES + 7), b"last"]
    send_all(alpha, 1, long[:2])
    relay.cut()
    send_all(alpha, 1, long[2:])
    expect(pair, 1, long)


def test_hosts_may_have_ipv6_addresses(tmp_path: Path) -> None:
    """The file was accepted, and the URL without brackets was not."""
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    pair = Pair(tmp_path / "keys", "::1")
    try:
        alpha, _ = pair.start(0), pair.start(1)
        send_all(alpha, 1, frames(0, 20))
        expect(pair, 1, frames(0, 20))
    finally:
        pair.close()


def test_a_port_that_is_taken_is_named_with_what_to_do(pair: Pair) -> None:
    with (
        socket.create_server(("127.0.0.1", pair.ports[0])),
        pytest.raises(ConfigError, match=r"cannot listen at .*in use.*another address or port"),
    ):
        pair.start(0)


def test_what_is_sent_before_the_peer_starts_arrives(pair: Pair) -> None:
    alpha = pair.start(0)
    send_all(alpha, 1, frames(0, 2500))  # more than one window
    pair.start(1)
    expect(pair, 1, frames(0, 2500))


def test_nothing_is_lost_or_doubled_across_cuts(pair: Pair) -> None:
    alpha, _, relay = pair.through_a_relay()
    for i in range(8):
        send_all(alpha, 1, frames(i * 300, i * 300 + 300))
        relay.cut()
        already = relay.taken
        wait_until(lambda n=already: relay.taken > n, "a new connection")
    expect(pair, 1, frames(0, 2400))


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_one_way_partition_delays_and_loses_nothing(pair: Pair, way: str) -> None:
    alpha, _, relay = pair.through_a_relay()
    send_all(alpha, 1, frames(0, 50))
    expect(pair, 1, frames(0, 50))
    relay.open[way].clear()
    send_all(alpha, 1, frames(50, 400))
    wait_until(lambda: alpha.status()[1].waiting_frames >= 350, "all wait for their answer")
    relay.heal()
    expect(pair, 1, frames(0, 400))


@pytest.mark.parametrize("way", ["there", "back"])
def test_damaged_bytes_never_arrive_as_a_frame_and_the_link_recovers(pair: Pair, way: str) -> None:
    """libzmq gives a connection up for good when it *receives* what it cannot decrypt."""
    alpha, _, relay = pair.through_a_relay()
    send_all(alpha, 1, frames(0, 20))
    expect(pair, 1, frames(0, 20))
    relay.corrupt[way] = 2
    send_all(alpha, 1, frames(20, 600))
    expect(pair, 1, frames(0, 600))
    wait_until(lambda: relay.corrupt[way] == 0, "bytes were damaged")
    send_all(alpha, 1, frames(600, 700))
    expect(pair, 1, frames(0, 700))


def test_a_slow_link_keeps_the_order(pair: Pair) -> None:
    alpha, _, relay = pair.through_a_relay()
    relay.delay_s = 0.02
    send_all(alpha, 1, frames(0, 300))
    expect(pair, 1, frames(0, 300))


def test_a_new_life_gets_nothing_that_was_meant_for_the_old_one(pair: Pair) -> None:
    alpha, beta = pair.start(0), pair.start(1)
    send_all(alpha, 1, [b"old"])
    expect(pair, 1, [b"old"])
    wait_until(lambda: alpha.status()[1].waiting_frames == 0, "acknowledged")
    beta.close()
    pair.got[1].clear()
    send_all(alpha, 1, [b"for the dead"])
    pair.start(1, life=1)
    wait_until(lambda: alpha.status()[1].life == 1, "the new life is known")
    assert "life 0 ended" in pair.lost[0][0]
    send_all(alpha, 1, [b"new"])
    expect(pair, 1, [b"new"])


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path / "keys", beside=True)
    yield made
    made.close()


def test_who_drops_what_is_for_a_majority_ends_itself_and_cuts_nobody(pair: Pair) -> None:
    """A host that was cut off for long ended every healthy replica when it was back."""
    alpha, beta, relay = pair.through_a_relay(bytes_max=1000)
    send_all(alpha, 1, frames(0, 10))
    expect(pair, 1, frames(0, 10))
    relay.cut(refusing=True)
    send_all(alpha, 1, [b"x" * 100] * 20)
    wait_until(lambda: alpha.alone, "it is the one that is alone")
    assert alpha.stuffed() == [1]
    relay.heal()
    already = relay.taken
    wait_until(lambda: relay.taken > already, "a new connection")
    before = alpha.status()[1].heard_ns
    wait_until(lambda: (alpha.status()[1].heard_ns or 0) < (before or 0), "an answer")
    assert not beta.status()[0].cut


def test_a_link_that_overflows_is_cut_on_both_sides_and_never_has_a_gap(trio: Pair) -> None:
    pair = trio
    alpha, beta, relay = pair.through_a_relay(bytes_max=1000)
    send_all(alpha, 1, frames(0, 10))
    expect(pair, 1, frames(0, 10))
    relay.cut(refusing=True)
    send_all(alpha, 1, [b"x" * 100] * 20)
    wait_until(lambda: alpha.status()[1].cut, "alpha cuts")
    assert "cut" in pair.lost[0][0]
    relay.heal()
    wait_until(lambda: beta.status()[0].cut, "beta hears of it")
    send_all(alpha, 1, [b"late"])
    wait_until(lambda: alpha.status()[1].waiting_frames == 0, "it is dropped")
    assert pair.got[1] == frames(0, 10)
    alpha.close()
    again = pair.start(0, life=1)
    send_all(again, 1, [b"again"])
    wait_until(lambda: b"again" in pair.got[1], "a new life is heard")
    assert pair.got[1] == [*frames(0, 10), b"again"]


def test_a_receiver_without_room_gets_the_frame_again(pair: Pair) -> None:
    refused = [b"2"]

    def arrived(_sender: int, data: bytes) -> bool:
        if data in refused:
            refused.clear()
            return False
        pair.got[1].append(data)
        return True

    alpha = pair.start(0)
    pair.open.append(Links(pair.config, 1, 0, arrived))
    send_all(alpha, 1, frames(0, 5))
    expect(pair, 1, frames(0, 5))


def dealer(pair: Pair, context: zmq.Context[zmq.Socket[bytes]], host: str) -> zmq.Socket[bytes]:
    """A socket that connects to alpha with this host's key."""
    one = context.socket(zmq.DEALER)
    one.linger = 0
    one.curve_publickey, one.curve_secretkey = keys.key_pair(pair.keys, host)
    one.curve_serverkey = keys.public_key(pair.keys, "alpha")
    one.connect(f"tcp://127.0.0.1:{pair.ports[0]}")
    return one


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_flood_with_the_wrong_key_gets_nothing_and_leaves_nothing(pair: Pair) -> None:
    alpha, beta = pair.start(0), pair.start(1)
    send_all(beta, 0, frames(0, 10))
    expect(pair, 0, frames(0, 10))
    before = descriptors()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    flood = [dealer(pair, context, "stranger") for _ in range(100)]
    hello = link.encode(link.Hello(1, link.life_of(9, 0), pair.config.fingerprint, 0))
    for one in flood:
        one.send(hello)
    wait_until(lambda: alpha.refused_connections >= 100, "all were judged")
    send_all(beta, 0, frames(10, 200))
    expect(pair, 0, frames(0, 200))
    assert not any(one.poll(0) for one in flood)
    assert alpha.status()[1].life == 0 and len(alpha.status()) == 1
    assert "key that no host of this cluster has" in alpha.complaints()[None]
    context.destroy(linger=0)
    wait_until(lambda: descriptors() <= before, "every connection is gone")


def test_connections_that_say_nothing_are_closed(pair: Pair) -> None:
    pair.start(0)
    silent = [socket.create_connection(("127.0.0.1", pair.ports[0])) for _ in range(20)]
    for one in silent:
        one.settimeout(30)
        while one.recv(1000):  # the greeting, then the end
            pass
        one.close()


@pytest.mark.parametrize("wrong", ["alpha", "beta"])
def test_a_host_with_a_wrong_key_is_told_so_itself(pair: Pair, wrong: str) -> None:
    """Only the others complained, of a stranger; where the mistake was nobody said a word."""
    beta = pair.start(1)
    for kind in (".public", ".secret") if wrong == "alpha" else (".public",):
        (pair.keys / f"{wrong}{kind}").write_bytes((pair.keys / f"stranger{kind}").read_bytes())
    alpha = pair.start(0, unanswered_ns=1)
    wait_until(lambda: "compare the .public files" in alpha.complaints().get(1, ""), "it says so")
    if wrong == "alpha":
        wait_until(lambda: None in beta.complaints(), "and so does the other side")


def test_another_hosts_key_does_not_make_a_process(pair: Pair) -> None:
    """beta's key, but it says that it is process 0 or 7."""
    alpha = pair.start(0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    one = dealer(pair, context, "beta")
    one.send(link.encode(link.Hello(7, 0, pair.config.fingerprint, 0)))
    wait_until(lambda: "another's key" in alpha.status()[1].error, "it is noted")
    context.destroy(linger=0)


def test_a_sender_of_what_nobody_can_read_is_told_and_the_reader_goes_on(pair: Pair) -> None:
    """The reader ended: one replica of another release took down all others."""
    alpha, beta = pair.start(0), pair.start(1)
    send_all(alpha, 1, frames(0, 5))
    expect(pair, 1, frames(0, 5))
    beta.refuse(0, "no frame of ours")
    wait_until(lambda: alpha.unread is not None, "the sender knows")
    assert alpha.unread == (1, "no frame of ours")
    send_all(beta, 0, frames(0, 5))
    expect(pair, 0, frames(0, 5))
    assert beta.missed == []
    alpha.close(timeout=0)
    again = pair.start(0, life=1)
    send_all(again, 1, frames(5, 9))
    expect(pair, 1, frames(0, 9))


def test_another_wire_version_is_refused_before_a_frame_is_read(pair: Pair) -> None:
    alpha = pair.start(0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    one = dealer(pair, context, "beta")
    one.send(link.encode(link.Hello(1, 0, pair.config.fingerprint, 0, wire=99)))
    wait_until(lambda: "wire version 99 meets" in alpha.status()[1].error, "alpha says it")
    assert one.poll(30_000)
    answer = link.decode(one.recv())
    assert isinstance(answer, link.Refused) and "same release" in answer.why
    assert alpha.status()[1].life is None
    context.destroy(linger=0)


def test_another_version_is_told_to_both_sides(pair: Pair) -> None:
    alpha = pair.start(0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    one = dealer(pair, context, "beta")
    one.send(bytes([link.LINK_VERSION + 8]) + b"future")
    wait_until(lambda: "same release" in alpha.status()[1].error, "alpha's status says it")
    assert one.poll(30_000)
    answer = link.decode(one.recv())
    assert isinstance(answer, link.Refused) and "same release" in answer.why
    context.destroy(linger=0)


def test_a_peer_that_refuses_is_named_in_the_status(pair: Pair) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = context.socket(zmq.ROUTER)
    server.curve_publickey, server.curve_secretkey = keys.key_pair(pair.keys, "beta")
    server.curve_server = True
    server.bind(f"tcp://127.0.0.1:{pair.ports[1]}")
    alpha = pair.start(0)
    assert server.poll(30_000)
    route = server.recv_multipart()[0]
    server.send_multipart([route, link.encode(link.Refused(9, "another release"))])
    wait_until(lambda: "another release" in alpha.status()[1].error, "alpha's status says it")
    server.send_multipart([route, bytes([99, 1])])
    wait_until(lambda: "link version 99" in alpha.status()[1].error, "and the version")
    server.send_multipart([route, bytes([link.LINK_VERSION, 0xC1])])
    wait_until(lambda: "not a record" in alpha.status()[1].error, "and garbage")
    context.destroy(linger=0)


def test_the_other_hosts_clock_is_known_within_a_bound(pair: Pair) -> None:
    """One machine, one clock: the true offset is 0."""
    alpha, _ = pair.start(0), pair.start(1)
    interval = wait_until(lambda: alpha.status()[1].clock, "a round trip")
    assert interval.low_ns <= 0 <= interval.high_ns


def test_an_oversized_frame_is_refused(pair: Pair) -> None:
    alpha = pair.start(0)
    with pytest.raises(MessageTooLarge):
        alpha.send(1, bytes(FRAME_BYTES_MAX + 1))


# Keys --------------------------------------------------------------------------------------------


def test_keys_are_made_with_the_secret_for_its_owner_only(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "a", "b", "--dir", str(tmp_path), "--json"])
    made = json.loads(result.output)
    assert set(made) == {"a", "b"}
    assert stat.S_IMODE(os.stat(made["a"]["secret"]).st_mode) == 0o600
    assert keys.key_pair(tmp_path, "a").public == keys.public_key(tmp_path, "a")
    assert CliRunner().invoke(app, ["keys", "a", "--dir", str(tmp_path)]).exit_code == 9


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    _, secret = keys.make(tmp_path, "a")
    secret.chmod(0o640)
    with pytest.raises(NotPermitted, match="chmod 600"):
        keys.key_pair(tmp_path, "a")


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    public, _ = keys.make(tmp_path, "a")
    public.write_text("hello")
    with pytest.raises(Corrupt, match="again"):
        keys.public_key(tmp_path, "a")
    with pytest.raises(FileNotFoundError, match="shmcast keys"):
        keys.public_key(tmp_path, "b")
    with pytest.raises(ValueError, match="name of a host"):
        keys.make(tmp_path, "../b")
