"""State transfer at one replica: takes another's state when it comes back, gives its own to others.

transfer.py is the protocol. This is its driver inside the loop: markers travel in composites,
snapshots as chunks outside the order, no more at a time than there is room for. The application's
part is done by its own thread, between two deliveries: `Take` and `Restore` stand in its queue like
deliveries. A donor whose application has no snapshot to give declines, and lives on.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from shmcast.errors import MessageTooLarge, NoQuorum
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run.api import Delivery, Place, State
from shmcast.multicast.run.detector import Detector
from shmcast.multicast.run.records import (
    WHY_MAX,
    Declined,
    Marker,
    Request,
    SnapshotChunk,
    encode,
)
from shmcast.multicast.run.sessions import Sessions
from shmcast.multicast.run.transfer import (
    SNAPSHOT_VERSION,
    Effect,
    GiveUp,
    Joiner,
    Limits,
    MarkerId,
    Part,
    Phase,
    SendMarker,
    Snapshot,
    encode_snapshot,
)

CHUNK_BYTES = 64 << 10
SNAPSHOT_BYTES_MAX = 256 << 20
SNAPSHOT_BYTES_MUCH = SNAPSHOT_BYTES_MAX // 2  # from here on the application is warned
_SESSIONS_BYTES_MAX = 16 << 20  # of the rows beside it
CHUNKS_PER_TURN = 16
PATIENCE_TICKS = 1_000_000
_HEAD_BYTES = 64  # of a request, in memory

Rows: TypeAlias = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Take:
    """To the application's thread: a snapshot, as of here."""

    marker: MarkerId
    sessions: Rows


@dataclass(frozen=True, slots=True)
class Restore:
    """To the application's thread: this is the state as of here."""

    state: bytes


class Given(NamedTuple):
    """By the application's thread: a snapshot as it travels, or why there is none."""

    marker: MarkerId
    data: bytes
    why: str = ""


