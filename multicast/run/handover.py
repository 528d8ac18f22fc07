"""State transfer at one replica: takes another's state when it comes back, gives its own to others.

transfer.py is the protocol. This is its driver inside the loop: markers travel in composites,
snapshots as chunks outside the order. The application's part is done by its own thread, between two
deliveries: `Take` and `Restore` stand in its queue like deliveries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from shmcast.errors import NoQuorum
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run.api import Delivery, Place
from shmcast.multicast.run.detector import Detector
from shmcast.multicast.run.records import Marker, Request, SnapshotChunk, encode
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
    parts_of,
)

CHUNK_BYTES = 64 << 10
SNAPSHOT_BYTES_MAX = 32 << 20
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
        put: Callable[[Item], None],
        deliver: Callable[[Request, Place, tuple[int, ...]], None],
    ) -> None:
        self._detector, self._group = detector, group
        self._enter, self._send, self._put, self._deliver = enter, send, put, deliver
        limits = Limits(PATIENCE_TICKS, snapshot_bytes=SNAPSHOT_BYTES_MAX)
        self._joiner: Joiner[Kept] = Joiner(detector.me, incarnation, group, limits)
        self.given: deque[tuple[Take, bytes]] = deque()  # by the application's thread

    def found(self) -> None:
        """This replica begins without a state: there is none to be had."""
        self._joiner.found()

    @property
    def is_complete(self) -> bool:
        return self._joiner.phase is Phase.COMPLETE

    def tick(self, now: int) -> Sessions | None:
        """Sessions to go on with, once the state has come."""
        while self.given:
            self._give(*self.given.popleft())
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

    def _give(self, take: Take, state: bytes) -> None:
        mid = take.marker
        snapshot = Snapshot(
            SNAPSHOT_VERSION,
            self._group,
            (mid.joiner, mid.life, mid.attempt),
            take.sessions,
            state,
        )
        data = encode_snapshot(snapshot)
        for part in parts_of(data, mid, CHUNK_BYTES):
            chunk = SnapshotChunk(mid.life, mid.attempt, part.number, part.total, part.data)
            self._send(mid.joiner, encode([chunk]))

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
