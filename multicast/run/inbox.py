"""Frames over mailboxes: every life of a process has an inbox, in which each other one has a lane.

A frame longer than a slot travels in fragments. A receiver that does not keep up is waited for in
a bounded backlog; one that is behind by more than that is *cut off*: its inbox is removed, so that
it notices, and has to come back as a new life. A gap in what one life tells another never goes
unnoticed.

Lanes are few. Clients leave some to the replicas (`spare`); a replica that finds none all the same
keeps its frames in the backlog, and looks again.
"""

from __future__ import annotations

import contextlib
import enum
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from shmcast.errors import (
    Corrupt,
    DeadlineMissed,
    Incompatible,
    MailboxFull,
    Rejected,
    ShmcastError,
)
from shmcast.mailbox.domain import Segments
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Wait
from shmcast.mailbox.sender import Sender
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.records import FRAGMENTS_MAX, Fragment
from shmcast.multicast.run.records import decode as decode_records
from shmcast.multicast.run.records import encode as encode_records
from shmcast.multicast.run.transport import CLIENTS_FROM, Frame
from shmcast.multicast.run.wire import FRAME_BYTES_MAX, RECORDS, kind_of

_HEAD = struct.Struct("<iI")  # sender, its incarnation
_HEAD_BYTES = _HEAD.size
_FRAGMENT_HEAD_BYTES = 64  # the most that a Fragment adds to its data
_LOST = (ShmcastError, FileNotFoundError, ValueError)
BATCH = 256
SENDERS = 64  # lanes of a replica's inbox
BACKLOG_BYTES_MAX = 64 << 20  # and one frame
LANE_AGAIN_NS = 10_000_000  # between two looks for a free lane
SPEAKERS_MAX = 4096  # that are told apart at a time: many more than have room in an inbox


def inbox_name(cluster: str, process: ProcessId, incarnation: int) -> str:
    return f"{cluster}.p{process}.{incarnation}"


def client_inbox_name(cluster: str, client: int) -> str:
    return f"{cluster}.c{client}"


