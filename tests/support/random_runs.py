"""Small random runs, right and wrong in every way: crashes, lives, retries, strays, open ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    MULTICAST,
    RECEIVE,
    RESTART,
    Gaps,
    MessageKey,
    Participant,
    Trace,
    TraceEvent,
)
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.schema import WITNESS_LSEQ

SHAPES = (((0, 1, 2),), ((0, 1), (2, 3)), ((0, 1), (2,), (3, 4)), ((0, 1, 2), (2, 3)))
CLIENT = 9


@dataclass
class Maker:
    """One schedule. `mess` is the chance that a step does something wrong."""

    rng: Random
    groups: tuple[tuple[int, ...], ...]
    mess: float
    rows: list[TraceEvent] = field(default_factory=list)
    lseq: Counter[int] = field(default_factory=Counter)
    lives: Counter[int] = field(default_factory=Counter)
    dead: set[int] = field(default_factory=set)
    sent: dict[MessageKey, tuple[int, ...]] = field(default_factory=dict)
    order: list[MessageKey] = field(default_factory=list)
    has: dict[int, list[MessageKey]] = field(default_factory=dict)

    def row(self, proc: int, kind: str, msg: MessageKey | None = None, **more: object) -> None:
        self.lseq[proc] += 1
        now = len(self.rows) * 10 + self.rng.randrange(5)
        dest = self.sent.get(msg, ()) if msg is not None and kind != RECEIVE else ()
        base = TraceEvent(-1, now, now + proc, proc, self.lives[proc], self.lseq[proc], kind)
        self.rows.append(base._replace(msg=msg, dest=dest, **more))

    def multicast(self, proc: int) -> None:
        if self.rng.random() < self.mess / 2 and self.order and self.order[-1][0] == proc:
            self.row(proc, MULTICAST, self.order[-1])  # a retry
            return
        key = self.next_of(proc)
        count = self.rng.randint(1, len(self.groups))
        self.sent[key] = tuple(sorted(self.rng.sample(range(len(self.groups)), count)))
        self.order.append(key)
        self.row(proc, MULTICAST, key)

    def next_of(self, proc: int) -> MessageKey:
        return (proc, 1 + sum(1 for s, _ in self.sent if s == proc))

    def lines(self) -> list[int]:
        return sorted({p for group in self.groups for p in group})

    def deliver(self, proc: int) -> None:
        mine = self.has.setdefault(proc, [])
        if self.rng.random() < self.mess / 3:
            wanted = [self.next_of(self.rng.choice([*self.lines(), CLIENT]))]  # perhaps sent later
        elif self.rng.random() < self.mess:
            pool = [*self.order, (CLIENT, 77)] if self.rng.random() < 0.1 else self.order
            wanted = [m for m in pool if self.rng.random() < 0.5]
        else:
            wanted = [
                m for m in self.order
                if m not in mine and any(proc in self.groups[g] for g in self.sent[m])
            ]  # fmt: skip
        if wanted:
            key = wanted[0]
            mine.append(key)
            self.row(proc, DELIVER, key, ts=self.stamp(key))

    def stamp(self, key: MessageKey) -> tuple[int, int] | None:
        place = self.order.index(key) if key in self.order else 50
        if self.rng.random() < self.mess / 4:
            return None if self.rng.random() < 0.3 else (place + 1, 1)
        return (place, 0)

    def hear(self, proc: int) -> None:
        if self.order:
            key = self.rng.choice(self.order)
            right = any(proc in self.groups[g] for g in self.sent[key])
            if right or self.rng.random() < self.mess:
                self.row(proc, RECEIVE, about=(key,), peer=key[0], detail="Wire")

    def fail(self, proc: int) -> None:
        if self.rng.random() < 0.3:
            self.row(proc, FAULT)
            return
        self.row(proc, CRASH)
        if self.rng.random() < 0.6:
            self.lives[proc] += 1
            self.row(proc, RESTART)
        else:
            self.dead.add(proc)


def random_trace(seed: int) -> Trace:
    rng = Random(seed)
    groups = rng.choice(SHAPES)
    make = Maker(rng, groups, rng.choice((0.0, 0.0, 0.03, 0.1, 0.3)))
    members = sorted({p for group in groups for p in group})
    crashes = rng.choice((0.0, 0.0, 0.05))
    genuine = rng.random() < 0.7
    for _ in range(rng.randint(0, 40)):
        proc = rng.choice([*members, CLIENT])
        if proc in make.dead:
            continue
        what = rng.random()
        if what < 0.25:
            make.multicast(proc)
        elif what < 0.85 and proc != CLIENT:
            make.deliver(proc)
        elif genuine and what < 0.95:
            make.hear(proc)
        elif rng.random() < crashes and proc != CLIENT:
            make.fail(proc)
    if rng.random() < 0.6:  # to the end, more or less
        for proc in members:
            for _ in range(len(make.order)):
                if proc not in make.dead and rng.random() > make.mess / 3:
                    make.deliver(proc)
    rows = in_causal_order(make.rows)
    return Trace(groups, (CLIENT,), rows, closed=rng.random() < 0.8)


def random_kills(seed: int) -> tuple[Trace, Trace]:
    """A run in which processes are killed: all that happened, and what is left on record of it."""
    whole = replace(random_trace(seed), closed=True)
    rng = Random(seed + 1)
    lives = sorted({event.participant for event in whole})
    victims = set(rng.sample(lives, min(len(lives), rng.choice((1, 1, 2)))))
    rows = [e for e in whole if not (e.kind == CRASH and e.participant in victims)]
    rows += [_witness(rows, victim) for victim in victims]
    kept = [row for row in rows if row.lseq >= WITNESS_LSEQ or row.participant not in victims]
    for victim in victims:
        its = [row for row in rows if row.participant == victim and row.lseq < WITNESS_LSEQ]
        kept += its[: len(its) - rng.randint(0, min(len(its), 8))]
    cut = Gaps(cut=frozenset(victims))
    return (
        replace(whole, events=in_causal_order(rows)),
        replace(whole, events=in_causal_order(kept), gaps=cut),
    )


def _witness(rows: list[TraceEvent], life: Participant) -> TraceEvent:
    last = max((row.real_t for row in rows if row.participant == life), default=0)
    return TraceEvent(-1, last, last, *life, WITNESS_LSEQ, CRASH)


def random_hole(seed: int) -> tuple[Trace, Trace]:
    """A run, and what is left of it when a stretch of one process is lost."""
    whole = replace(random_trace(seed), closed=True)
    rng = Random(seed + 1)
    process = rng.choice(sorted(whole.processes()))
    its = [row for row in whole if row.proc == process]
    first = rng.randrange(len(its) + 1)
    gone = {row.idx for row in its[first : first + rng.randint(1, 8)]}
    kept = [row for row in whole if row.idx not in gone]
    gaps = Gaps(holes={process: "a part of its record is missing"})
    return whole, replace(whole, events=in_causal_order(kept), closed=False, gaps=gaps)
