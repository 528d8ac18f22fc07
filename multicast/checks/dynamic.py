"""A broadcast whose members come and go (paper 003 §3): slices of one sequence.

A stay is what one process delivers from one join-OK to its leave-OK, crash or next join-OK. The
sequence S holds every message that anyone delivers; its order is the protocol's own certificate:
the ts of the delivery and the place among those of the same ts, and every stay must be a
contiguous slice of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shmcast.multicast.checks.history import History, key, name
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    JOIN,
    JOINED,
    LEAVE,
    LEFT,
    MULTICAST,
    REFUSE,
    MessageKey,
    TraceEvent,
)
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated

OPEN = "the run is open: what is missing may still come"
Place = tuple[tuple[int, int], int]


@dataclass(slots=True)
class Stay:
    proc: int
    joined: TraceEvent
    delivered: list[TraceEvent] = field(default_factory=list)
    sent: list[TraceEvent] = field(default_factory=list)
    asked_to_leave: bool = False
    over: bool = False  # by leave-OK or crash
    faulty: bool = False
    strays: int = 0  # deliveries after its end

    def __str__(self) -> str:
        return f"the stay of p{self.proc} from {self.joined.real_t} on"


def stays(history: History) -> list[Stay]:
    found: list[Stay] = []
    current: dict[int, Stay] = {}
    for event in history.trace.events:
        if event.kind == JOINED:
            current[event.proc] = Stay(event.proc, event)
            found.append(current[event.proc])
        elif (stay := current.get(event.proc)) is not None:
            _extend(stay, event)
    return found


def _extend(stay: Stay, event: TraceEvent) -> None:
    if event.kind == DELIVER and not event.layer:
        if stay.over:
            stay.strays += 1
        else:
            stay.delivered.append(event)
    elif event.kind == MULTICAST and not event.layer and not stay.over:
        stay.sent.append(event)
    elif event.kind == REFUSE and stay.sent and stay.sent[-1].msg == event.msg:
        stay.sent.pop()
    elif event.kind == LEAVE:
        stay.asked_to_leave = True
    elif event.kind in (LEFT, CRASH):
        stay.over = True
    elif event.kind == FAULT:
        stay.faulty = True


def places(history: History) -> dict[MessageKey, Place]:
    """Of each message, as its first deliverer saw it: ts, and how many of that ts came before."""
    found: dict[MessageKey, Place] = {}
    for events in history.deliveries.values():
        count: Counter[tuple[int, int]] = Counter()
        for event in events:
            assert event.ts is not None, "a delivery without its place in the sequence"
            found.setdefault(key(event), (event.ts, count[event.ts]))
            count[event.ts] += 1
    return found


def sequence(history: History) -> list[MessageKey]:
    """S: every message that anyone delivered, once."""
    place = places(history)
    return sorted(place, key=lambda message: (place[message], message))


def contiguous_slices(history: History) -> Verdict:
    """Ordering 1: what one stay delivers is a contiguous slice of S; nothing comes outside one."""
    s = sequence(history)
    index = {message: i for i, message in enumerate(s)}
    inside = 0
    for stay in stays(history):
        if stay.strays:
            return violated(f"{stay} is over, and goes on delivering")
        inside += len(stay.delivered)
        for before, after in zip(stay.delivered, stay.delivered[1:], strict=False):
            expected = index[key(before)] + 1
            if index[key(after)] != expected:
                wanted = name(s[expected]) if expected < len(s) else "nothing"
                return violated(
                    f"{stay}: after {name(key(before))} comes {name(key(after))}, in S {wanted}",
                    before,
                    after,
                )
    if inside != sum(len(events) for events in history.deliveries.values()):
        return violated("a process that is no member delivers")
    return PASSED


def incarnation_order(history: History) -> Verdict:
    """Ordering 2: an earlier stay's slice lies earlier in S."""
    place = places(history)
    last: dict[int, TraceEvent] = {}
    for stay in stays(history):
        if not stay.delivered:
            continue
        before = last.get(stay.proc)
        first = stay.delivered[0]
        if before is not None and place[key(before)] >= place[key(first)]:
            return violated(f"{stay} begins before the one before it ended", before, first)
        last[stay.proc] = max(stay.delivered, key=lambda event: place[key(event)])
    return PASSED


def sender_order(history: History) -> Verdict:
    """FIFO: of one sender's messages, those in S are in the order of sending. A crash may lose
    some, so gaps are no fault here."""
    latest: dict[int, int] = {}
    for sender, number in sequence(history):
        if number < latest.get(sender, 0):
            return violated(f"m{sender}.{number} is in S after m{sender}.{latest[sender]}")
        latest[sender] = number
    return PASSED


def join_liveness(history: History) -> Verdict:
    """Whoever asks to join gets join-OK, unless it crashes or leaves first."""
    return _answered(history, JOIN, JOINED, (LEAVE, CRASH, FAULT))


def leave_liveness(history: History) -> Verdict:
    """Whoever asks to leave gets leave-OK, unless it crashes first."""
    return _answered(history, LEAVE, LEFT, (CRASH, FAULT))


def _answered(history: History, question: str, answer: str, excuses: tuple[str, ...]) -> Verdict:
    if not history.closed:
        return undetermined(OPEN)
    waiting: dict[int, TraceEvent] = {}
    faulty_before: set[int] = set()
    for event in history.trace.events:
        if event.kind == question:
            waiting[event.proc] = event
        elif event.kind == answer or event.kind in excuses:
            waiting.pop(event.proc, None)
            if event.kind == FAULT:
                faulty_before.add(event.proc)
    for process, event in waiting.items():
        if process not in faulty_before:
            return violated(f"p{process} asks to {question} and gets no answer", event)
    return PASSED


def member_delivery(history: History) -> Verdict:
    """A member that neither leaves nor fails delivers all its own messages, and S to its end."""
    if not history.closed:
        return undetermined(OPEN)
    s = sequence(history)
    for stay in stays(history):
        if stay.over or stay.faulty or stay.asked_to_leave:
            continue
        delivered = {key(event) for event in stay.delivered}
        for event in stay.sent:
            if key(event) not in delivered:
                return violated(f"{stay} lacks its own {name(key(event))}", event)
        if stay.delivered and key(stay.delivered[-1]) != s[-1]:
            return violated(f"{stay} ends before {name(s[-1])}", stay.delivered[-1])
    return PASSED
