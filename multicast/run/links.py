"""Links between the processes of different hosts: ZeroMQ over TCP, authenticated and encrypted by
CURVE (docs/decisions/0034). link.py holds what is promised and how; this file moves the bytes.

Each process listens on one ROUTER socket and has a DEALER to every process of another host. What
it sends travels on its own DEALER, the answers come back there. One thread does all of it.

A peer is known by its key before a byte of it is read: libzmq asks `_judge` about the key of
every connection, and drops it if no host of the cluster has it. Nothing is remembered of it.

libzmq connects again by itself, but not after bytes that it could not decrypt: it gives such a
connection up for good, without a word. So a DEALER that brings no answer is replaced by a new one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import zmq
from zmq.utils.z85 import encode as z85

from shmcast.errors import ConfigError, Corrupt, Incompatible, MessageTooLarge
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run import link
from shmcast.multicast.run.config import ClusterConfig, Replica
from shmcast.multicast.run.keys import key_pair, public_key
from shmcast.multicast.run.link import (
    Ack,
    Cut,
    Data,
    Hello,
    Incoming,
    Outgoing,
    Refused,
    Unread,
    Welcome,
)
from shmcast.multicast.run.reach import leaves_majorities
from shmcast.multicast.run.wire import FRAME_BYTES_MAX, VERSION
from shmcast.realtime.clock import HOST_DRIFT_PPB, ClockBroken, Interval, RemoteClock

HEARTBEAT_NS = 50_000_000
FRAMES_MAX = 65_536  # kept for one peer, until it has them
BYTES_MAX = 64 << 20  # and one frame
PIECE_BYTES = 1 << 20  # a frame travels in such: no heartbeat waits long behind one
SILENCE_NS = 2_000_000_000  # a DEALER that brought nothing for so long is replaced; then doubled
SILENCE_NS_MAX = 8_000_000_000  # a slow host, too, gets through a handshake by then
UNANSWERED_NS = 10_000_000_000  # after which a silent peer is complained of
HANDSHAKE_SHARE = 2  # of that time: who has not shown its key in half of it is disconnected
BATCH = 256  # parts taken from one socket before the others have their turn
_WHY_MAX = 300
_ZAP = "inproc://zeromq.zap.01"

Arrived = Callable[[ProcessId, bytes], "bool | None"]
"""False: no room; the frame stays with its sender and comes again."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One peer, as this process sees it."""

    life: int | None  # None: it never answered
    heard_ns: int | None  # since its last word
    waiting_frames: int
    waiting_bytes: int
    cut: bool  # frames were dropped, there or here: it must come back as a new life
    error: str  # what it refuses, or what of it was refused
    clock: Interval | None  # its clock minus ours, when this was asked for


class Heard(NamedTuple):
    """A peer's last word about itself."""

    process: ProcessId
    life: int
    at_ns: int  # by our clock
    epoch: int
    leader: ProcessId


@dataclass(slots=True)
class _Peer:
    process: ProcessId
    key: bytes
    address: str
    socket: zmq.Socket[bytes]
    silent_since_ns: int  # the socket was made, or brought something, then
    out: Outgoing
    into: Incoming
    clock: RemoteClock
    route: bytes = b""  # where its last Hello came from
    heard_ns: int | None = None
    patience_ns: int = SILENCE_NS
    shown: Heard | None = None
    error: str = ""
    told_cut: bool = False
    owes_ack: bool = False
    gap: bool = False
    full: bool = False  # we had no room for its next frame: what follows is no gap
    waiting: deque[bytes] = field(default_factory=deque)  # handed over by send(), not taken yet
    waiting_bytes: int = 0


def url_of(address: str | None, port: int | None) -> str:
    return f"tcp://[{address}]:{port}" if ":" in str(address) else f"tcp://{address}:{port}"


def is_ipv6(url: str) -> bool:
    return url.startswith("tcp://[")


