"""What the logs say, once for the judge (verdict.py) and once as a recorded run (checks/trace.py).

The record is of what applications did and got, each with its own clock reading, not of what the
code under test says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from shmcast.cli.demo.cast import Actor
from shmcast.cli.demo.logs import DELIVERY, DESTINATIONS, Log, What
from shmcast.cli.demo.replica import lives_of, log_of
from shmcast.cli.demo.troupe import ENGINE, Troupe
from shmcast.cli.demo.verdict import BEFORE_ALL, Got, Key, Sent, Stamp, longest_pause_ns
from shmcast.cli.demo.worker import BOXES, GROUPS
from shmcast.multicast.checks.table import REJOIN
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    END,
    FAULT,
    MULTICAST,
    RESTART,
    START,
    Trace,
    TraceEvent,
)
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.traces.order import in_causal_order
from shmcast.pipeline.latency import ORDERED

SCENE = 1 << 20  # as a process of a record: what happens to copies
_UNDECIDABLE = ("genuineness", *REJOIN)  # applications log neither transmissions nor transfers
_OF_MAILBOXES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "uniform-fifo",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
)
_GROUPS_OF = {to: tuple(bit for bit in (0, 1) if to >> bit & 1) for to in DESTINATIONS}
_LAST_TIE = 1 << 62


@dataclass(frozen=True)
class Attempt:
    number: int
    to: int
    began_ns: int
    what: What  # BEGUN: its sender did not live to see more
    time: int
    ended_ns: int


@dataclass(frozen=True)
class Sender:
    name: str
    number: int
    ready_ns: int
    killed_ns: int
    attempts: list[Attempt]

    def sent(self) -> Sent:
        return Sent(
            self.number,
            {a.number: a.time for a in self.attempts if a.what is What.ACKNOWLEDGED},
            {a.number: a.to for a in self.attempts},
            {a.number for a in self.attempts if a.what is What.BEGUN},
        )

    def count(self, what: What) -> int:
        return sum(a.what is what for a in self.attempts)

    def events(self) -> list[TraceEvent]:
        """A refused multicast counts as never made: whoever delivers it has invented it."""
        rows = []
        for a in self.attempts:
            if a.what not in (What.ACKNOWLEDGED, What.BEGUN):
                continue
            key, dest = (self.number, a.number + 1), _GROUPS_OF[a.to]
            rows.append(_event(a.began_ns, self.number, 0, MULTICAST, key, dest))
            if a.what is What.ACKNOWLEDGED:
                rows.append(_event(a.ended_ns, self.number, 0, ORDERED, key, dest))
        return _framed(self.number, 0, self.ready_ns, self.killed_ns, rows)


@dataclass(frozen=True)
class Receiver:
    """One life of a member: of a mailbox, or of a group of the cluster."""

    name: str
    number: int
    life: int
    place: str
    bit: int
    ready_ns: int  # 0: unknown
    killed_ns: int
    since: Stamp | None  # None: from the first one on that it delivered
    log: Log

    @cached_property
    def keys(self) -> list[Key]:
        return list(zip(self._rows["tag"].tolist(), self._rows["number"].tolist(), strict=True))

    @cached_property
    def stamps(self) -> list[Stamp]:
        return list(zip(self._rows["time"].tolist(), self._rows["tie"].tolist(), strict=True))

    @cached_property
    def times_ns(self) -> list[int]:
        found: list[int] = self._rows["at_ns"].tolist()
        return found

    @cached_property
    def _rows(self) -> npt.NDArray[Any]:
        return self.log.all()

    def got(self) -> Got:
        since = self.since
        if since is None:
            first = self.stamps[0] if self.stamps else (_LAST_TIE, 0)
            since = (first[0], first[1] - 1)
        stayed = not self.killed_ns
        return Got(self.name, self.place, self.bit, since, stayed, self.keys, self.stamps)

    def events(self) -> list[TraceEvent]:
        rows = [
            _event(at, self.number, self.life, DELIVER, (tag, n + 1))._replace(ts=stamp)
            for at, (tag, n), stamp in zip(self.times_ns, self.keys, self.stamps, strict=True)
        ]
        began = self.ready_ns or (rows[0].real_t if rows else self.killed_ns)
        return _framed(self.number, self.life, began, self.killed_ns, rows)


def _event(  # noqa: PLR0917
    at_ns: int,
    number: int,
    life: int,
    kind: str,
    message: Key | None = None,
    dest: tuple[int, ...] = (),
) -> TraceEvent:
    return TraceEvent(-1, at_ns, at_ns, number, life, 0, kind, msg=message, dest=dest)


def _framed(
    number: int, life: int, began_ns: int, killed_ns: int, rows: list[TraceEvent]
) -> list[TraceEvent]:
    """A life as it is on record: its start, what it did, and how it ended."""
    framed = [_event(began_ns, number, life, START)]
    if life:
        framed.append(_event(began_ns, number, life, RESTART))
    framed += rows
    last_ns = max(killed_ns, framed[-1].real_t)
    framed.append(_event(last_ns, number, life, CRASH if killed_ns else END))
    if killed_ns:
        framed[-1] = framed[-1]._replace(detail="SIGKILL")
    return [event._replace(lseq=n) for n, event in enumerate(framed, 1)]


@dataclass(frozen=True)
class Story:
    """One system of the demo, from beginning to end."""

    name: str
    protocol: str
    promises: tuple[str, ...]
    bound_ns: int | None
    receivers: list[Receiver]
    senders: list[Sender]
    copies_killed: list[tuple[int, str]]  # when, and what

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        found: dict[int, set[int]] = {}
        for receiver in self.receivers:
            found.setdefault(receiver.bit, set()).add(receiver.number)
        return tuple(tuple(sorted(found[bit])) for bit in sorted(found))

    @property
    def _everybody(self) -> list[Receiver | Sender]:
        return [*self.receivers, *self.senders]

    @cached_property
    def names(self) -> dict[int, str]:
        named = {who.number: who.name for who in self._everybody}
        return named | ({SCENE: "copies"} if self.copies_killed else {})

    @cached_property
    def trace(self) -> Trace:
        """Whole: a killed process had written down everything but a send's end."""
        rows = [event for who in self._everybody for event in who.events()]
        if self.copies_killed:
            faults = [
                _event(at, SCENE, 0, FAULT)._replace(detail=what) for at, what in self.copies_killed
            ]
            rows += _framed(SCENE, 0, faults[0].real_t, 0, faults)
        clients = tuple(sorted({sender.number for sender in self.senders}))
        return Trace(self.groups, clients, in_causal_order(rows), closed=True)

    def pauses_ns(self, start_ns: int, end_ns: int, places: Iterable[str]) -> list[int]:
        wanted = set(places)
        return [
            longest_pause_ns(receiver.times_ns, start_ns, end_ns)
            for receiver in self.receivers
            if receiver.place in wanted
            and not receiver.killed_ns
            and 0 < receiver.ready_ns <= start_ns
        ]