@dataclass(slots=True)
class _Giving:
    """What is on its way to a joiner."""

    marker: MarkerId
    data: bytes
    next: int = 0

    @property
    def total(self) -> int:
        return max(1, -(-len(self.data) // CHUNK_BYTES))

    def chunk(self) -> SnapshotChunk:
        number, at = self.next, self.next * CHUNK_BYTES
        self.next += 1
        _, life, attempt = self.marker
        return SnapshotChunk(life, attempt, number, self.total, self.data[at : at + CHUNK_BYTES])


Item: TypeAlias = Delivery | Take | Restore
Kept: TypeAlias = tuple[Request, tuple[int, ...]]


class Handover:
    """`enter` puts a marker into the order, `send` reaches another replica, `put` the application,
    `deliver` is what happens to a request in its turn."""

    def __init__(
        self,
        detector: Detector,
        incarnation: int,
        group: str,
        *,
        enter: Callable[[Marker], None],
        send: Callable[[ProcessId, bytes], None],
        room_for: Callable[[ProcessId], bool],
        put: Callable[[Item], None],
        deliver: Callable[[Request, Place, tuple[int, ...]], None],
    ) -> None:
        self._detector, self._group = detector, group
        self._enter, self._send, self._put, self._deliver = enter, send, put, deliver
        self._room_for = room_for
        limits = Limits(PATIENCE_TICKS, snapshot_bytes=SNAPSHOT_BYTES_MAX + _SESSIONS_BYTES_MAX)
        self._joiner: Joiner[Kept] = Joiner(detector.me, incarnation, group, limits)
        self._given: deque[Given] = deque()
        self._giving: dict[ProcessId, _Giving] = {}

    def found(self) -> None:
        """This replica begins without a state: there is none to be had."""
        self._joiner.found()

    @property
    def is_complete(self) -> bool:
        return self._joiner.phase is Phase.COMPLETE

    def tick(self, now: int) -> Sessions | None:
        """Sessions to go on with, once the state has come."""
        return self._do(self._joiner.tick(now, self._donors()))

    def _donors(self) -> list[ProcessId]:
        detector = self._detector
        members = detector.topology.groups[detector.group]
        return [p for p in detector.trusted(members) if p != detector.me]

    # In the order ------------------------------------------------------------------------

    def marker_stands(self, marker: Marker, sessions: Sessions, now: int) -> None:
        mid = MarkerId(marker.joiner, marker.incarnation, marker.attempt)
        if not self.is_complete:
            self._joiner.marker_stands(mid, now)
        elif marker.donor == self._detector.me:
            self._put(Take(mid, [(*row, 0, 0) for row in sessions.rows()]))

    def keep(self, request: Request, place: Place, dest: tuple[int, ...], now: int) -> None:
        """A request stands in the order of a replica that is not complete yet."""
        size = len(request.payload) + _HEAD_BYTES
        self._do(self._joiner.keep(place, (request, dest), size, now, self._donors()))

    # Outside of it -----------------------------------------------------------------------

    def take(self, take: Take, state: State | None) -> None:
        """In the application's thread."""
        try:
            self._given.append(self._snapshot(take, b"" if state is None else state.snapshot()))
        except Exception as error:  # the application's own: this replica can do without
            self._decline(take.marker, f"snapshot() failed: {error!r}")

    def _snapshot(self, take: Take, state: bytes) -> Given:
        if len(state) > SNAPSHOT_BYTES_MAX:
            raise MessageTooLarge(
                f"{len(state)} bytes, and at most {SNAPSHOT_BYTES_MAX} can be handed over"
            )
        if len(state) > SNAPSHOT_BYTES_MUCH:
            self._tell(f"a snapshot of {len(state)} bytes; at most {SNAPSHOT_BYTES_MAX} can be")
        snapshot = Snapshot(
            SNAPSHOT_VERSION, self._group, (*take.marker,), take.sessions, bytes(state)
        )
        return Given(take.marker, encode_snapshot(snapshot))

    def _decline(self, marker: MarkerId, why: str) -> None:
        self._tell(f"a replica that comes back gets no state from here: {why}")
        self._given.append(Given(marker, b"", why[:WHY_MAX]))

    def _tell(self, what: str) -> None:
        print(f"{self._group}: {what}", file=sys.stderr, flush=True)

    @property
    def is_giving(self) -> bool:
        return bool(self._giving or self._given)

    def give(self) -> None:
        """What there is room for."""
        while self._given:
            marker, data, why = self._given.popleft()
            if why:
                self._send(marker.joiner, encode([Declined(marker.life, marker.attempt, why)]))
            else:
                self._giving[marker.joiner] = _Giving(marker, data)
        for joiner, giving in list(self._giving.items()):
            for _ in range(CHUNKS_PER_TURN):
                if giving.next == giving.total or not self._room_for(joiner):
                    break
                self._send(joiner, encode([giving.chunk()]))
            if giving.next == giving.total or self._detector.is_suspected(joiner):
                del self._giving[joiner]

    def declined(self, record: Declined, now: int) -> None:
        mid = MarkerId(self._detector.me, record.incarnation, record.attempt)
        self._do(self._joiner.declined(mid, record.why, now, self._donors()))

    def chunk(self, chunk: SnapshotChunk, now: int) -> Sessions | None:
        mid = MarkerId(self._detector.me, chunk.incarnation, chunk.attempt)
        part = Part(mid, chunk.index, chunk.count, chunk.data)
        return self._do(self._joiner.part(part, now, self._donors()))

    def _do(self, effects: list[Effect[Kept]]) -> Sessions | None:
        found = None
        for effect in effects:
            match effect:
                case SendMarker(mid, donor):
                    self._enter(Marker(mid.joiner, mid.life, mid.attempt, donor))
                case GiveUp(reason):
                    raise NoQuorum(
                        f"{reason}: if a majority of {self._group} died at the same time, its "
                        "state is lost: start the cluster anew (shmcast down, then up)"
                    )
                case (snapshot, kept):
                    self._put(Restore(snapshot.state))
                    found = Sessions.of_rows([(r[0], r[1], r[2], r[3]) for r in snapshot.sessions])
                    self._kept = kept
        return found

    def deliver_kept(self) -> None:
        kept, self._kept = self._kept, []
        for place, (request, dest) in kept:
            self._deliver(request, place, dest)
