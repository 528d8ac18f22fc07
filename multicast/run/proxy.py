"""Remote members of a mailbox (mailbox.md §6; paper 001, A.2): a proxy on the mailbox's host acts
for each of them, over links that are authenticated and encrypted by CURVE.

A member asks, the proxy answers; every question has a number, and a number that is asked again
gets the same answer, never a second send or receive. The proxy looks at every open question at
least every POLL_NS. A member that is silent for LEASE_NS is taken for dead and its place is freed;
a thread of its own shows that an idle one lives.

    bound of an operation = round trip of the link (stated) + POLL_NS + Δ of the mailbox
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self, TypeAlias

import msgspec
import zmq
from msgspec import Meta, Struct
from zmq.utils.z85 import encode as z85

from shmcast.errors import Corrupt, DeadlineMissed, MailboxFull, PeerDead, ShmcastError
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver
from shmcast.mailbox.records import Message, Receipt
from shmcast.mailbox.sender import Sender
from shmcast.multicast.run.keys import key_pair, public_key

POLL_NS = 1_000_000
LEASE_NS = 5_000_000_000
ALIVE_S = 1.0
MEMBERS_MAX = 32
BYTES_MAX = 16 << 20
HANDSHAKE_MS = 4_000  # who has not shown its key by then is disconnected
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Ask(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """`data` is to be sent; None: a message is wanted. `number` 0: only a sign of life."""

    member: Annotated[bytes, Meta(min_length=16, max_length=16)]
    number: Natural
    wait_ns: Natural = 0
    data: bytes | None = None
    leaves: bool = False
    idle: bool = False  # a sign of life of one that has its place already


class Answer(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    number: Natural
    delta_ns: Natural = 0
    timestamp: int = 0
    sequence: int = 0
    position: int = 0
    sender: int = 0
    data: bytes | None = None
    error: str = ""  # the name of a class of errors.py, or TimeoutError
    why: str = ""


_asks = msgspec.msgpack.Decoder(Ask)
_answers = msgspec.msgpack.Decoder(Answer)
_ERRORS = {kind.__name__: kind for kind in ShmcastError.__subclasses__()}
_encode = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class _Member:
    route: bytes
    tx: Sender
    rx: Receiver
    heard_ns: int
    open: Ask | None = None
    until_ns: int = 0
    last: Answer | None = None


class Proxy:
    """Serves one mailbox to the hosts whose public keys lie in `keys`."""

    def __init__(self, name: str, address: str, keys: Path, host: str) -> None:
        self.box = Mailbox.open(name)
        stats = self.box.stats()
        self.delta_ns = stats.send_bound_ns + stats.latency_bound_ns
        own = key_pair(keys, host)
        self._allowed = {public_key(keys, p.stem) for p in keys.glob("*.public")}
        self.members: dict[bytes, _Member] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind("inproc://zeromq.zap.01")
        self._router = self._context.socket(zmq.ROUTER)
        self._router.curve_publickey, self._router.curve_secretkey = own
        self._router.curve_server = True
        self._router.zap_domain = b"shmcast"
        self._router.handshake_ivl = HANDSHAKE_MS
        self._router.maxmsgsize = BYTES_MAX
        self._router.bind(address)

    def serve(self, stop: Callable[[], bool]) -> None:
        poller = zmq.Poller()
        poller.register(self._zap, zmq.POLLIN)
        poller.register(self._router, zmq.POLLIN)
        while not stop():
            busy = any(m.open for m in self.members.values())
            for socket, _ in poller.poll(POLL_NS // 1_000_000 if busy else 100):
                if socket is self._zap:
                    self._judge()
                else:
                    self._hear()
            for key, member in list(self.members.items()):
                self._try(key, member)

    def _judge(self) -> None:
        parts = self._zap.recv_multipart()
        known = len(parts) == 7 and len(parts[6]) == 32 and z85(parts[6]) in self._allowed
        code = b"200" if known else b"400"
        self._zap.send_multipart([b"1.0", parts[1], code, b"", b"", b""])

    def _hear(self) -> None:
        parts = self._router.recv_multipart()
        try:
            ask = _asks.decode(parts[-1])
        except (msgspec.MsgspecError, ValueError):
            return  # nobody of ours wrote it: no answer, no state
        if ask.idle:
            self._hear_idle(ask.member)
            return
        try:
            member = self.members.get(ask.member) or self._join(parts[0], ask)
        except (ShmcastError, TimeoutError) as error:
            self._send(parts[0], self._failed(ask.number, error))
            return
        member.route, member.heard_ns = parts[0], time.monotonic_ns()
        if ask.leaves:
            self._leave(ask.member)
        elif ask.number == 0:
            self._send(member.route, Answer(0, self.delta_ns))
        elif member.last is not None and ask.number <= member.last.number:
            self._send(member.route, member.last)
        elif member.open is None or member.open.number != ask.number:
            member.open, member.until_ns = ask, member.heard_ns + ask.wait_ns

    def _hear_idle(self, key: bytes) -> None:
        """Who has lost its place learns that from its next question, not by a new one in silence:
        messages came in between."""
        if key in self.members:
            self.members[key].heard_ns = time.monotonic_ns()

    def _join(self, route: bytes, ask: Ask) -> _Member:
        if ask.number > 0:
            raise PeerDead("this member was silent for too long and lost its place: connect again")
        if len(self.members) >= MEMBERS_MAX:
            raise MailboxFull(f"{MEMBERS_MAX} remote members already: close one")
        tx = self.box.sender()
        try:
            rx = self.box.receiver()
        except BaseException:
            tx.close()
            raise
        member = _Member(route, tx, rx, time.monotonic_ns())
        self.members[ask.member] = member
        return member

    def _leave(self, key: bytes) -> None:
        member = self.members.pop(key)
        member.tx.close()
        member.rx.close()

    def _try(self, key: bytes, member: _Member) -> None:
        now = time.monotonic_ns()
        if now - member.heard_ns > LEASE_NS:
            self._leave(key)
            return
        ask = member.open
        if ask is None:
            return
        try:
            answer = self._once(member, ask)
        except (MailboxFull, TimeoutError) as error:
            if now < member.until_ns:
                return
            answer = self._failed(ask.number, error)
        except (ShmcastError, ValueError) as error:
            answer = self._failed(ask.number, error)
        member.open, member.last = None, answer
        self._send(member.route, answer)

    def _once(self, member: _Member, ask: Ask) -> Answer:
        if ask.data is not None:
            receipt = member.tx.send(ask.data, timeout=0)
            return Answer(ask.number, self.delta_ns, *receipt)
        m = member.rx.receive(timeout=0)
        return Answer(
            ask.number, self.delta_ns, m.timestamp, m.sequence, 0, m.sender, bytes(m.data)
        )

    def _failed(self, number: int, error: Exception) -> Answer:
        return Answer(number, self.delta_ns, error=type(error).__name__, why=str(error)[:1000])

    def _send(self, route: bytes, answer: Answer) -> None:
        try:
            self._router.send_multipart([route, _encode(answer)], zmq.NOBLOCK)
        except zmq.ZMQError:
            return  # gone or slow: it asks again

    def close(self) -> None:
        for key in list(self.members):
            self._leave(key)
        self._context.destroy(linger=0)
        self.box.close()


class RemoteMailbox:
    """A mailbox of another host. One thread at a time."""

    def __init__(self, address: str, keys: Path, me: str, host: str, link_ns: int) -> None:
        self.link_ns = link_ns
        self.delta_ns = 0
        self._member = os.urandom(16)
        self._number = 0
        self._unanswered: Ask | None = None
        self._address, self._keys, self._host_key = (
            address,
            key_pair(keys, me),
            public_key(keys, host),
        )
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._connected()
        self._lock = threading.Lock()  # of the socket
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="shmcast-remote", daemon=True)

    def _live(self) -> None:
        while not self._closed.wait(ALIVE_S):
            if self._lock.acquire(blocking=False):  # else it is asking, which is a sign of life
                with contextlib.suppress(zmq.ZMQError):
                    self._socket.send(_encode(Ask(self._member, 0, idle=True)), zmq.NOBLOCK)
                self._lock.release()

    def _connected(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.DEALER)
        socket.curve_publickey, socket.curve_secretkey = self._keys
        socket.curve_serverkey = self._host_key
        socket.linger = 200
        socket.maxmsgsize = BYTES_MAX
        socket.connect(self._address)
        return socket

    @classmethod
    def connect(
        cls, address: str, *, keys: Path, me: str, host: str, link_ns: int, timeout: float = 5.0
    ) -> Self:
        """`me` and `host` name this host's key and the proxy's. `link_ns` is the bound of a round
        trip on the link, which only its owner can state."""
        self = cls(address, keys, me, host, link_ns)
        try:
            self.delta_ns = self._ask(Ask(self._member, 0), timeout).delta_ns
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._thread.start()
        return self

    @property
    def bound_ns(self) -> int:
        """An operation that need not wait for room or for a message is over within this."""
        return self.link_ns + POLL_NS + self.delta_ns

    def send(self, data: bytes, *, timeout: float = 1.0) -> Receipt:
        """After DeadlineMissed it may have been sent, once at most: retry() tells."""
        answer = self._new(timeout, bytes(data))
        return Receipt(answer.timestamp, answer.sequence, answer.position)

    def receive(self, *, timeout: float = 1.0) -> Message:
        """After DeadlineMissed a message may be under way: retry() brings it."""
        return self._message(self._new(timeout, None))

    def retry(self, *, timeout: float = 1.0) -> Receipt | Message:
        """Asks again for the answer that did not come in time, on a new connection: one that
        brought bytes which it could not decrypt is given up by libzmq for good."""
        if self._unanswered is None:
            raise ValueError("every operation was answered")
        ask = self._unanswered
        with self._lock:
            self._socket.close(linger=0)
            self._socket = self._connected()
        answer = self._ask(ask, timeout)
        if ask.data is None:
            return self._message(answer)
        return Receipt(answer.timestamp, answer.sequence, answer.position)

    def close(self) -> None:
        if not self._socket.closed:
            self._closed.set()
            self._thread.join()
            with contextlib.suppress(zmq.Again):
                self._socket.send(_encode(Ask(self._member, 0, leaves=True)), zmq.NOBLOCK)
            self._socket.close(linger=200)
            self._context.term()

    def _message(self, a: Answer) -> Message:
        return Message(a.data or b"", a.timestamp, a.sender, a.sequence)

    def _new(self, timeout: float, data: bytes | None) -> Answer:
        if self._unanswered is not None:
            raise DeadlineMissed("an operation before has no answer yet: retry() first")
        self._number += 1
        self._unanswered = Ask(self._member, self._number, int(timeout * 1e9), data)
        return self._ask(self._unanswered, timeout)

    def _ask(self, ask: Ask, timeout: float) -> Answer:
        with self._lock:
            return self._asked(ask, timeout)

    def _asked(self, ask: Ask, timeout: float) -> Answer:
        end = time.monotonic_ns() + int(timeout * 1e9) + self.bound_ns
        again_ms = max(1, min(200, self.link_ns // 500_000))
        while (left := end - time.monotonic_ns()) > 0:
            if self._socket.poll(min(again_ms, left // 1_000_000 + 1), zmq.POLLOUT):
                with contextlib.suppress(zmq.Again):
                    self._socket.send(_encode(ask), zmq.NOBLOCK)
            while self._socket.poll(min(again_ms, left // 1_000_000 + 1)):
                answer = self._decode(self._socket.recv())
                if answer.number == ask.number:
                    return self._taken(answer)
        raise DeadlineMissed(
            f"no answer within {timeout} s and the bound of {self.bound_ns / 1e6:.1f} ms: the link "
            "or the proxy is down, or a key is wrong; retry() asks for the outcome"
        )

    def _decode(self, data: bytes) -> Answer:
        try:
            return _answers.decode(data)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Corrupt(f"not an answer of a proxy: {error}") from error

    def _taken(self, answer: Answer) -> Answer:
        self._unanswered = None
        if not answer.error:
            return answer
        if answer.error == "TimeoutError":
            raise TimeoutError(answer.why)
        raise _ERRORS.get(answer.error, ShmcastError)(answer.why)