def lanes_for_replicas(config: ClusterConfig) -> int:
    """That clients leave free in an inbox: with many replicas a few clients find a place still."""
    return min(len(config.replicas), SENDERS - SENDERS // 8)


def remove_inbox(name: str) -> None:
    """Whoever knows that its owner is dead may call this; so may all of them."""
    with contextlib.suppress(*_LOST, OSError):
        Mailbox.remove(name)


class Inbox:
    """What others send to this life of this process."""

    def __init__(
        self,
        name: str,
        *,
        copies: int,
        slot_bytes: int,
        capacity: int,
        senders: int,
        client_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """`client_bytes_max`: the longest frame that a client may send."""
        self.name = name
        self._client_bytes_max = client_bytes_max
        self._unfinished_max = senders  # each lane has one frame on its way
        remove_inbox(name)  # what an earlier user of a name left behind
        self._box = Mailbox.create(
            name,
            copies=copies,
            message_size=slot_bytes,
            capacity=capacity,
            senders=senders,
            receivers=1,
        )
        # More processes than cores is the rule here: a spinning one keeps another from running.
        self._receiver = self._box.receiver(wait=Wait.BLOCK)
        self._lives: dict[ProcessId, int] = {}
        self._heads: dict[bytes, ProcessId] = {}  # of the lives that speak now
        self.appeared: set[ProcessId] = set()  # spoke for the first time in their lives
        self._parts: dict[ProcessId, _Parts] = {}

    def receive(self, timeout_ns: int) -> list[Frame]:
        """All that has come; waits for the first one. MailboxLost: this life was cut off."""
        try:
            batch = self._receiver.receive_many(BATCH, timeout=max(0, timeout_ns) / 1e9)
        except TimeoutError:
            return []
        frames: list[Frame] = []
        heads, mark = self._heads, _FRAGMENT_MARK
        for data in batch.payloads:
            sender = heads.get(data[:_HEAD_BYTES])
            if sender is None or data[_HEAD_BYTES + 3 : _HEAD_BYTES + 5] == mark:
                frames.extend(self._frames(data))
            else:
                frames.append(Frame(sender, data[_HEAD_BYTES:]))
        return frames

    def _refused(self, sender: ProcessId) -> Frame:
        """An empty frame: nobody of ours sends one, and who decodes it cuts its sender off."""
        self._parts.pop(sender, None)
        return Frame(sender, b"")

    def _frames(self, data: bytes) -> Iterator[Frame]:
        if len(data) < _HEAD_BYTES:
            return
        sender, incarnation = _HEAD.unpack_from(data)
        known = self._lives.get(sender, -1)
        if incarnation < known:
            return  # said by a life that is over
        if incarnation > known:
            self._meet(sender, known, incarnation)
        body = data[_HEAD_BYTES:]
        try:
            if kind_of(body) == RECORDS and body[3:5] == _FRAGMENT_MARK:
                yield from self._fragments(sender, body)
            else:
                yield Frame(sender, body)
        except (Corrupt, Incompatible):
            yield self._refused(sender)

    def _meet(self, sender: ProcessId, known: int, incarnation: int) -> None:
        self._forget(sender, known)
        if len(self._lives) >= SPEAKERS_MAX:  # a client has one life only: it is met anew
            oldest = next((other for other in self._lives if other >= CLIENTS_FROM), None)
            if oldest is not None:
                self._forget(oldest, self._lives[oldest])
        self._heads[head_of(sender, incarnation)] = sender
        self._lives[sender] = incarnation
        self.appeared.add(sender)

    def _forget(self, sender: ProcessId, life: int) -> None:
        if self._lives.pop(sender, None) is not None:
            self._heads.pop(head_of(sender, life), None)
        self._parts.pop(sender, None)

    def _fragments(self, sender: ProcessId, body: bytes) -> Iterator[Frame]:
        for record in decode_records(body):
            if not isinstance(record, Fragment):
                raise Corrupt(f"process {sender} mixes fragments with other records")
            whole = self._parts_of(sender).add(record)
            if whole is not None:
                del self._parts[sender]
                yield Frame(sender, whole)

    def _parts_of(self, sender: ProcessId) -> _Parts:
        known = self._parts.get(sender)
        if known is not None:
            return known
        if len(self._parts) >= self._unfinished_max:  # its sender died, or sends no real ones
            oldest = next((p for p in self._parts if p >= CLIENTS_FROM), sender)
            self._parts.pop(oldest, None)
        is_client = sender >= CLIENTS_FROM
        parts = _Parts(self._client_bytes_max if is_client else FRAME_BYTES_MAX)
        self._parts[sender] = parts
        return parts

    def close(self) -> None:
        self._receiver.close()
        self._box.close()
        remove_inbox(self.name)


_FRAGMENT_MARK = encode_records([Fragment(0, 0, 2, b"")])[3:5]  # array of 5, tag 9


class Reader(enum.Enum):
    LIVES = "lives"
    DIED = "died"  # its inbox is still there
    LEFT = "left"  # in order: whoever closes an inbox removes it


@dataclass(slots=True)
class _Parts:
    """The fragments of the frame that one sender is sending."""

    bytes_max: int
    number: int = -1
    data: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, part: Fragment) -> bytes | None:
        if part.index == 0:
            self.number, self.data, self.size = part.number, [], 0
        if part.number != self.number or part.index != len(self.data):
            raise Corrupt(f"fragment {part.index} of frame {part.number} out of turn")
        self.data.append(part.data)
        self.size += len(part.data)
        if self.size > self.bytes_max:
            raise Corrupt(f"a frame of more than {self.bytes_max} bytes: nobody sends such a one")
        return None if len(self.data) < part.count else b"".join(self.data)


class Outlet:
    """The way into one other inbox: what does not fit now is kept, in order, up to a bound."""

    def __init__(self, name: str, head: bytes, *, spare: int = 0) -> None:
        """`spare`: lanes that are left to others."""
        self.name = name
        self._head, self._spare = head, spare
        self._box: Mailbox | None = None
        self._sender: Sender | None = None
        self._room = 0  # for a frame in one slot
        self._fragmented = 0
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._look_at_ns = 0  # for a lane, again
        self.gone = False  # its owner died, or was cut off: whatever is sent is lost with it

    @property
    def is_behind(self) -> bool:
        return bool(self._backlog)

    @property
    def backlog_bytes(self) -> int:
        return self._backlog_bytes

    @property
    def is_stuffed(self) -> bool:
        """No more should be sent before some of it has arrived."""
        return 2 * self._backlog_bytes > BACKLOG_BYTES_MAX

    def send(self, data: bytes) -> None:
        if self._sender is None and not self.is_open() and self.gone:
            return
        if self._backlog_bytes > BACKLOG_BYTES_MAX:
            self.cut_off()
            return
        if len(data) <= self._room and not self._backlog:  # nearly always
            piece = self._head + data
            if not self._put(piece):
                self._keep(piece)
            return
        for piece in self._pieces(data):
            if self._backlog or not self._put(piece):
                self._keep(piece)

    def flush(self) -> bool:
        """True: something left."""
        before = len(self._backlog)
        while self._backlog:
            if not self._put(self._backlog[0]) or self.gone:  # if gone, the backlog went as well
                break
            self._backlog_bytes -= len(self._backlog.popleft())
        return len(self._backlog) < before

    def is_open(self) -> bool:
        """Has it a lane? Looks for one, if not."""
        now = time.monotonic_ns()
        if self._sender is not None or self.gone or now < self._look_at_ns:
            return self._sender is not None
        self._look_at_ns = now + LANE_AGAIN_NS
        try:
            box = self._box or Mailbox.open(self.name, timeout=0.1)
        except (*_LOST, TimeoutError):
            self.close()
            return False
        self._box, self._room = box, box.message_size - len(self._head)
        try:
            self._sender = self._lane(box)
        except (MailboxFull, DeadlineMissed):
            return False
        except (*_LOST, TimeoutError):
            self.close()
        return self._sender is not None

    def _lane(self, box: Mailbox) -> Sender:
        sender = box.sender(timeout=0)
        if self._spare and lanes_left(box.segments) < self._spare:
            box.reap()
            if lanes_left(box.segments) < self._spare:
                sender.close()
                raise MailboxFull(f"{self.name}: the lanes that are left are for replicas")
        return sender

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        if len(data) <= self._room:
            yield self._head + data
            return
        part = self._room - _FRAGMENT_HEAD_BYTES
        count = -(-len(data) // part)
        if count > FRAGMENTS_MAX:
            raise ValueError(f"a frame of {len(data)} bytes is too long for {self.name}")
        self._fragmented += 1
        for index in range(count):
            piece = data[index * part : (index + 1) * part]
            yield self._head + encode_records([Fragment(self._fragmented, index, count, piece)])

    def _put(self, piece: bytes) -> bool:
        while self._sender is not None or self.is_open():
            assert self._sender is not None
            try:
                self._sender.send(piece, timeout=0)
                return True
            except MailboxFull:
                return False
            except Rejected:
                continue  # we were late; nobody has it
            except DeadlineMissed:  # so late that our lane was given back; nobody has it either
                self._sender, self._look_at_ns = None, 0
            except _LOST:
                self.close()
        return self.gone

    def _keep(self, piece: bytes) -> None:
        self._backlog.append(piece)
        self._backlog_bytes += len(piece)

    def cut_off(self) -> None:
        name = self.name
        self.close()
        remove_inbox(name)

    def reader(self) -> Reader:
        """Who reads it? The place of a dead one is freed."""
        if self._box is None:
            return Reader.LEFT if self.gone else Reader.LIVES
        try:
            self._box.reap()
            return Reader.LIVES if self._box.stats().receivers else Reader.DIED
        except _LOST:
            return Reader.LEFT

    def close(self) -> None:
        self.gone = True
        self._backlog.clear()
        self._backlog_bytes = 0
        for part in (self._sender, self._box):
            if part is not None:
                with contextlib.suppress(*_LOST):
                    part.close()
        self._sender = self._box = None


def lanes_left(segments: Segments) -> int:
    """Of dead holders' ones those count as taken that nobody has freed yet."""
    held = sum(1 for sender in segments.sender_stats() if sender.pid)
    return int(segments.params.senders) - held


def head_of(process: ProcessId, incarnation: int) -> bytes:
    return _HEAD.pack(process, incarnation)
