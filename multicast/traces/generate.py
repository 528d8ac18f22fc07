"""Recorded runs of any size, correct or subtly wrong, for tests and benchmarks.

All processes are members and multicast; message i is sent at i·GAP and delivered by all members of
its groups in the order of i, so a correct run keeps every property. Each flaw of FLAWS spoils one
place of it (flaws.py), in the last stretch. A process that crashes comes back later, in a second
life. A long run is made stretch by stretch, each delivered before the next one begins, so its
length is bounded by the disk alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    END,
    MULTICAST,
    RECEIVE,
    RESTART,
    START,
)
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import SCHEMA, life_directory
from shmcast.multicast.traces.writer import write_table

GAP_NS = 1_000
TRANSIT_GAPS = 5  # a delivery comes this much later than its multicast, and up to one GAP more
BOUND_NS = 2 * TRANSIT_GAPS * GAP_NS
STRETCH = 250_000  # messages that are made at a time
PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "termination",
    "ordering",
    "timestamp-order",
    "uniform-global-total",
    "uniform-pairwise-total",
    "uniform-fifo",
    "uniform-causal",
    "uniform-real-time",
)

KINDS = (START, MULTICAST, DELIVER, RECEIVE, END, CRASH, RESTART)
_START, _MULTICAST, _DELIVER, _RECEIVE, _END, _CRASH, _RESTART = range(len(KINDS))
IntArray = npt.NDArray[np.int64]


class Outage(NamedTuple):
    """A process does nothing from `down_at` on, and goes on at `back_at` in its second life."""

    process: int
    down_at: int
    back_at: int

    def covers(self, times: IntArray) -> npt.NDArray[np.bool_]:
        return (times >= self.down_at) & (times < self.back_at)


@dataclass
class Plan:
    """A run as columns. Deliveries may be edited, dropped (`proc` −1) and added before writing."""

    groups: tuple[tuple[int, ...], ...]
    sender: IntArray  # of message i
    seq: IntArray
    dest_low: IntArray  # message i goes to the groups dest_low, …, dest_low + dest_count − 1
    dest_count: IntArray
    sent_at: IntArray  # −1: never on record
    message: IntArray  # of each delivery
    proc: IntArray
    at: IntArray
    ts_time: IntArray
    ts_group: IntArray
    heard: IntArray  # rows (process, message): a transmission about it, at its receiver

    def deliveries_of(self, message: int) -> IntArray:
        found: IntArray = np.flatnonzero(self.message == message)
        return found

    def deliveries_at(self, process: int) -> IntArray:
        """In the order of delivery."""
        mine = np.flatnonzero(self.proc == process)
        found: IntArray = mine[np.argsort(self.at[mine], kind="stable")]
        return found

    def add(self, message: int, process: int, at: int, ts: tuple[int, int]) -> None:
        self.message = np.append(self.message, message)
        self.proc = np.append(self.proc, process)
        self.at = np.append(self.at, at)
        self.ts_time = np.append(self.ts_time, ts[0])
        self.ts_group = np.append(self.ts_group, ts[1])


def outages(crashes: int, *, processes: int, groups: int, messages: int) -> tuple[Outage, ...]:
    """One after the other, spread over the run: the first members of the first groups."""
    if not 0 <= crashes <= groups or (crashes and processes < 3 * groups):
        raise ValueError("at most one crash in each group, and groups of three or more")
    step = messages * GAP_NS // (2 * crashes + 1)
    return tuple(
        Outage(int(_bounds(processes, groups)[g]), (2 * g + 1) * step, (2 * g + 2) * step)
        for g in range(crashes)
    )


def plan(
    *,
    processes: int,
    groups: int,
    messages: int,
    seed: int,
    dest_max: int = 3,
    first: int = 0,
    away: tuple[Outage, ...] = (),
) -> Plan:
    """`first`: numbers of messages that are taken by the stretches before this one."""
    if not (1 <= groups <= processes and messages >= 1):
        raise ValueError("at least one message, one group, and one process in each group")
    rng = np.random.default_rng(seed if not first else [seed, first])
    bounds = _bounds(processes, groups)
    number = np.arange(messages, dtype=np.int64)
    sender = rng.integers(0, processes, messages)
    dest_count = rng.integers(1, min(dest_max, groups) + 1, messages)
    dest_low = (rng.random(messages) * (groups - dest_count + 1)).astype(np.int64)
    lowest = bounds[dest_low]
    width = bounds[dest_low + dest_count] - lowest  # groups are neighbours, so members are a range
    message = np.repeat(number, width)
    offset = np.arange(len(message)) - np.repeat(np.cumsum(width) - width, width)
    sent_at = (number + first) * GAP_NS
    for one in away:  # its neighbour multicasts instead: of the same group, so it is there
        sender[(sender == one.process) & one.covers(sent_at)] += 1
    at = sent_at[message] + TRANSIT_GAPS * GAP_NS + rng.integers(0, GAP_NS, len(message))
    proc = lowest[message] + offset
    for one in away:
        proc[(proc == one.process) & one.covers(at)] = -1
    return Plan(
        groups=_members(processes, groups),
        sender=sender,
        seq=_numbered(sender),
        dest_low=dest_low,
        dest_count=dest_count,
        sent_at=sent_at,
        message=message,
        proc=proc,
        at=at,
        ts_time=message + first + 1,
        ts_group=dest_low[message],
        heard=np.empty((0, 2), np.int64),
    )


def _bounds(processes: int, groups: int) -> IntArray:
    """The first members of the groups, and one more."""
    return np.linspace(0, processes, groups + 1).astype(np.int64)


def _members(processes: int, groups: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(a, b)) for a, b in itertools.pairwise(_bounds(processes, groups)))


def _numbered(sender: IntArray) -> IntArray:
    """1, 2, 3, … within each sender."""
    by_sender = np.argsort(sender, kind="stable")
    ordered = sender[by_sender]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    seq = np.empty(len(sender), np.int64)
    seq[by_sender] = np.arange(len(ordered)) - np.repeat(starts, sizes) + 1
    return seq


def generate(
    directory: str | Path,
    *,
    processes: int = 9,
    groups: int = 3,
    messages: int = 100,
    seed: int = 0,
    break_: str | None = None,
    transmissions: bool = False,
    crashes: int = 0,
) -> RunInfo:
    """Writes a run. `break_` is a key of flaws.FLAWS; `transmissions` records who heard of what,
    which genuineness needs; `crashes`: so many processes die, and come back in a second life."""
    from shmcast.multicast.traces.flaws import FLAWS

    run = Path(directory)
    if crashes and break_ is not None:
        raise ValueError("a flaw is a place of a run in which nobody crashes")
    away = outages(crashes, processes=processes, groups=groups, messages=messages)
    shape = _Shape(processes, groups, seed, transmissions, away)
    stretches = -(-messages // STRETCH)
    sizes = [messages * (k + 1) // stretches - messages * k // stretches for k in range(stretches)]
    info = RunInfo(
        run=f"generated-{seed}",
        protocol="generated",
        groups=shape.members,
        promises=(*PROMISES, "genuineness") if transmissions else PROMISES,
        bound_ns=BOUND_NS,
        meta={} if break_ is None else {"broken": break_},
    )
    pen = _Pen(run, processes, away)
    for number, size in enumerate(sizes, 1):
        # Two stretches are further apart than a message is under way.
        made = shape.stretch(size, first=pen.messages + TRANSIT_GAPS if number > 1 else 0)
        is_last = number == stretches
        if is_last and break_ is not None:
            FLAWS[break_].spoil(made, np.random.default_rng(seed + 1))
        if number == 1:
            info.write(run)
        pen.write(made, is_last=is_last)
    return info


class _Shape(NamedTuple):
    processes: int
    groups: int
    seed: int
    transmissions: bool
    away: tuple[Outage, ...]

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        return _members(self.processes, self.groups)

    def stretch(self, messages: int, *, first: int) -> Plan:
        made = plan(
            processes=self.processes,
            groups=self.groups,
            messages=messages,
            seed=self.seed,
            first=first,
            away=self.away,
        )
        if self.transmissions:
            heard = np.stack([made.proc, made.message], axis=1)
            made.heard = heard[made.proc >= 0]
        return made


class _Pen:
    """Writes a run, one part of each process per stretch."""

    def __init__(self, run: Path, processes: int, away: tuple[Outage, ...]) -> None:
        self._run = run
        self._away = {one.process: one for one in away}
        self._part = 0
        self._rows = np.zeros((processes, 2), np.int64)  # of each process and life so far
        self._sent = np.zeros(processes, np.int64)
        self._until = 0  # what is earlier is written
        self.messages = 0  # room taken in the numbers of messages

    def write(self, made: Plan, *, is_last: bool) -> None:
        made.seq = made.seq + self._sent[made.sender]
        last = int(max(made.at.max(initial=0), made.sent_at.max())) + GAP_NS
        deliveries, senders, hearers = (
            _by(column, len(self._rows)) for column in (made.proc, made.sender, made.heard[:, 0])
        )
        for process in range(len(self._rows)):
            sent = senders[process]
            columns = _life(
                made,
                mine=deliveries[process],
                sent=sent[made.sent_at[sent] >= 0],
                heard=made.heard[hearers[process], 1],
                marks=self._marks(process, last, is_last=is_last),
            )
            for life, rows in enumerate(_lives(columns, self._away.get(process))):
                self._write_life(made, process, life, rows)
        self._sent += np.bincount(made.sender, minlength=len(self._sent))
        self._part += 1
        self._until = last
        self.messages = last // GAP_NS

    def _marks(self, process: int, last: int, *, is_last: bool) -> list[tuple[int, int]]:
        """Kinds and times, of this stretch, of what is of no message."""
        marks = [] if self._part else [(_START, 0)]
        away = self._away.get(process)
        if away is not None:
            told = ((_CRASH, away.down_at), (_RESTART, away.back_at))
            marks += [(kind, at) for kind, at in told if self._until <= at < last]
        return [*marks, (_END, last)] if is_last else marks

    def _write_life(self, made: Plan, process: int, life: int, columns: IntArray) -> None:
        if not columns.shape[1]:
            return
        place = life_directory(self._run, process, life)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        table = _table(made, (process, life), columns, int(self._rows[process, life]))
        write_table(place / f"part-{self._part:05}.parquet", table)
        self._rows[process, life] += columns.shape[1]


def _lives(columns: IntArray, away: Outage | None) -> list[IntArray]:
    if away is None:
        return [columns]
    kind, at = columns[0], columns[2]
    before = (at < away.down_at) | (kind == _CRASH)
    return [columns[:, before], columns[:, ~before & (at >= away.back_at)]]


def _by(column: IntArray, count: int) -> list[IntArray]:
    """The places of 0, 1, …, count − 1 in a column; −1 stands for nobody."""
    order = np.argsort(column, kind="stable")
    bounds = np.searchsorted(column[order], np.arange(count + 1))
    return [order[low:high] for low, high in itertools.pairwise(bounds)]


def _life(
    made: Plan,
    *,
    mine: IntArray,
    sent: IntArray,
    heard: IntArray,
    marks: list[tuple[int, int]],
) -> IntArray:
    """Start, multicasts, transmissions, deliveries and end of one process, by time. `marks`: kinds
    and times of what is of no message."""
    none = np.array([-1], np.int64)
    blocks = [  # kind, message, time, delivery
        *((kind, none, np.array([at]), none) for kind, at in marks if kind != _END),
        (_MULTICAST, sent, made.sent_at[sent], np.full(len(sent), -1)),
        (_RECEIVE, heard, made.sent_at[heard] + GAP_NS, np.full(len(heard), -1)),
        (_DELIVER, made.message[mine], made.at[mine], mine),
        *((kind, none, np.array([at]), none) for kind, at in marks if kind == _END),
    ]
    kind = np.concatenate([np.full(len(m), k) for k, m, _, _ in blocks])
    message = np.concatenate([m for _, m, _, _ in blocks])
    at = np.concatenate([t for _, _, t, _ in blocks])
    delivery = np.concatenate([d for _, _, _, d in blocks])
    order = np.argsort(at, kind="stable")
    return np.stack([kind[order], message[order], at[order], delivery[order]])


def _table(made: Plan, life: tuple[int, int], columns: IntArray, rows_before: int) -> Any:
    kind, message, at, delivery = columns
    size = len(kind)
    is_message = (kind == _MULTICAST) | (kind == _DELIVER)
    is_delivery = delivery >= 0
    is_heard = kind == _RECEIVE
    dest_count = np.where(is_message, made.dest_count[message], 0)
    blank = pa.nulls(size, pa.int64())
    about = pa.StructArray.from_arrays(
        [
            pa.array(made.sender[message[is_heard]], pa.int32()),
            pa.array(made.seq[message[is_heard]], pa.int64()),
        ],
        names=["sender", "seq"],
    )
    arrays = [
        pa.array(np.full(size, life[0]), pa.int32()),
        pa.array(np.full(size, life[1]), pa.int32()),
        pa.array(np.arange(1, size + 1) + rows_before, pa.int64()),
        pa.array(at, pa.int64()),
        pa.array(at, pa.int64()),
        pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(KINDS)),
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(size), pa.int32()), pa.array([""])),
        pa.array(made.sender[message], pa.int32(), mask=~is_message),
        pa.array(made.seq[message], pa.int64(), mask=~is_message),
        pa.ListArray.from_arrays(_offsets(dest_count), _groups(made, message, dest_count)),
        pa.array(made.ts_time[delivery], pa.int64(), mask=~is_delivery),
        pa.array(made.ts_group[delivery], pa.int32(), mask=~is_delivery),
        blank.cast(pa.int32()),
        blank,
        pa.ListArray.from_arrays(_offsets(is_heard.astype(np.int64)), about),
        pa.array(np.where(is_heard, "Generated", "")),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _offsets(counts: IntArray) -> Any:
    return pa.array(np.r_[0, np.cumsum(counts)], pa.int32())


def _groups(made: Plan, message: IntArray, count: IntArray) -> Any:
    first = np.repeat(made.dest_low[message], count)
    offset = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return pa.array(first + offset, pa.int32())