class Links:
    def __init__(
        self,
        config: ClusterConfig,
        me: ProcessId,
        incarnation: int,
        arrived: Arrived,
        *,
        lost: Callable[[ProcessId, str], None] = lambda _process, _why: None,
        addresses: Mapping[ProcessId, str] | None = None,
        bytes_max: int = BYTES_MAX,
        heartbeat_ns: int = HEARTBEAT_NS,
        unanswered_ns: int = UNANSWERED_NS,
    ) -> None:
        """`lost` is told of a peer that must be suspected: its life changed, or its link is cut.
        `addresses` ("tcp://host:port") go before those of the configuration."""
        if config.keys is None:
            raise FileNotFoundError(f"{config.path}: several hosts need `keys = ` of [cluster]")
        replicas = config.replicas
        mine = replicas[me]
        self.me, self.cluster = me, config.fingerprint
        self.life = link.life_of(incarnation, secrets.randbits(link.BIRTH_BITS))
        self.outlived: int | None = None  # the number of a life of ours that others remember
        self._topology = config.topology
        self.alone = False  # so much was dropped that a group would lose its majority: our fault
        self.unread: tuple[ProcessId, str] | None = None  # who cannot read what we send, and why
        self.arrived, self.lost = arrived, lost
        self.refused_connections = 0
        self._heartbeat_ns, self._unanswered_ns = heartbeat_ns, unanswered_ns
        self._began_ns = time.monotonic_ns()
        self._shows = (0, -1)
        self.error: BaseException | None = None  # what ended the thread
        self._keys = key_pair(config.keys, mine.host)
        self._allowed = {public_key(config.keys, r.host) for r in replicas if r.host != mine.host}
        self._lock = threading.Lock()
        self._closing_ns: int | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind(_ZAP)
        self._router = self._socket(zmq.ROUTER, SILENCE_NS_MAX)
        self._router.curve_server = True
        self._router.zap_domain = b"shmcast"
        self._poller = zmq.Poller()
        self._peers: dict[ProcessId, _Peer] = {}
        try:
            self._listen(config, mine)
            for r in replicas:
                if r.host != mine.host:
                    address = url_of(config.host(r.host).address, r.port)
                    address = (addresses or {}).get(r.proc, address)
                    self._add(r.proc, public_key(config.keys, r.host), address, bytes_max)
        except BaseException:
            self._context.destroy(linger=0)
            os.close(self._wake)
            raise
        self._thread = threading.Thread(target=self._run, name="shmcast-links", daemon=True)
        self._thread.start()

    # For the process ---------------------------------------------------------------------------

    def send(self, to: ProcessId, data: bytes) -> bool:
        """False: no room just now; nothing was sent."""
        if len(data) > FRAME_BYTES_MAX:
            raise MessageTooLarge(f"{len(data)} bytes; at most {FRAME_BYTES_MAX} in one frame")
        if self.error is not None:
            raise self.error
        peer = self._peers[to]
        with self._lock:
            if len(peer.waiting) >= FRAMES_MAX or peer.waiting_bytes > BYTES_MAX:
                return False
            peer.waiting.append(data)
            peer.waiting_bytes += len(data)
        self._wake_up()
        return True

    def status(self) -> dict[ProcessId, LinkStatus]:
        now = time.monotonic_ns()
        return {
            p.process: LinkStatus(
                None if p.out.to_life is None else link.number_of(p.out.to_life),
                None if p.heard_ns is None else now - p.heard_ns,
                len(p.out.kept) + len(p.waiting),
                p.out.kept_bytes + p.waiting_bytes,
                p.out.cut or p.into.cut,
                p.error,
                p.clock.known(now),
            )
            for p in self._peers.values()
        }

    def show(self, epoch: int, leader: ProcessId) -> None:
        """What heartbeats say from now on of the leadership of our group."""
        self._shows = (epoch, leader)

    def heard(self) -> list[Heard]:
        """The last heartbeat of every peer that is not cut off by us."""
        peers = self._peers.values()
        return [p.shown for p in peers if p.shown is not None and not p.out.cut]

    def life_of(self, process: ProcessId) -> int:
        """Whose frames arrive now; for `arrived`."""
        return link.number_of(self._peers[process].into.from_life)

    def cut_off(self, process: ProcessId) -> None:
        """Nothing more is taken from this life of it."""
        self._peers[process].into.cut = True

    def refuse(self, process: ProcessId, why: str) -> None:
        """The same, and it is told: it is the one that ends."""
        self._peers[process].into.unread = why[:_WHY_MAX] or "no frame of ours"

    @property
    def missed(self) -> list[ProcessId]:
        """Peers of whose frames some will never come: this life cannot go on with them."""
        return [p.process for p in self._peers.values() if p.into.cut]

    def waiting_bytes(self, process: ProcessId) -> int:
        peer = self._peers.get(process)
        return 0 if peer is None else peer.out.kept_bytes + peer.waiting_bytes

    def stuffed(self) -> list[ProcessId]:
        """Peers to which no more should be sent before some of it has arrived."""
        return [
            p.process
            for p in self._peers.values()
            if p.out.cut
            or 2 * (len(p.out.kept) + len(p.waiting)) > FRAMES_MAX
            or 2 * (p.out.kept_bytes + p.waiting_bytes) > BYTES_MAX
        ]

    def close(self, timeout: float = 1.0) -> None:
        """Waits so long for what is on its way, then ends."""
        if self._closing_ns is None:
            self._closing_ns = time.monotonic_ns() + int(timeout * 1e9)
            self._wake_up()
            self._thread.join()
            self._context.destroy(linger=0)
            os.close(self._wake)

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self._wake, 1)

    def complaints(self) -> dict[ProcessId | None, str]:
        """What is wrong with whom; None: somebody without a key of this cluster."""
        silent_since = time.monotonic_ns() - self._unanswered_ns
        found: dict[ProcessId | None, str] = {}
        for p in self._peers.values():
            is_silent = (p.heard_ns or self._began_ns) < silent_since
            found[p.process] = p.error or (self._about_silence(p) if is_silent else "")
        if self.refused_connections:
            found[None] = (
                "connections with a key that no host of this cluster has: copy the .public files "
                "of `shmcast keys` to every host"
            )
        return {process: text for process, text in found.items() if text}

    def _about_silence(self, peer: _Peer) -> str:
        """libzmq does not say why nobody answers; who was refused is not told either."""
        return (
            f"no word from {peer.address}: it is down or cut off, or it does not know the key of "
            "this host, or this host does not know its key: compare the .public files of both"
        )

    # The thread --------------------------------------------------------------------------------

    def _socket(self, kind: int, patience_ns: int = SILENCE_NS) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.curve_publickey, socket.curve_secretkey = self._keys
        socket.linger = 0
        socket.handshake_ivl = patience_ns // HANDSHAKE_SHARE // 1_000_000
        socket.maxmsgsize = PIECE_BYTES + 64
        socket.set(zmq.HEARTBEAT_IVL, 500)
        socket.set(zmq.HEARTBEAT_TIMEOUT, 2_000)
        return socket

    def _listen(self, config: ClusterConfig, mine: Replica) -> None:
        url = url_of(config.host(mine.host).address, mine.port)
        self._router.ipv6 = is_ipv6(url)
        try:
            self._router.bind(url)
        except zmq.ZMQError as error:
            raise ConfigError(
                f"{config.path}: {mine.name} cannot listen at {url}: {error.strerror}: end whoever "
                f"has the port (ss -ltnp), or write another address or port for {mine.host}"
            ) from None

    def _dealer(self, key: bytes, address: str, patience_ns: int) -> zmq.Socket[bytes]:
        socket = self._socket(zmq.DEALER, patience_ns)
        socket.curve_serverkey = key
        socket.immediate = True  # nothing is queued for a connection that is not there
        socket.ipv6 = is_ipv6(address)
        socket.reconnect_ivl = 20
        socket.reconnect_ivl_max = 500
        socket.connect(address)
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _add(self, process: ProcessId, key: bytes, address: str, bytes_max: int) -> None:
        self._peers[process] = _Peer(
            process,
            key,
            address,
            self._dealer(key, address, SILENCE_NS),
            time.monotonic_ns(),
            Outgoing(self.life, FRAMES_MAX, bytes_max),
            Incoming(self.life),
            RemoteClock(HOST_DRIFT_PPB),
        )

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self.error = error

    def _serve(self) -> None:
        poller = self._poller
        for source in (self._zap, self._router, self._wake):
            poller.register(source, zmq.POLLIN)
        next_ns = 0
        while not self._is_over():
            now = time.monotonic_ns()
            if now >= next_ns:
                next_ns = now + self._heartbeat_ns
                self._replace_the_silent(now)
                self._heartbeat()
            by_socket = {peer.socket: peer for peer in self._peers.values()}
            for source, _ in poller.poll(max(0, next_ns - now) // 1_000_000 + 1):
                if source is self._zap:
                    self._judge()
                elif source is self._router:
                    self._hear_all()
                elif source in by_socket:
                    self._answers(by_socket[source])
                else:
                    os.eventfd_read(self._wake)
            for peer in self._peers.values():
                self._take(peer)

    def _is_over(self) -> bool:
        if self._closing_ns is None:
            return False
        idle = all(not p.waiting and not p.out.kept for p in self._peers.values())
        return idle or time.monotonic_ns() >= self._closing_ns

    def _judge(self) -> None:
        """ZAP (RFC 27): may the holder of this key connect?"""
        parts = self._zap.recv_multipart()
        key = z85(parts[6]) if len(parts) == 7 and len(parts[6]) == 32 else b""
        if key in self._allowed:
            self._zap.send_multipart([b"1.0", parts[1], b"200", b"OK", key, b""])
            return
        self.refused_connections += 1
        self._zap.send_multipart([b"1.0", parts[1], b"400", b"unknown key", b"", b""])

    # What I send: on the peer's DEALER ----------------------------------------------------------

    def _replace_the_silent(self, now: int) -> None:
        """What was on its way is sent again after the new connection's first Welcomes."""
        for peer in self._peers.values():
            if now - peer.silent_since_ns < peer.patience_ns:
                continue
            peer.patience_ns = min(2 * peer.patience_ns, SILENCE_NS_MAX)
            self._poller.unregister(peer.socket)
            peer.socket.close()
            peer.socket = self._dealer(peer.key, peer.address, peer.patience_ns)
            peer.silent_since_ns = now

    def _heartbeat(self) -> None:
        everyone = self._peers.values()
        known = tuple((p.process, p.into.known) for p in everyone if p.into.known >= 0)
        for peer in everyone:
            now = time.monotonic_ns()
            hello = Hello(self.me, self.life, self.cluster, now, *self._shows, VERSION, known)
            if self._put(peer, [link.encode(hello)]):
                peer.out.hello_left(now)
            if peer.told_cut and peer.out.to_life is not None:
                self._put(peer, [link.encode(Cut(self.life, peer.out.to_life))])

    def _take(self, peer: _Peer) -> None:
        with self._lock:
            frames, peer.waiting, peer.waiting_bytes = peer.waiting, deque(), 0
        for data in frames:
            self._send_all(peer, peer.out.push(*link.pieces_of(data, PIECE_BYTES)))
        if peer.out.cut and not peer.told_cut and not self.alone:
            dropped = {p.process for p in self._peers.values() if p.out.cut}
            if not leaves_majorities(self._topology, dropped):
                self.alone = True  # nobody is told: it is this life that is over
                return
            peer.told_cut = True
            self._put(peer, [link.encode(Cut(self.life, peer.out.to_life or 0))])
            self.lost(peer.process, "the link is cut: it did not take what was sent to it")

    def _send_all(self, peer: _Peer, sending: link.Sending) -> None:
        for head, data in sending:
            if not self._put(peer, [link.encode(head), data]):
                return  # what is kept is sent again

    def _put(self, peer: _Peer, parts: list[bytes]) -> bool:
        try:
            peer.socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _answers(self, peer: _Peer) -> None:
        for _ in range(BATCH):
            try:
                parts = peer.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            peer.silent_since_ns, peer.patience_ns = time.monotonic_ns(), SILENCE_NS
            try:
                self._answer(peer, link.decode(parts[0]))
            except (Corrupt, Incompatible) as error:
                peer.error = str(error)

    def _answer(self, peer: _Peer, record: link.Record) -> None:
        now = time.monotonic_ns()
        match record:
            case Welcome():
                before = peer.out.to_life
                self._send_all(peer, peer.out.on_welcome(record))
                peer.heard_ns, peer.error = now, ""
                self._measure(peer, record, now)
                self._note_rebirth(peer, before)
            case Ack():
                peer.heard_ns = now
                self._send_all(peer, peer.out.on_ack(record))
            case Unread(life, to_life, why):
                if (life, to_life) == (peer.out.to_life, self.life):
                    self.unread = peer.process, why
            case Refused(version, why):
                peer.error = f"refused by process {peer.process} (version {version}): {why}"
            case _:
                peer.error = f"a {type(record).__name__} as an answer"

    def _note_rebirth(self, peer: _Peer, before: int | None) -> None:
        now_lives = peer.out.to_life
        if before is None or now_lives is None or now_lives == before:
            return
        peer.told_cut = False
        peer.clock = RemoteClock(HOST_DRIFT_PPB)
        ended, lives = link.number_of(before), link.number_of(now_lives)
        self.lost(peer.process, f"life {ended} ended; it lives its life {lives}")

    def _measure(self, peer: _Peer, w: Welcome, now: int) -> None:
        try:
            peer.clock.feed(w.hello_ns, w.came_ns, w.sent_ns, now)
        except ClockBroken:
            peer.clock = RemoteClock(HOST_DRIFT_PPB)  # a jump: measured anew

    # What I hear: on the ROUTER -------------------------------------------------------------------

    def _hear_all(self) -> None:
        for _ in range(BATCH):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            if len(frames) < 2:
                continue
            route, key = frames[0].bytes, str(frames[1].get("User-Id")).encode()
            parts = [frame.bytes for frame in frames[1:]]
            try:
                self._hear(route, key, link.decode(parts[0]), parts)
            except Incompatible as error:
                self._refuse(route, key, str(error))
            except Corrupt as error:
                self._note(key, str(error))
        for peer in self._peers.values():
            if peer.owes_ack:
                self._reply(peer.route, peer.into.ack(peer.gap))
                peer.owes_ack = peer.gap = False

    def _hear(self, route: bytes, key: bytes, record: link.Record, parts: list[bytes]) -> None:
        if isinstance(record, Hello):
            self._greet(route, key, record)
            return
        peer = next((p for p in self._peers.values() if p.route == route and p.key == key), None)
        if peer is None:
            return  # before its Hello: it will send again
        if isinstance(record, Data) and len(parts) == 2:
            self._data(peer, record, parts[1])
        elif isinstance(record, Cut) and peer.into.on_cut(record):
            self.lost(peer.process, "it cut the link: frames for this process were dropped")

    def _greet(self, route: bytes, key: bytes, hello: Hello) -> None:
        came = time.monotonic_ns()
        peer = self._peers.get(hello.process)
        if peer is None or peer.key != key:
            self._note(key, f"it says that it is process {hello.process}, and has another's key")
            return
        if hello.cluster != self.cluster:
            self._refuse(route, key, "another cluster.toml: use the same file on every host")
            return
        if hello.wire != VERSION:
            self._refuse(
                route,
                key,
                f"wire version {hello.wire} meets {VERSION}: run the same release of shmcast on "
                "every host",
            )
            return
        self._learn(hello.known)
        welcome = peer.into.on_hello(hello, came, time.monotonic_ns())
        if welcome is None:
            return  # it finds in our Hello which life of it we know
        if peer.into.unread:
            self._reply(route, Unread(self.life, hello.life, peer.into.unread))
            return  # and it is not heard: whoever counts on it must look elsewhere
        before = peer.out.to_life
        peer.out.meet(hello.life)
        self._note_rebirth(peer, before)
        peer.route, peer.heard_ns = route, came
        number = link.number_of(hello.life)
        peer.shown = Heard(hello.process, number, came, hello.epoch, hello.leader)
        self._reply(route, welcome)

    def _learn(self, known: tuple[tuple[ProcessId, int], ...]) -> None:
        for process, life in known:
            if process == self.me and link.outlives(life, self.life):
                self.outlived = max(self.outlived or 0, link.number_of(life))
            elif process in self._peers:
                self._peers[process].into.learn(life)

    def _data(self, peer: _Peer, head: Data, data: bytes) -> None:
        peer.owes_ack = True
        if peer.into.leaves_a_gap(head):
            peer.gap = not peer.full
        elif peer.into.is_next(head):
            try:
                whole = peer.into.whole(data, FRAME_BYTES_MAX)
            except Corrupt as error:
                self.refuse(peer.process, str(error))
                raise
            peer.full = whole is not None and self.arrived(peer.process, whole) is False
            if not peer.full:
                peer.into.took(data)

    def _refuse(self, route: bytes, key: bytes, why: str) -> None:
        self._note(key, f"refused: {why}")
        self._reply(route, Refused(link.LINK_VERSION, why))

    def _note(self, key: bytes, why: str) -> None:
        for peer in self._peers.values():
            if peer.key == key:
                peer.error = why

    def _reply(self, route: bytes, record: link.Record) -> None:
        with contextlib.suppress(zmq.Again, zmq.ZMQError):  # gone, or slow: it asks again
            self._router.send_multipart([route, link.encode(record)], zmq.NOBLOCK)
