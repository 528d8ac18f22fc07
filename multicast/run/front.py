"""The entry: takes clients' requests into the protocol, several at a time, and answers them. Pure.

Requests with the same destinations that wait at the same time make one *composite*, which the
protocol orders as one message. While fewer than `PIPELINE` composites for some destinations are on
their way, a request leaves at once; beyond that they gather. So a lone request is never delayed,
and under load one round of the protocol carries many.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise

from shmcast.multicast.protocols.core import GroupId, Message, MessageId, ProcessId
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_session import EPOCH_SHIFT
from shmcast.multicast.run.api import Place
from shmcast.multicast.run.records import (
    REQUESTS_MAX,
    Busy,
    Marker,
    Record,
    Redirect,
    Reply,
    Request,
    encode,
)
from shmcast.multicast.run.sessions import Sessions

PIPELINE = 2
COMPOSITE_BYTES_MAX = 256 << 10
PENDING_MAX = 8192  # requests that wait or are on their way
PENDING_BYTES_MAX = 32 << 20  # of their payloads, and one more
UNDER_WAY_BYTES_MAX = 4 << 20  # of composites, and one more: a new leader must gather all of them


Dest = tuple[GroupId, ...]
Entered = Request | Marker


@dataclass(slots=True)
class Front:
    topology: Topology
    me: ProcessId
    group: GroupId
    incarnation: int
    pipeline: int = PIPELINE
    requests_max: int = REQUESTS_MAX  # in one composite
    waiting: dict[Dest, deque[Entered]] = field(default_factory=dict)
    pending: dict[tuple[int, int], int] = field(default_factory=dict)  # (client, seq): bytes
    pending_bytes: int = 0
    under_way: dict[MessageId, tuple[Dest, int]] = field(default_factory=dict)  # and its bytes
    under_way_bytes: int = 0
    per_dest: Counter[Dest] = field(default_factory=Counter)
    composites: int = 0

    def request(self, request: Request, sessions: Sessions, accepting: bool) -> Record | None:
        """What to answer at once, if anything."""
        key = (request.client, request.seq)
        if (elsewhere := self._misdirected(request.dest)) is not None:
            return Redirect(*key, elsewhere)
        place = sessions.place(*key)
        if place is not None:
            return Reply(*key, *place)
        if key in self.pending:
            return None
        if not accepting or self._is_full():
            return Busy(*key)
        self.pending[key] = len(request.payload)
        self.pending_bytes += len(request.payload)
        self.waiting.setdefault(request.dest, deque()).append(request)
        return None

    def _is_full(self) -> bool:
        return len(self.pending) >= PENDING_MAX or self.pending_bytes > PENDING_BYTES_MAX

    def marker(self, marker: Marker) -> None:
        self.waiting.setdefault((self.group,), deque()).append(marker)

    def _misdirected(self, dest: Dest) -> ProcessId | None:
        groups = len(self.topology.groups)
        wrong = any(g >= groups for g in dest) or any(a >= b for a, b in pairwise(dest))
        if wrong:  # a client of ours sorts and checks; to anyone else we are of no use
            return self.me
        return None if self.group in dest else self.topology.groups[dest[0]][0]

    def take(self) -> list[Message]:
        """The composites that may leave now."""
        found = []
        for dest in list(self.waiting):
            queue = self.waiting[dest]
            while queue and self.per_dest[dest] < self.pipeline and self._has_room():
                found.append(self._composite(dest, queue))
            if not queue:
                del self.waiting[dest]
        return found

    def _has_room(self) -> bool:
        return self.under_way_bytes <= UNDER_WAY_BYTES_MAX

    def _composite(self, dest: Dest, queue: deque[Entered]) -> Message:
        taken: list[Entered] = []
        size = 0
        while queue and len(taken) < self.requests_max and size < COMPOSITE_BYTES_MAX:
            entered = queue.popleft()
            size += len(entered.payload) if isinstance(entered, Request) else 0
            taken.append(entered)
        self.composites += 1
        mid = MessageId(self.me, self.incarnation << EPOCH_SHIFT | self.composites)
        self.under_way[mid] = dest, size
        self.under_way_bytes += size
        self.per_dest[dest] += 1
        return Message(mid, dest, encode(taken))

    def delivered(self, mid: MessageId) -> None:
        """One of our composites has come back, in order."""
        found = self.under_way.pop(mid, None)
        if found is not None:
            dest, size = found
            self.under_way_bytes -= size
            self.per_dest[dest] -= 1
            if not self.per_dest[dest]:
                del self.per_dest[dest]

    def answer(self, client: int, seq: int, place: Place) -> Reply | None:
        """A request was delivered, through whichever entry: does its client wait here?"""
        size = self.pending.pop((client, seq), None)
        if size is None:
            return None
        self.pending_bytes -= size
        return Reply(client, seq, *place)


def place_of(time: int, group: GroupId, index: int) -> Place:
    return Place(time, group << 10 | index)
