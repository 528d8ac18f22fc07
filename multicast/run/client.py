"""A client of a cluster: hands a request to one replica, its entry, and waits for the place.

Any living replica of a destination group can be the entry; the leader of the first one is asked
first. If the entry dies, or does not answer in time, another one is asked for the same request:
(client, sequence) names it for ever, so it is delivered once. The next request leaves when this one
is answered: a client's requests are delivered in the order of its calls.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Self

from shmcast.errors import (
    Corrupt,
    DeadlineMissed,
    Incompatible,
    MailboxFull,
    MessageTooLarge,
    NoQuorum,
)
from shmcast.multicast.checks.trace import MULTICAST
from shmcast.multicast.protocols.core import GroupId, ProcessId
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.run import records
from shmcast.multicast.run.api import Ordered, Place
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.inbox import (
    Inbox,
    Outlet,
    client_inbox_name,
    head_of,
    inbox_name,
    lanes_for_replicas,
)
from shmcast.multicast.run.life import Life, PeerLife
from shmcast.multicast.run.options import for_messages_of
from shmcast.multicast.run.recording import ORDERED, end_of_client, recorder
from shmcast.multicast.run.transport import CLIENTS_FROM

DEFAULT_TIMEOUT_S = 5.0
SLICE_NS = 20_000_000  # how soon the death of an entry is noticed
BUSY_NS = 2_000_000
_SLOT_BYTES = 1024
_CAPACITY = 16


def _deadline(timeout: float | None) -> int:
    limit_s = DEFAULT_TIMEOUT_S if timeout is None else timeout
    return time.monotonic_ns() + int(limit_s * 1e9)


def _records_of(data: bytes) -> list[records.Record]:
    """None of a frame that no replica can have sent: the request is simply asked for again."""
    try:
        return records.decode(data)
    except (Corrupt, Incompatible):
        return []


class Client:
    """Threads may share it; they take turns. For several requests at once use several clients."""

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.id = random.SystemRandom().randrange(CLIENTS_FROM, 1 << 31)
        self._seq = 0
        self._full = 0  # replicas that had no lane for us when all were asked last
        self._unanswered: records.Request | None = None
        self._lock = threading.Lock()
        self._head = head_of(self.id, 0)
        self._inbox = Inbox(
            client_inbox_name(config.name, self.id),
            copies=config.copies,
            slot_bytes=_SLOT_BYTES,
            capacity=_CAPACITY,
            senders=min(64, len(config.replicas) + 2),
        )
        self._peers = {r.proc: PeerLife(config, r.proc) for r in config.replicas}
        self._outlets: dict[ProcessId, tuple[int, Outlet]] = {}
        self._entry: dict[tuple[int, ...], ProcessId] = {}  # that answered last
        options = for_messages_of(config.options, config.message_size)
        self._patience_ns = options["request_ticks"] * 1000
        self._trace = recorder(config, self.id)

    def multicast(
        self, payload: bytes, groups: Iterable[str], *, timeout: float | None = None
    ) -> Ordered:
        dest = tuple(sorted({self.config.group_id(name) for name in groups}))
        if not dest:
            raise ValueError("name at least one group")
        if len(payload) > self.config.message_size:
            raise MessageTooLarge(
                f"{len(payload)} bytes; cluster {self.config.name} takes at most "
                f"{self.config.message_size}: set message_size in {self.config.path.name}"
            )
        deadline = _deadline(timeout)
        with self._lock:
            if self._unanswered is not None:
                self._ask(self._unanswered, deadline)
            self._seq += 1
            request = records.Request(self.id, self._seq, dest, bytes(payload))
            if self._trace is not None:
                self._trace.event(MULTICAST, message_id=(self.id, self._seq), dest=dest)
            return self._ask(request, deadline)

    def retry(self, *, timeout: float | None = None) -> Ordered:
        """Asks again for the request that was not answered in time."""
        with self._lock:
            if self._unanswered is None:
                raise ValueError("every multicast of this client was answered")
            return self._ask(self._unanswered, _deadline(timeout))

    def _ask(self, request: records.Request, deadline: int) -> Ordered:
        self._unanswered = request
        data = records.encode([request])
        while True:
            self._full = 0
            asked = False
            for entry in self._entries(request.dest):
                outlet = self._outlet(entry, answered=entry == self._entry.get(request.dest))
                if outlet is None or not outlet.is_open():
                    self._full += outlet is not None and not outlet.gone
                    continue
                asked = True
                outlet.send(data)
                place = self._answer(request, entry, outlet, data, deadline)
                if place is not None:
                    self._entry[request.dest] = entry
                    self._unanswered = None
                    if self._trace is not None:
                        key = (self.id, request.seq)
                        self._trace.event(ORDERED, message_id=key, dest=request.dest, ts=place)
                    return Ordered(place, request.seq)
                self._entry.pop(request.dest, None)
            if (left := deadline - time.monotonic_ns()) <= 0:
                raise self._too_late(request)
            if not asked:
                self._inbox.receive(min(SLICE_NS, left))

    def _entries(self, dest: tuple[int, ...]) -> Iterator[ProcessId]:
        """Whom to ask, one after the other."""
        if dest in self._entry:
            yield self._entry[dest]
        lives = self._living(p for g in dest for p in self.config.topology.groups[g])
        leading = sorted(lives.values(), key=lambda life: -life.epoch)
        leaders = [life.leader for life in leading if life.leader in lives]
        yield from dict.fromkeys([*leaders[:1], *lives])

    def _living(self, processes: Iterable[ProcessId]) -> dict[ProcessId, Life]:
        found = {}
        for process in processes:
            life = self._peers[process].read()
            if life is not None and life.has_begun and not self._peers[process].is_dead(life):
                found[process] = life
        return found

    def _outlet(self, process: ProcessId, *, answered: bool) -> Outlet | None:
        """One that answered last is asked again without a look at its record: if it has died since,
        `_answer` sees it."""
        known = self._outlets.get(process)
        if answered and known is not None and not known[1].gone:
            return known[1]
        life = self._peers[process].read()
        if life is None or self._peers[process].is_dead(life):
            return None
        if known is None or known[0] != life.incarnation or known[1].gone:
            if known is not None:
                known[1].close()
            name = inbox_name(self.config.name, process, life.incarnation)
            known = self._outlets[process] = (life.incarnation, self._way_to(name))
        return known[1]

    def _way_to(self, name: str) -> Outlet:
        return Outlet(name, self._head, spare=lanes_for_replicas(self.config))

    def _answer(
        self,
        request: records.Request,
        entry: ProcessId,
        outlet: Outlet,
        data: bytes,
        deadline: int,
    ) -> Place | None:
        """None: ask another one."""
        patience = min(deadline, time.monotonic_ns() + self._patience_ns)
        while (now := time.monotonic_ns()) < patience and not outlet.gone:
            outlet.flush()
            for frame in self._inbox.receive(min(SLICE_NS, patience - now)):
                for record in _records_of(frame.data):
                    match record:
                        case records.Reply(_, seq, at, tie) if seq == request.seq:
                            return Place(at, tie)
                        case records.Busy(_, seq) if seq == request.seq:
                            self._inbox.receive(min(BUSY_NS, max(0, patience - now)))
                            outlet.send(data)
                        case records.Redirect(_, seq) if seq == request.seq:
                            return None
            life = self._peers[entry].read()
            asked = self._outlets[entry][0]
            if life is None or life.incarnation != asked or self._peers[entry].is_dead(life):
                return None
        return None

    def _too_late(self, request: records.Request) -> Exception:
        for g in request.dest:
            missing = self._missing(g)
            if missing:
                return NoQuorum(missing)
        if not self._living(p for g in request.dest for p in self.config.topology.groups[g]):
            names = " or ".join(self.config.groups[g].name for g in request.dest)
            return NoQuorum(
                f"no replica of {names} lives on this host, and a client asks those of its own "
                "host: start one here (shmcast up), or run the client where one is; then retry()"
            )
        if self._full:
            return MailboxFull(
                f"{self._full} replicas have no place left for another client: close clients that "
                "are not needed, or let threads share one, then retry()"
            )
        return DeadlineMissed(
            f"multicast {request.seq} was not ordered before its deadline; it may still be, once "
            "at most: retry() asks again, and so does the next multicast, first of all"
        )

    def _missing(self, g: GroupId) -> str:
        """What this group has too little of. Replicas that never lived on this host may live on
        theirs."""
        group, members = self.config.groups[g], self.config.topology.groups[g]
        living = self._living(members)
        elsewhere = 0
        if not self.config.one_host:
            elsewhere = sum(self._peers[p].read() is None for p in members)
        needed = 1 if self.config.engine == "dab" else majority(len(members))
        if len(living) + elsewhere < needed:
            return (
                f"group {group.name} has {len(living)} of {len(members)} replicas alive, fewer "
                "than a majority: start them (shmcast up), then retry()"
            )
        complete = sum(life.complete for life in living.values())
        if complete + elsewhere < needed:
            return (
                f"group {group.name} has its state at {complete} of {len(members)} replicas, fewer "
                "than a majority; the others came back and ask for it: retry(), or, if a majority "
                "died at the same time, start the cluster anew (shmcast down, then up)"
            )
        return ""

    def close(self) -> None:
        for _, outlet in self._outlets.values():
            outlet.close()
        for peer in self._peers.values():
            peer.close()
        self._outlets.clear()
        self._inbox.close()
        if self._trace is not None:
            end_of_client(self._trace, self.id, gave_up=self._unanswered is not None)
            self._trace = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