def _sender(actor: Actor) -> Sender:
    begun: dict[int, tuple[int, int]] = {}
    attempts: dict[int, Attempt] = {}
    for number, what, to, time, at_ns in actor.log.all().tolist():
        if what == What.BEGUN:
            begun[number] = (to, at_ns)
            attempts[number] = Attempt(number, to, at_ns, What.BEGUN, 0, 0)
        elif number in begun:
            attempts[number] = Attempt(number, to, begun[number][1], What(what), time, at_ns)
    part = actor.part
    return Sender(part.name, part.number, actor.ready_ns, actor.killed_ns, list(attempts.values()))


def mailboxes(
    actors: list[Actor], began_ns: int, bound_ns: int, copies_killed: list[tuple[int, str]]
) -> Story:
    """The record begins when everybody is there."""
    receivers = [
        Receiver(
            a.name, a.part.number, a.part.life, a.box, BOXES.index(a.box),
            max(a.ready_ns, began_ns), a.killed_ns, (a.ready_ns, _LAST_TIE), a.log,
        )
        for a in actors
        if a.part.role == "receive"
    ]  # fmt: skip
    senders = [_sender(a) for a in actors if a.part.role == "send"]
    return Story("mailboxes", "eager", _OF_MAILBOXES, bound_ns, receivers, senders, copies_killed)


def cluster(actors: list[Actor], troupe: Troupe, folder: Path, began_ns: int) -> Story:
    receivers = []
    for replica in troupe.config.replicas:
        lives = lives_of(folder, replica.name)
        for life in lives:
            log = Log(log_of(folder, replica.name, life), DELIVERY)
            killed_ns = troupe.killed.get((replica.name, life), 0)
            if not killed_ns and life != lives[-1]:  # it ended by itself, and was started again
                killed_ns = max([1, *log.all()["at_ns"].tolist()])
            receivers.append(
                Receiver(
                    replica.name, replica.proc, life, replica.group, GROUPS.index(replica.group),
                    0 if life else began_ns, killed_ns, None if life else BEFORE_ALL, log,
                )
            )  # fmt: skip
    senders = [_sender(a) for a in actors if a.part.role == "ask"]
    promises = tuple(p for p in lookup(ENGINE).promises if p not in _UNDECIDABLE)
    return Story("cluster", ENGINE, promises, None, receivers, senders, [])
