"""What the runtime's processes tell each other besides the messages of a protocol.

One struct each; the array's first element is the tag. `encode` and `decode` carry several in one
frame, in order. A composite, the payload that an entry multicasts, is such a frame too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.run.wire import RECORDS, VERSION, body_of

SNAPSHOT_CHUNKS_MAX = 1 << 20
FRAGMENTS_MAX = 1 << 16
WHY_MAX = 300
REQUESTS_MAX = 1 << 10  # in one composite: the index is part of a place
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name: TypeAlias = Annotated[str, Meta(max_length=255)]
Groups: TypeAlias = Annotated[tuple[Natural, ...], Meta(min_length=1, max_length=4096)]


class _Record(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    pass


class Heartbeat(_Record, tag=1, frozen=True):
    """I live, in this life."""

    incarnation: Natural
    sent_ns: Natural  # this host's monotonic clock
    leader: int = -1  # whom the sender takes for the leader of its group
    ballot: Natural = 0


class Hello(_Record, tag=2, frozen=True):
    """The first words of a life to a peer."""

    process: Natural
    incarnation: Natural
    cluster: Name
    protocol: Name


class Request(_Record, tag=3, frozen=True):
    """A client's multicast. (client, seq) names it for ever."""

    client: Natural
    seq: Natural
    dest: Groups
    payload: bytes


class Reply(_Record, tag=4, frozen=True):
    """It is ordered, at this place."""

    client: Natural
    seq: Natural
    time: Natural
    tie: Natural


class Busy(_Record, tag=5, frozen=True):
    """Not taken: too much is pending here. Ask again, before your deadline."""

    client: Natural
    seq: Natural
    wait_ns: Natural = 0


class Redirect(_Record, tag=6, frozen=True):
    """Not taken: ask `entry`, a member of a group that it is for."""

    client: Natural
    seq: Natural
    entry: Natural


class Marker(_Record, tag=7, frozen=True):
    """A replica that comes back, in the order: `donor` sends its state as of here."""

    joiner: Natural
    incarnation: Natural
    attempt: Natural
    donor: Natural


class SnapshotChunk(_Record, tag=8, frozen=True):
    """Part `index` of `count` of the state as of the marker (joiner, incarnation, attempt)."""

    incarnation: Natural
    attempt: Natural
    index: Natural
    count: Annotated[int, Meta(ge=1, le=SNAPSHOT_CHUNKS_MAX)]
    data: bytes

    def __post_init__(self) -> None:
        if self.index >= self.count:
            raise ValueError(f"chunk {self.index} of {self.count}")


class Fragment(_Record, tag=9, frozen=True):
    """Part `index` of `count` of one frame that is longer than a slot of the inbox."""

    number: Natural  # counts the sender's fragmented frames to this receiver
    index: Natural
    count: Annotated[int, Meta(ge=2, le=FRAGMENTS_MAX)]
    data: bytes

    def __post_init__(self) -> None:
        if self.index >= self.count:
            raise ValueError(f"fragment {self.index} of {self.count}")


class Declined(_Record, tag=10, frozen=True):
    """The donor has no state to give as of the marker (joiner, incarnation, attempt)."""

    incarnation: Natural
    attempt: Natural
    why: Annotated[str, Meta(max_length=WHY_MAX)]


Record: TypeAlias = (
    Heartbeat
    | Hello
    | Request
    | Reply
    | Busy
    | Redirect
    | Marker
    | SnapshotChunk
    | Fragment
    | Declined
)

_HEAD = bytes((VERSION, RECORDS))
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode


def composite(payload: object) -> list[Record]:
    """What an entry put together. A client that speaks like a replica may have sent any bytes; they
    have their place in the order, so every replica takes them alike: for nothing."""
    try:
        found = decode(payload) if isinstance(payload, bytes) else []
    except (Corrupt, Incompatible):
        return []
    return found if len(found) <= REQUESTS_MAX else []


def encode(records: Sequence[Record]) -> bytes:
    return _HEAD + _encode(records)


def decode(data: bytes) -> list[Record]:
    body = body_of(data, RECORDS)
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Corrupt(f"not a frame of the runtime: {error}") from error
