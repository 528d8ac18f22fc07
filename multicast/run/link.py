"""One direction between one life of a process and one of another: FIFO, nothing lost or doubled.

Pure: no socket, no clock. The sender numbers its frames and keeps each until the receiver has
said that it came; after a gap, or when the answer to a Hello shows that frames which left before
that Hello did not come, it sends again from the first one missing, fewer each time that this does
not help. What is kept is bounded: a sender that would have to drop
a frame cuts the link instead. A cut link stays cut until one of the two lives has ended, and both
sides know it; or, if it would cut off more than a minority, its own life ends, and nobody is told
(links.py). A gap is never silent. A long frame travels in pieces, numbered one by one.

A life is its number and, below that, what it drew by lot at its birth. A host that was rebooted has
forgotten how often its replicas lived; who comes under a number of its past is told apart from
that past, is not heard, and finds in everybody's Hello which life of it is known.

    Hello    sender → receiver   every heartbeat: who I am, in which life
    Welcome  receiver → sender   the answer: my life, the number I wait for, clocks
    Data     sender → receiver   the frame follows as a part of its own
    Ack      receiver → sender   after a batch; `gap`: something before it is missing
    Cut      sender → receiver   I had to drop frames: this pair of lives is over
    Refused  receiver → sender   why I do not listen: another version or cluster
    Unread   receiver → sender   what you sent is no frame: this life of yours is over
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from shmcast.errors import Corrupt, Incompatible

LINK_VERSION = 3
WINDOW = 1024  # frames on their way at once: the rest follows with the acknowledgements
SHRINKS = 8  # so many times, when frames have to be sent again
BIRTH_BITS = 32
KNOWN_MAX = 4096  # processes that a Hello may speak of

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text: TypeAlias = Annotated[str, Meta(max_length=300)]


class _Record(Struct, array_like=True, frozen=True, gc=False, forbid_unknown_fields=True):
    pass


class Hello(_Record, tag=1, frozen=True):
    process: Natural
    life: Natural
    cluster: Text
    sent_ns: Natural
    epoch: Natural = 0  # of its group's leadership, as it sees it
    leader: Annotated[int, Meta(ge=-1, le=2**31)] = -1
    wire: Natural = 0  # the version of what its frames say
    known: Annotated[tuple[tuple[Natural, Natural], ...], Meta(max_length=KNOWN_MAX)] = ()
    """The last life of each process that it knows of, also from others."""


class Welcome(_Record, tag=2, frozen=True):
    life: Natural
    to_life: Natural
    expected: Natural
    hello_ns: Natural  # the Hello's sent_ns
    came_ns: Natural
    sent_ns: Natural


class Data(_Record, tag=3, frozen=True):
    life: Natural
    to_life: Natural
    seq: Natural


class Ack(_Record, tag=4, frozen=True):
    life: Natural
    to_life: Natural
    expected: Natural
    gap: bool


class Cut(_Record, tag=5, frozen=True):
    life: Natural
    to_life: Natural


class Refused(_Record, tag=6, frozen=True):
    version: Natural
    why: Text


class Unread(_Record, tag=7, frozen=True):
    life: Natural
    to_life: Natural
    why: Text


Record: TypeAlias = Hello | Welcome | Data | Ack | Cut | Refused | Unread


def life_of(number: int, birth: int) -> int:
    return number << BIRTH_BITS | birth


def number_of(life: int) -> int:
    return life >> BIRTH_BITS


def outlives(life: int, other: int) -> bool:
    """Is `other` over, where `life` is known? Also if it only says that it has the same number."""
    return life != other and number_of(life) >= number_of(other)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_HEAD = bytes((LINK_VERSION,))


def encode(record: Record) -> bytes:
    return _HEAD + _encode(record)


def decode(data: bytes) -> Record:
    if not data:
        raise Corrupt("an empty record on a link")
    if data[0] != LINK_VERSION:
        raise Incompatible(
            f"the peer speaks link version {data[0]}, this process {LINK_VERSION}: "
            "run the same release of shmcast on every host"
        )
    try:
        return cast("Record", _decode(memoryview(data)[1:]))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(f"not a record of a link: {error}") from error


Sending: TypeAlias = list[tuple[Data, bytes]]
_MORE, _LAST = b"\1", b"\0"  # before a piece


def pieces_of(data: bytes, piece_bytes: int) -> list[bytes]:
    ends = range(piece_bytes, len(data), piece_bytes)
    pieces = [_MORE + data[end - piece_bytes : end] for end in ends]
    return [*pieces, _LAST + data[len(pieces) * piece_bytes :]]


@dataclass(slots=True)
class Outgoing:
    """The sender's side."""

    life: int
    frames_max: int
    bytes_max: int
    to_life: int | None = None  # None: the peer has not answered yet
    cut: bool = False
    first: int = 0  # the number of kept[0]
    kept: deque[bytes] = field(default_factory=deque)
    kept_bytes: int = 0
    sent: int = 0  # the first that is not on its way
    window: int = WINDOW  # smaller while the peer has no room, or the network loses much
    marked: int = 0  # what was sent when the Hello of `mark_ns` left; the answer must show it
    mark_ns: int = -1
    repaired: int = -1  # the gap that was filled last

    @property
    def next(self) -> int:
        return self.first + len(self.kept)

    def push(self, *pieces: bytes) -> Sending:
        """Takes a frame; returns what to send now. A cut link takes everything and sends nothing:
        its peer does not live any more, as far as this process is concerned."""
        if self.cut:
            return []
        if len(self.kept) + len(pieces) > self.frames_max or self.kept_bytes > self.bytes_max:
            self.cut = True
            self._forget()
            return []
        self.kept.extend(pieces)
        self.kept_bytes += sum(map(len, pieces))
        return self._fill()

    def on_welcome(self, welcome: Welcome) -> Sending:
        if welcome.to_life != self.life:
            return []  # about another life of ours
        if self.to_life is None:
            self.to_life = welcome.life
            return self.again()
        if welcome.life != self.to_life:
            self.meet(welcome.life)
            return []
        self._acknowledged(welcome.expected)
        if self.mark_ns < 0 or welcome.hello_ns < self.mark_ns:
            return self._fill()
        self.mark_ns = -1
        if self.first >= self.marked:
            return self._fill()
        self.window = max(1, self.window // SHRINKS)
        return self.again()

    def hello_left(self, now_ns: int) -> None:
        """A Hello goes behind all that was sent: its answer shows whether that came."""
        if self.mark_ns < 0 and self.sent > self.first:
            self.marked, self.mark_ns = self.sent, now_ns

    def meet(self, life: int) -> None:
        """The peer shows itself in this life. What we answer to it must not be taken for what was
        meant for the life before, and forgotten when its Welcome comes."""
        if self.to_life is not None and not (life == self.to_life or outlives(self.to_life, life)):
            self._forget()
            self.first, self.sent, self.cut, self.to_life = 0, 0, False, life

    def on_ack(self, ack: Ack) -> Sending:
        if ack.to_life != self.life or ack.life != self.to_life:
            return []
        self._acknowledged(ack.expected)
        if ack.gap and ack.expected != self.repaired:
            self.repaired = ack.expected
            return self.again()
        return self._fill()

    def again(self) -> Sending:
        self.sent = self.first
        return self._fill()

    def _fill(self) -> Sending:
        """Everything that the window has room for."""
        if self.to_life is None:
            return []
        begin, end = self.sent, min(self.next, self.first + self.window)
        if end <= begin:
            return []
        self.sent = end
        frames = islice(self.kept, begin - self.first, end - self.first)
        life, to_life = self.life, self.to_life
        return [(Data(life, to_life, begin + i), data) for i, data in enumerate(frames)]

    def _acknowledged(self, expected: int) -> None:
        if expected > self.next:
            return  # what was never sent: whatever it means, it is not about us
        if expected > self.first:
            self.window = min(2 * self.window, WINDOW)
        while self.first < expected:
            self.kept_bytes -= len(self.kept.popleft())
            self.first += 1
        self.sent = max(self.sent, self.first)

    def _forget(self) -> None:
        self.first = self.sent = self.next
        self.kept.clear()
        self.kept_bytes = 0
        self.window, self.mark_ns, self.repaired = WINDOW, -1, -1


@dataclass(slots=True)
class Incoming:
    """The receiver's side."""

    life: int
    from_life: int = -1
    known: int = -1  # its last life, as far as anybody has told us
    expected: int = 0
    cut: bool = False
    unread: str = ""  # why nothing more is taken from this life of it
    parts: list[bytes] = field(default_factory=list)  # of the frame that is coming
    parts_bytes: int = 0

    def on_hello(self, hello: Hello, came_ns: int, now_ns: int) -> Welcome | None:
        if outlives(self.known, hello.life):
            return None  # a life that is over, or one that has forgotten it: it must not be heard
        if hello.life != self.from_life:
            self.known = self.from_life = hello.life
            self.expected, self.cut, self.unread = 0, False, ""
            self._begin_frame()
        return Welcome(self.life, hello.life, self.expected, hello.sent_ns, came_ns, now_ns)

    def learn(self, life: int) -> None:
        """Others have met it in this life."""
        if number_of(life) > number_of(self.known):
            self.known = life

    def is_next(self, data: Data) -> bool:
        return (
            not self.cut and not self.unread and self._is_ours(data) and data.seq == self.expected
        )

    def leaves_a_gap(self, data: Data) -> bool:
        return self._is_ours(data) and data.seq > self.expected

    def whole(self, piece: bytes, bytes_max: int) -> bytes | None:
        """The frame that ends with this piece."""
        if piece[:1] not in (_MORE, _LAST) or self.parts_bytes + len(piece) > bytes_max + 1:
            raise Corrupt("a piece of a frame that nobody sends")
        return b"".join([*self.parts, piece[1:]]) if piece[:1] == _LAST else None

    def took(self, piece: bytes) -> None:
        self.expected += 1
        if piece[:1] == _LAST:
            self._begin_frame()
            return
        self.parts.append(piece[1:])
        self.parts_bytes += len(piece) - 1

    def _begin_frame(self) -> None:
        self.parts, self.parts_bytes = [], 0

    def ack(self, gap: bool) -> Ack:
        return Ack(self.life, self.from_life, self.expected, gap)

    def on_cut(self, cut: Cut) -> bool:
        """True: this is news."""
        if cut.life != self.from_life or cut.to_life != self.life or self.cut:
            return False
        self.cut = True
        return True

    def _is_ours(self, data: Data) -> bool:
        return data.life == self.from_life and data.to_life == self.life
