"""How a replica that comes back takes over the state of another, through the order itself. Pure.

It puts a *marker* into the order, which names a donor. Where the donor delivers the marker it
takes, between two deliveries, the application's snapshot and the sessions, and sends both to the
joiner. The joiner keeps what stands after its marker, restores, and delivers what it kept. Everyone
delivers the marker at one place, so state and what follows fit without a gap or an overlap.

    joiner  WAITING --own marker--> KEEPING --snapshot is whole--> COMPLETE
               ^  no answer, declined, damaged, too much kept: next donor, next attempt  |
               +-------------------------------------------------------------------------+
"""

from __future__ import annotations

import enum
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from shmcast.errors import Corrupt
from shmcast.multicast.run.api import Place

SNAPSHOT_VERSION = 1
PATIENCE_DOUBLINGS = 4
T = TypeVar("T")


class MarkerId(NamedTuple):
    """Names one attempt of one life of a replica."""

    joiner: int
    life: int
    attempt: int


class Part(NamedTuple):
    """A piece of a snapshot on its way to the joiner."""

    marker: MarkerId
    number: int
    total: int
    data: bytes


class Snapshot(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The state of a group as of a marker."""

    version: int
    group: str
    marker: tuple[int, int, int]
    sessions: list[tuple[int, ...]]  # the rows of the engine's Sessions
    state: bytes  # the application's


_CRC_BYTES = 4
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    body = _encoder.encode(snapshot)
    return zlib.crc32(body).to_bytes(_CRC_BYTES, "little") + body


def decode_snapshot(data: bytes, group: str, marker: MarkerId) -> Snapshot:
    """Raises Corrupt for anything but a whole snapshot of this group for this marker."""
    body = memoryview(data)[_CRC_BYTES:]
    if len(data) < _CRC_BYTES or zlib.crc32(body) != int.from_bytes(data[:_CRC_BYTES], "little"):
        raise Corrupt(f"{group}: the snapshot is damaged: ask another replica for it")
    try:
        found = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{group}: not a snapshot ({error}): ask another replica for it") from error
    if found.version != SNAPSHOT_VERSION or found.group != group or found.marker != tuple(marker):
        raise Corrupt(
            f"{group}: a snapshot of version {found.version} of {found.group} for another marker: "
            "run the same release at all replicas"
        )
    return found


# Effects --------------------------------------------------------------------------------------


class SendMarker(NamedTuple):
    """Put this into the order of the group."""

    marker: MarkerId
    donor: int


class Restore(NamedTuple, Generic[T]):
    """Take this over, then deliver these, in order."""

    snapshot: Snapshot
    kept: list[tuple[Place, T]]


class GiveUp(NamedTuple):
    reason: str


Effect: TypeAlias = SendMarker | Restore[T] | GiveUp


class Phase(enum.Enum):
    IDLE = "idle"  # no donor is known
    WAITING = "waiting"  # for its own marker
    KEEPING = "keeping"  # what stands behind it
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Limits:
    patience: int  # ticks without a sign of the donor; grows with the attempts
    attempts: int = 12
    kept_records: int = 1 << 16
    kept_bytes: int = 1 << 26
    snapshot_bytes: int = 1 << 30


class Joiner(Generic[T]):
    """One life of a replica until it is complete. `T` is the engine's record."""

    def __init__(self, me: int, life: int, group: str, limits: Limits) -> None:
        self.phase = Phase.IDLE
        self._me, self._life, self._group, self._limits = me, life, group, limits
        self._attempt = 0
        self._donor: int | None = None
        self._due = 0
        self._declined = ""  # why, the last time
        self._kept: deque[tuple[Place, T]] = deque()
        self._kept_bytes = 0
        self._parts: dict[int, bytes] = {}
        self._parts_bytes = 0

    @property
    def marker(self) -> MarkerId:
        return MarkerId(self._me, self._life, self._attempt)

    def found(self) -> None:
        """There is no state to take over: this replica begins with none."""
        self.phase = Phase.COMPLETE

    def tick(self, now: int, donors: Sequence[int]) -> list[Effect[T]]:
        """`donors`: complete replicas believed to live, the preferred one first."""
        if self.phase is Phase.COMPLETE or (self.phase is not Phase.IDLE and now < self._due):
            return []
        return self._ask(now, donors)

    def _ask(self, now: int, donors: Sequence[int]) -> list[Effect[T]]:
        self._drop()
        if not donors:
            self.phase = Phase.IDLE
            return []
        if self._attempt >= self._limits.attempts:
            why = f" ({self._declined})" if self._declined else ""
            return [
                GiveUp(f"{self._group}: no donor sent its state in {self._attempt} attempts{why}")
            ]
        known = [n for n, donor in enumerate(donors, 1) if donor == self._donor]
        after = known[0] if known else 0
        self._donor = donors[after % len(donors)]
        self._attempt += 1
        self._due = now + self._patience
        self.phase = Phase.WAITING
        return [SendMarker(self.marker, self._donor)]

    def _drop(self) -> None:
        self._kept.clear()
        self._parts.clear()
        self._kept_bytes = self._parts_bytes = 0

    def marker_stands(self, marker: MarkerId, now: int) -> None:
        """A marker is delivered here; only one's own last one matters."""
        if self.phase is Phase.WAITING and marker == self.marker:
            self.phase = Phase.KEEPING
            self._due = now + self._patience

    @property
    def _patience(self) -> int:
        """A large state takes its time before the first piece of it is here."""
        return self._limits.patience << min(self._attempt - 1, PATIENCE_DOUBLINGS)

    def declined(
        self, marker: MarkerId, why: str, now: int, donors: Sequence[int]
    ) -> list[Effect[T]]:
        """The donor has nothing to give."""
        if self.phase not in (Phase.WAITING, Phase.KEEPING) or marker != self.marker:
            return []
        self._declined = why
        return self._ask(now, donors)

    def keep(
        self, place: Place, record: T, size: int, now: int, donors: Sequence[int]
    ) -> list[Effect[T]]:
        """A record of the order; the ones before the marker are in the donor's state."""
        if self.phase is not Phase.KEEPING:
            return []
        self._kept.append((place, record))
        self._kept_bytes += size
        limits = self._limits
        if len(self._kept) > limits.kept_records or self._kept_bytes > limits.kept_bytes:
            return self._ask(now, donors)  # a later marker leaves less to keep
        return []

    def part(self, part: Part, now: int, donors: Sequence[int]) -> list[Effect[T]]:
        """Parts of other attempts, or that came before, change nothing."""
        marker, index, count, data = part
        if self.phase is not Phase.KEEPING or marker != self.marker or index in self._parts:
            return []
        self._due = now + self._patience
        self._parts[index] = data
        self._parts_bytes += len(data)
        if self._parts_bytes > self._limits.snapshot_bytes or not 0 <= index < count:
            return self._ask(now, donors)
        if len(self._parts) < count:
            return []
        try:
            whole = b"".join(self._parts[i] for i in range(count))
            snapshot = decode_snapshot(whole, self._group, self.marker)
        except (Corrupt, KeyError):
            return self._ask(now, donors)
        kept = list(self._kept)
        self._drop()
        self.phase = Phase.COMPLETE
        return [Restore(snapshot, kept)]


def parts_of(data: bytes, marker: MarkerId, part_bytes: int) -> list[Part]:
    pieces = [data[at : at + part_bytes] for at in range(0, len(data), part_bytes)] or [b""]
    return [Part(marker, index, len(pieces), piece) for index, piece in enumerate(pieces)]
