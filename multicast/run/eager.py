"""The engine `eager`: groups of replicas on one host, ordered by the shared memory itself.

A group is a mailbox, a replica its receiver, a client a sender of the domain, and a multicast to
several groups one atomic send to their mailboxes: when it returns, the message is ordered. The
deliveries of all replicas are projections of the order of (timestamp, lane). No process leads, so
none is missed when it dies.

A client's number is its sender's; a rejected send was delivered by nobody and is sent again under
the same sequence number, so a multicast is delivered once without a table of sessions.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn

from shmcast.errors import (
    CopyFailed,
    Corrupt,
    DeadlineMissed,
    MailboxFull,
    MailboxLost,
    MessageTooLarge,
    NoQuorum,
    PeerDead,
    Rejected,
    ShmcastError,
)
from shmcast.mailbox.core import Closing, CopyState
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver, Wait
from shmcast.mailbox.records import Message
from shmcast.mailbox.sender import Sender
from shmcast.multicast.run.api import Delivery, Ordered, Place, State
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.eager_domain import (
    HEADER_BYTES,
    SENDERS,
    box_bytes,
    founding_lock,
    lanes_for_replicas,
    open_domain,
    receiver_pids,
    remove_if_unused,
)
from shmcast.multicast.run.inbox import lanes_left
from shmcast.multicast.run.transfer import (
    SNAPSHOT_VERSION,
    GiveUp,
    Joiner,
    Limits,
    MarkerId,
    Part,
    Phase,
    Restore,
    SendMarker,
    Snapshot,
    encode_snapshot,
    parts_of,
)

DEFAULT_TIMEOUT_S = 10.0
_JOIN_TIMEOUT_S = 60.0
_LANE = 255  # of a sender's id
_CLIENT, _MARKER, _PART = 0, 1, 2  # kinds of records, above the set of groups in the header
_KIND_SHIFT = 48
_HEADER = struct.Struct("<Q")
_MARKER_BODY = struct.Struct("<qqqq")  # marker, donor
_PART_HEAD = struct.Struct("<qqqII")  # marker, number, total
_BATCH = 256
_SLICE_S = 0.05  # how soon a waiting replica notices that it was closed
_PUSH_S = 0.002  # the same while pieces of a snapshot wait for room
_KEEP_S = 0.1  # between two rounds of cleaning up after the dead
_BOARD_NS = 10_000_000  # a client looks at who is complete as often as this
_REAP_S = 1.0
_ns = time.monotonic_ns


def header(kind: int, groups: int) -> bytes:
    return _HEADER.pack(kind << _KIND_SHIFT | groups)


class _Block(Closing):
    """Closing, in the words of api.py."""

    def __exit__(self, *exc: object) -> None:
        self.close()


class Board:
    """Which groups have a majority of complete, living replicas."""

    def __init__(self, config: ClusterConfig, domain: Domain) -> None:
        self._ready = [domain.mailbox(f"{group.name}.ready") for group in config.groups]
        self._boxes = [domain.mailbox(group.name) for group in config.groups]
        self._needed = [len(group.replicas) // 2 + 1 for group in config.groups]

    def complete(self, group: int) -> list[int]:
        """Process ids, in the order of their places. One that was evicted from its group knows
        nothing of it while it is stopped, and is not complete any more."""
        members = set(receiver_pids(self._boxes[group]))
        return [pid for pid in receiver_pids(self._ready[group]) if pid in members]

    def quorate(self) -> int:
        """A set of groups, bit i for group i."""
        return sum(
            1 << group
            for group, needed in enumerate(self._needed)
            if len(self.complete(group)) >= needed
        )

    def join(self, group: int) -> Receiver:
        box: Mailbox = self._ready[group]
        return box.receiver(timeout=DEFAULT_TIMEOUT_S)


class Keeper:
    """A thread that frees what dead processes held and replaces lost copies, beside a replica."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="shmcast-keeper", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(_KEEP_S):
            try:
                self._domain.reap()
                if CopyState.FAILED in self._domain.copies:
                    self._domain.replace(timeout=2.0)
            except (DeadlineMissed, CopyFailed, OSError):
                continue  # no room, or another replaces it: the next round
            except (ShmcastError, ValueError):
                return  # removed or closed: the replica finds out itself

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class EagerNode(_Block):
    """This process as a replica. The application's thread receives; there is no other on the way.

    It becomes complete, and counts for its group's majority, inside of deliveries().
    """

    def __init__(self, config: ClusterConfig, name: str, state: State | None = None) -> None:
        self.name = name
        replica = config.replica(name)
        self._config = config
        self.state = state  # may be set until deliveries() is called
        self._proc, self._group_name = replica.proc, replica.group
        self._group = config.group_id(replica.group)
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._outbox: list[Part] = []  # the last piece first
        self._rest: list[Message] = []  # of the batch in which this replica became complete
        self._pusher: Sender | None = None
        self._ready: Receiver | None = None
        self._closed = self._stopping = False
        self._receiver: Receiver
        self._open(time.monotonic() + DEFAULT_TIMEOUT_S)

    def _open(self, deadline: float) -> None:
        box: Mailbox
        while True:  # the last replica of an earlier life may remove the domain meanwhile
            domain = open_domain(self._config, deadline, create=True)
            try:
                box = domain.mailbox(self._group_name)
                self._receiver = box.receiver(timeout=DEFAULT_TIMEOUT_S, wait=self._wait())
                break
            except MailboxLost:
                domain.close()
                if time.monotonic() >= deadline:
                    raise
        self._domain = domain
        self._board = Board(self._config, domain)
        self._keeper = Keeper(domain)
        limits = Limits(patience=2_000_000_000)
        self._joiner: Joiner[Message] = Joiner(self._proc, _ns(), self._group_name, limits)

    def _wait(self) -> Wait:
        """Spinning is quicker, unless it takes the core from whom it waits for."""
        spare = (os.cpu_count() or 1) - len(self._config.replicas)
        return Wait.ADAPTIVE if spare > 0 else Wait.BLOCK

    @property
    def _complete(self) -> bool:
        return self._joiner.phase is Phase.COMPLETE

    # Deliveries.

    def deliveries(
        self, *, timeout: float | None = None, optimistic: bool = False
    ) -> Iterator[Delivery]:
        """Every message for this replica's group, in the one order. It is final at once, so there
        is nothing that `optimistic` could add."""
        if not self._complete:
            yield from self._join()
        end = self._end(timeout)
        while not self._stopping:
            batch, self._rest = self._rest, []
            batch = batch or self._receive(_PUSH_S if self._outbox else _SLICE_S)
            if self._outbox:
                self._push()
            if not batch:
                if end is not None and _ns() >= end and not self._stopping:
                    raise TimeoutError(f"{self.name}: nothing came for {timeout} s")
                continue
            names = self._names
            for data, stamp, sender, sequence in batch:
                groups = names.get(data[:HEADER_BYTES])
                if groups is None:
                    groups = self._special(data)
                    if groups is None:
                        continue
                yield Delivery(
                    data[HEADER_BYTES:], Place(stamp, sender & _LANE), groups, sender, sequence + 1
                )
            end = self._end(timeout)

    @staticmethod
    def _end(timeout: float | None) -> int | None:
        return None if timeout is None else _ns() + int(timeout * 1e9)

    def _receive(self, timeout: float) -> list[Message]:
        try:
            return self._receiver.receive_many(_BATCH, timeout=timeout).messages()
        except TimeoutError:
            return []
        except DeadlineMissed as error:
            if os.getpid() in receiver_pids(self._domain.mailbox(self._group_name)):
                return []  # a copy was being replaced
            raise DeadlineMissed(
                f"{self.name}: it took no deliveries for so long that the others went on without "
                "it: start it again, it takes over another's state"
            ) from error
        except ValueError:
            if self._stopping:
                return []
            raise

    def _special(self, data: bytes) -> tuple[str, ...] | None:
        """The groups of a client's message seen for the first time; None for other records."""
        kind, groups = self._head(data)
        if kind == _CLIENT:
            found = tuple(g.name for n, g in enumerate(self._config.groups) if groups >> n & 1)
            self._names[data[:HEADER_BYTES]] = found  # as many as there are sets in use
            if len(self._names) > 1 << 16:
                self._names.clear()
            return found
        if kind == _MARKER:
            marker, donor = self._marker(data)
            if donor == os.getpid() and marker.joiner != self._proc:
                self._hand_over(marker)
        return None

    def _head(self, data: bytes) -> tuple[int, int]:
        if len(data) >= HEADER_BYTES:
            (word,) = _HEADER.unpack_from(data)
            kind, groups = word >> _KIND_SHIFT, word & (1 << _KIND_SHIFT) - 1
            if kind <= _PART and not groups >> len(self._config.groups):
                return kind, groups
        raise Corrupt(
            f"{self._domain.name}/{self._group_name}: a record that no client of this cluster can "
            "have sent: stop whoever else sends there"
        )

    @staticmethod
    def _marker(data: bytes) -> tuple[MarkerId, int]:
        joiner, life, attempt, donor = _MARKER_BODY.unpack_from(data, HEADER_BYTES)
        return MarkerId(joiner, life, attempt), donor

    # Handing the state over. Pieces travel in the order too, so that the joiner waits in one place.

    def _hand_over(self, marker: MarkerId) -> None:
        try:
            state = self.state.snapshot() if self.state else b""
        except Exception as error:  # the application's own: this replica can do without
            print(
                f"{self.name}: a replica that comes back gets no state from here: snapshot() "
                f"failed: {error!r}",
                file=sys.stderr,
                flush=True,
            )
            return  # it asks the next one
        snapshot = Snapshot(SNAPSHOT_VERSION, self._group_name, marker, [], state)
        size = box_bytes(self._config) - HEADER_BYTES - _PART_HEAD.size
        self._outbox = [p for p in self._outbox if p.marker.joiner != marker.joiner]
        self._outbox += reversed(parts_of(encode_snapshot(snapshot), marker, size))
        self._push()

    def _push(self) -> None:
        """As many pieces as there is room for: this replica must receive on to make room."""
        head = header(_PART, 1 << self._group)
        try:
            if self._pusher is None:
                self._pusher = self._domain.sender(timeout=0.05)
            while self._outbox:
                part = self._outbox[-1]
                body = _PART_HEAD.pack(*part.marker, part.number, part.total)
                self._pusher._send(1 << self._group, head + body + part.data, 0.0)
                self._outbox.pop()
        except (MailboxFull, Rejected, DeadlineMissed):
            return
        self._pusher.close()
        self._pusher = None

    # Coming (back).

    def _join(self) -> Iterator[Delivery]:
        end = time.monotonic() + _JOIN_TIMEOUT_S
        while not self._complete and not self._stopping:
            if time.monotonic() > end:
                self._no_donor("no replica handed over its state in time")
            donors = self._donors()
            if not donors and self._found():
                return
            for effect in self._joiner.tick(_ns(), donors):
                yield from self._do(effect)
            batch = self._receive(_PUSH_S)
            for n, message in enumerate(batch, 1):
                for effect in self._hear(message, donors):
                    self._rest = batch[n:]
                    yield from self._do(effect)
                if self._complete:
                    break

    def _donors(self) -> list[int]:
        return self._board.complete(self._group)

    def _found(self) -> bool:
        """Begins without a state, if there is none to be had and nobody else begins too."""
        self._domain.reap()
        with founding_lock(self._domain) as mine:
            if not mine or self._board.complete(self._group):
                return False
            # What came before is no part of this group's new history: skip to a marker.
            marker = MarkerId(self._proc, self._joiner.marker.life, -1)
            self._send_marker(marker, 0)
            while not self._stopping:
                batch = self._receive(_SLICE_S)
                for n, message in enumerate(batch, 1):
                    kind, _ = self._head(message.data)
                    if kind == _MARKER and self._marker(message.data)[0] == marker:
                        self._rest = batch[n:]
                        self._joiner.found()
                        self._ready = self._board.join(self._group)
                        return True
        return True

    def _send_marker(self, marker: MarkerId, donor: int) -> None:
        data = header(_MARKER, 1 << self._group) + _MARKER_BODY.pack(*marker, donor)
        with self._domain.sender(timeout=DEFAULT_TIMEOUT_S) as sender:
            while True:
                try:
                    sender._send(1 << self._group, data, DEFAULT_TIMEOUT_S)
                    return
                except Rejected:
                    continue

    def _hear(
        self, message: Message, donors: list[int]
    ) -> list[SendMarker | Restore[Message] | GiveUp]:
        kind, _ = self._head(message.data)
        place = Place(message.timestamp, message.sender & _LANE)
        if kind == _MARKER:
            self._joiner.marker_stands(self._marker(message.data)[0], _ns())
        elif kind == _PART:
            joiner, life, attempt, number, total = _PART_HEAD.unpack_from(
                message.data, HEADER_BYTES
            )
            data = message.data[HEADER_BYTES + _PART_HEAD.size :]
            part = Part(MarkerId(joiner, life, attempt), number, total, data)
            return self._joiner.part(part, _ns(), donors)
        if kind == _PART:
            return []
        return self._joiner.keep(place, message, len(message.data), _ns(), donors)

    def _do(self, effect: SendMarker | Restore[Message] | GiveUp) -> Iterator[Delivery]:
        if isinstance(effect, SendMarker):
            self._send_marker(effect.marker, effect.donor)
        elif isinstance(effect, GiveUp):
            self._no_donor(effect.reason)
        else:
            if self.state is not None:
                self.state.restore(effect.snapshot.state)
            self._ready = self._board.join(self._group)
            for place, (data, _, sender, sequence) in effect.kept:
                groups = self._special(data)
                if groups is not None:
                    yield Delivery(data[HEADER_BYTES:], place, groups, sender, sequence + 1)

    def _no_donor(self, reason: str) -> NoReturn:
        raise PeerDead(
            f"{self.name}: {reason}: see whether the other replicas of {self._group_name} are "
            "stopped or do not take deliveries"
        )

    def stop(self) -> None:
        """Ends deliveries(), soon; also from a signal handler or another thread."""
        self._stopping = True

    def close(self) -> None:
        """Leaves. The last replica of the cluster removes its memory."""
        if self._closed:
            return
        self._closed = self._stopping = True
        self._keeper.close()
        self._domain.close()
        remove_if_unused(self._config)


