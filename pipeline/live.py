"""What can be said of a run while it goes on, with bounded memory. Pure: rows in, findings out.

- order: the deliveries of a life show strictly increasing global timestamps.
- timestamp: a message shows the same one wherever it is delivered. Where both hold, one total order
  exists and nothing is delivered twice; the timestamp is a witness, not trusted.
- double: the same message twice at one life, as far as it is remembered.
- late: a delivery more than Δ after its multicast, which is the first try of a message.
- overdue: Δ is over, and nobody has delivered the message.

What is missing on disk is found by arrivals.py.

Memory holds the latest `messages_max` messages. What falls out of it unjudged is counted, never
taken for right. The whole verdict is `shmcast verify`'s, when the run is over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from shmcast.multicast.checks.trace import CRASH, DELIVER, END, LOST, MULTICAST, REFUSE, START

Life = tuple[int, int]
Key = tuple[int, int]


class LiveRow(NamedTuple):
    proc: int
    incarnation: int
    lseq: int
    real_t: int
    kind: str
    msg: Key | None
    ts: tuple[int, int] | None


class Finding(NamedTuple):
    kind: str  # order, timestamp, double, late, overdue, lost, damaged, missing
    proc: int
    incarnation: int
    lseq: int
    text: str


@dataclass(slots=True)
class _Message:
    multicast_t: int | None = None
    ts: tuple[int, int] | None = None
    delivered: dict[Life, int] = field(default_factory=dict)  # real_t; one entry per life
    judged: set[Life] = field(default_factory=set)
    late: set[Life] = field(default_factory=set)


@dataclass(slots=True)
class _LifeState:
    lseq: int = 0
    ts: tuple[int, int] | None = None
    msg: Key | None = None
    is_over: bool = False
    has_crashed: bool = False


class Live:
    def __init__(self, bound_ns: int | None, *, messages_max: int = 200_000) -> None:
        self._bound_ns = bound_ns
        self._most = messages_max
        self._lives: dict[Life, _LifeState] = {}
        self._messages: OrderedDict[Key, _Message] = OrderedDict()
        self._waiting: dict[Key, LiveRow] = {}  # multicast, and delivered by nobody yet
        self.newest_t = 0
        self.missing: list[int] = []  # members of which nothing is on record so far
        self.events = self.deliveries = 0
        self.unjudged = 0  # deliveries whose multicast was not seen while they were remembered,
        # and multicasts forgotten before their time was over
        self.unstamped = 0  # deliveries without a timestamp: their order is not certified here
        self.disordered = 0  # rows that came behind later ones of their life: order not judged

    def is_over(self, life: Life) -> bool:
        """Nothing more will come of it."""
        return life in self._lives and self._lives[life].is_over

    def feed(self, rows: Iterable[LiveRow]) -> list[Finding]:
        """Rows of one life come in the order of `lseq`; lives in any order."""
        found: list[Finding] = []
        for row in rows:
            self.events += 1
            self.newest_t = max(self.newest_t, row.real_t)
            life = self._lives.setdefault((row.proc, row.incarnation), _LifeState())
            if row.kind == CRASH:
                life.is_over = life.has_crashed = True  # a witness's row has a number of its own
                continue
            in_order = row.lseq > life.lseq
            self.disordered += not in_order
            life.lseq = max(row.lseq, life.lseq)
            life.is_over = row.kind == END or (life.is_over and row.kind != START)
            found += self._judged(row, life if in_order else _LifeState())
        self._forget()
        return found

    def _judged(self, row: LiveRow, life: _LifeState) -> list[Finding]:
        if row.kind == LOST:
            return [_finding("lost", row, "rows were lost: this record is not the whole")]
        if row.msg is None:
            return []
        if row.kind == MULTICAST:
            return self._multicast(row, row.msg)
        if row.kind == REFUSE:
            self._waiting.pop(row.msg, None)
        return self._delivery(row, row.msg, life) if row.kind == DELIVER else []

    def overdue(self, now_t: int) -> list[Finding]:
        """What should have been delivered by then, if all rows until then were fed."""
        if self._bound_ns is None:
            return []
        found = []
        for key, row in list(self._waiting.items()):
            waited_ns = now_t - row.real_t
            if self._lives[row.proc, row.incarnation].has_crashed:
                del self._waiting[key]  # nobody is bound to deliver it
            elif waited_ns > self._bound_ns:
                del self._waiting[key]
                text = (
                    f"message {key}: {waited_ns} ns after its multicast nobody has delivered it, "
                    f"the bound is {self._bound_ns} ns"
                )
                found.append(_finding("overdue", row, text))
        return found

    def _message(self, key: Key) -> _Message:
        return self._messages.setdefault(key, _Message())

    def _multicast(self, row: LiveRow, key: Key) -> list[Finding]:
        message = self._message(key)
        known_t = message.multicast_t
        if known_t is not None and known_t <= row.real_t:
            return []  # a retry
        message.multicast_t = row.real_t
        message.judged &= message.late
        if not message.delivered:
            self._waiting[key] = row
        return self._late(key)

    def _delivery(self, row: LiveRow, key: Key, life: _LifeState) -> list[Finding]:
        self.deliveries += 1
        found = self._stamp(row, key, life)
        self._waiting.pop(key, None)
        message = self._message(key)
        who = (row.proc, row.incarnation)
        if who in message.delivered:
            found.append(_finding("double", row, f"message {key} is delivered a second time"))
        else:
            message.delivered[who] = row.real_t
            found += self._late(key)
        return found

    def _stamp(self, row: LiveRow, key: Key, life: _LifeState) -> list[Finding]:
        if row.ts is None:
            self.unstamped += 1
            return []
        found = []
        message = self._message(key)
        if message.ts is not None and message.ts != row.ts:
            text = f"message {key} shows timestamp {row.ts} here and {message.ts} elsewhere"
            found.append(_finding("timestamp", row, text))
        message.ts = message.ts or row.ts
        if life.ts is not None and row.ts <= life.ts:
            text = f"message {key} at {row.ts} comes after {life.msg} at {life.ts}"
            found.append(_finding("order", row, text))
        life.ts, life.msg = row.ts, key
        return found

    def _late(self, key: Key) -> list[Finding]:
        """Judges each delivery once, as soon as both ends are known."""
        message = self._messages[key]
        if message.multicast_t is None:
            return []
        found = []
        for (proc, incarnation), delivered_t in message.delivered.items():
            took_ns = delivered_t - message.multicast_t
            is_new = (proc, incarnation) not in message.judged
            message.judged.add((proc, incarnation))
            if is_new and self._bound_ns is not None and took_ns > self._bound_ns:
                message.late.add((proc, incarnation))
                text = f"message {key} took {took_ns} ns, the bound is {self._bound_ns} ns"
                found.append(Finding("late", proc, incarnation, 0, text))
        return found

    def _forget(self) -> None:
        while len(self._messages) > self._most:
            key, message = self._messages.popitem(last=False)
            self.unjudged += len(message.delivered) - len(message.judged)
            self.unjudged += self._waiting.pop(key, None) is not None


def _finding(kind: str, row: LiveRow, text: str) -> Finding:
    return Finding(kind, row.proc, row.incarnation, row.lseq, text)
