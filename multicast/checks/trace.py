"""What is on record of a run. One event type for the simulator, real runs, Parquet and Spark.

All fields are integers, short strings or tuples of integers, so a trace is a table. A row says
which life of its process it belongs to (`incarnation`) and its number in that process (`lseq`):
rows keep their meaning when a store returns them in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MULTICAST = "multicast"  # the layer's user handed the message in
DELIVER = "deliver"
SEND = "send"  # one row per receiver
RECEIVE = "receive"
CRASH = "crash"
RESTART = "restart"
FAULT = "fault"  # any other fault of a process: omission, clock, slowness
LINK = "link"  # a fault of a link: it convicts no process
PROPOSE = "propose"  # consensus; the value is in `detail`
DECIDE = "decide"
JOIN = "join"  # membership: asked for, and answered
JOINED = "join-ok"
LEAVE = "leave"
LEFT = "leave-ok"
REFUSE = "refuse"  # a multicast was turned down: it counts as never made
NOTE = "note"  # anything else worth a line in a diagram
START = "start"  # of a real process: the first row of a life
END = "end"  # an orderly end: nothing more comes of this life
LOST = "lost"  # rows that could not be recorded; `detail` says how many

MessageKey = tuple[int, int]  # (sender, sequence number of that sender)
Participant = tuple[int, int]  # (process, incarnation)


class TraceEvent(NamedTuple):
    idx: int  # position in the run, a linear extension of causality
    real_t: int  # ticks
    local_t: int  # ticks of the process's own clock
    proc: int
    incarnation: int
    lseq: int
    kind: str
    layer: str = ""
    msg: MessageKey | None = None
    dest: tuple[int, ...] = ()  # destination groups of `msg`
    ts: tuple[int, int] | None = None  # global timestamp, on a delivery that has one
    peer: int | None = None  # the other end of a send or receive
    copy: int | None = None  # joins the rows of one transmission
    about: tuple[MessageKey, ...] = ()  # application messages that a transmission helps to order
    detail: str = ""

    @property
    def participant(self) -> Participant:
        return (self.proc, self.incarnation)


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a record lacks; of a simulated run, nothing. `settle.py` says what follows.

    `holes`: something may be missing anywhere in a life, or a whole life. `cut`: the process was
    killed, and what it did last may be missing. `open`: more may still come.
    """

    holes: Mapping[int, str] = field(default_factory=dict)  # process -> why
    cut: frozenset[Participant] = frozenset()
    open: frozenset[Participant] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.holes or self.cut or self.open)

    @property
    def closed(self) -> bool:
        return not self.holes and not self.open

    @property
    def unfinished(self) -> frozenset[int]:
        """Processes of which rows may exist, or come, that are not on record."""
        return frozenset(self.holes) | {p for p, _ in self.cut | self.open}

    @property
    def killed(self) -> frozenset[int]:
        return frozenset(p for p, _ in self.cut)

    def words(self) -> list[str]:
        found = [f"p{process}: {why}" for process, why in sorted(self.holes.items())]
        found += [
            f"p{p}, life {k}: crashed; the last rows before that may be missing"
            for p, k in sorted(self.cut)
        ]
        found += [f"p{p}, life {k}: has not ended" for p, k in sorted(self.open)]
        return found


NO_GAPS = Gaps()


@dataclass(slots=True)
class Trace:
    """`closed`: nothing in flight, no armed timer, no enabled step; else liveness stays open."""

    groups: tuple[tuple[int, ...], ...]
    clients: tuple[int, ...] = ()
    events: list[TraceEvent] = field(default_factory=list)
    closed: bool = False
    gaps: Gaps = NO_GAPS

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def members(self, dest: tuple[int, ...]) -> frozenset[int]:
        return frozenset(p for g in dest for p in self.groups[g])

    def processes(self) -> frozenset[int]:
        return frozenset(p for group in self.groups for p in group) | frozenset(self.clients)


def in_order(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Rows of a store back in the order of the run."""
    return sorted(events, key=lambda event: event.idx)