class EagerClient(_Block):
    """A sender of the cluster's domain. Threads may share it; they take turns."""

    def __init__(self, config: ClusterConfig, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        self._config = config
        self._deadline = time.monotonic() + timeout
        self._plans: dict[tuple[str, ...], tuple[int, bytes]] = {}
        self._mine = threading.local()
        self._closed = False
        self._sender: Sender | None = None
        self._lock = threading.Lock()
        self._look_at = 0

    # Opening lazily: the replicas may start later, or all of them again.

    def _opened(self, end: int) -> Sender:
        with self._lock:
            if self._closed:
                raise ValueError(f"{self._config.name}: the client is closed")
            if self._sender is None:
                left = max(0, end - _ns()) / 1e9
                try:
                    domain = open_domain(self._config, time.monotonic() + left, create=False)
                except FileNotFoundError:
                    raise NoQuorum(
                        f"{self._config.name}: no replica runs here: start them (shmcast up)"
                    ) from None
                try:
                    self._sender = self._sender_of(domain, max(0.05, left))
                except BaseException:
                    domain.close()
                    raise
                self._domain = domain
                self._board = Board(self._config, domain)
                self._lane = self._sender.id & _LANE
                self._quorate = self._look_at = self._reap_at = 0
            return self._sender

    def _sender_of(self, domain: Domain, timeout: float) -> Sender:
        spare = lanes_for_replicas(self._config)
        segments = domain.mailbox(self._config.groups[0].name).segments
        sender = domain.sender(timeout=timeout)
        if lanes_left(segments) < spare:
            domain.reap()
        if lanes_left(segments) >= spare:
            return sender
        raise MailboxFull(
            f"{self._config.name}: {SENDERS - spare} clients already, as many as it can serve; "
            "nothing was sent: close some, or let threads share one"
        )

    def _plan(self, groups: Iterable[str]) -> tuple[int, bytes]:
        names = (groups,) if isinstance(groups, str) else tuple(groups)
        plan = self._plans.get(names)
        if plan is None:
            if not names:
                raise ValueError(f"{self._config.name}: groups= names no group")
            mask = 0
            for name in names:
                mask |= 1 << self._config.group_id(name)
            plan = self._plans[names] = mask, header(_CLIENT, mask)
        return plan

    def _await_quorum(self, mask: int, now: int, end: int) -> None:
        """Looks at the board again; waits until the destinations have their majorities."""
        while True:
            if now >= self._reap_at:
                self._domain.reap()  # if no replica is left to do it
                self._reap_at = now + int(_REAP_S * 1e9)
            self._quorate = self._board.quorate()
            self._look_at = _ns() + _BOARD_NS
            if not mask & ~self._quorate:
                return
            self._domain.reap()
            if _ns() >= end:
                missing = [
                    g.name for n, g in enumerate(self._config.groups)
                    if mask >> n & 1 and not self._quorate >> n & 1
                ]  # fmt: skip
                raise NoQuorum(
                    f"{self._config.name}: no majority of complete replicas in "
                    f"{', '.join(missing)}; nothing was sent: start them, or wait longer"
                )
            time.sleep(0.002)
            now = _ns()

    def multicast(
        self, payload: bytes, groups: Iterable[str], *, timeout: float | None = None
    ) -> Ordered:
        """Returns when the message is ordered. After an error nothing was sent, and it may be
        asked for again."""
        mask, head = self._plan(groups)
        if len(payload) > self._config.message_size:
            raise MessageTooLarge(
                f"{self._config.name}: {len(payload)} bytes, but message_size is "
                f"{self._config.message_size}; nothing was sent"
            )
        self._mine.open = (payload, groups)
        return self._send(mask, head + payload, DEFAULT_TIMEOUT_S if timeout is None else timeout)

    def _send(self, mask: int, data: bytes, timeout: float) -> Ordered:
        now = _ns()
        end = now + int(timeout * 1e9)
        left = timeout
        while True:
            try:
                sender = self._sender or self._opened(end)
                if now >= self._look_at or mask & ~self._quorate:
                    self._await_quorum(mask, now, end)
                stamp, sequence, _ = sender._send(mask, data, left)
                break
            except Rejected:
                pass  # nobody delivered it: late, under load; it keeps its number
            except MailboxFull:
                if self._sender is None:
                    raise
                self._look_at = 0
                if _ns() >= end:
                    raise DeadlineMissed(
                        f"{self._config.name}: no room in time, a replica takes no deliveries; "
                        "nothing was sent: ask again with retry()"
                    ) from None
            except MailboxLost:
                self._forget()
                raise
            now = _ns()
            left = max(0, end - now) / 1e9
            if left == 0:
                raise DeadlineMissed(
                    f"{self._config.name}: not accepted in time; nothing was sent: ask again with "
                    "retry()"
                )
        done = Ordered(Place(stamp, self._lane), sequence + 1)
        self._mine.open = None
        self._mine.last = done
        return done

    def retry(self, *, timeout: float | None = None) -> Ordered:
        """Asks again for this thread's last multicast; says its place again if it is ordered."""
        asked = getattr(self._mine, "open", None)
        if asked is not None:
            return self.multicast(*asked, timeout=timeout)
        last: Ordered | None = getattr(self._mine, "last", None)
        if last is None:
            raise ValueError(f"{self._config.name}: nothing was asked for yet")
        return last

    def _forget(self) -> None:
        with self._lock:
            if self._sender is not None:
                self._sender = None
                self._domain.close()

    def close(self) -> None:
        self._closed = True
        self._forget()


def node(config: ClusterConfig, name: str, state: State | None = None) -> EagerNode:
    return EagerNode(config, name, state)


def client(config: ClusterConfig) -> EagerClient:
    return EagerClient(config)
