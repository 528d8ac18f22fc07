"""Lives after the first: what a process that crashed and came back owes (no paper has them).

The state that it takes over replaces what was delivered before; that transfer is on record as
join-ok. From then on it is a member like the others. Its group's order is the certificate of the
protocol, the timestamps of the deliveries, which `timestamp-order` checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.reliable import OPEN
from shmcast.multicast.checks.trace import (
    CRASH,
    END,
    FAULT,
    JOINED,
    MessageKey,
    Participant,
    TraceEvent,
)
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated


@dataclass(slots=True)
class Life:
    """One after the first, of a member of a group."""

    participant: Participant
    began: TraceEvent
    joined: TraceEvent | None = None
    over: bool = False  # by a crash, a fault, an orderly end or the next life
    delivered: list[TraceEvent] = field(default_factory=list)


def rejoin_contiguity(history: History) -> Verdict:
    """From its first delivery on, a later life skips nothing that is addressed to it."""
    for life in lives(history):
        order = due_at(history, life)
        place = {message: n for n, message in enumerate(order)}
        for before, after in pairwise(life.delivered):
            expected = place[key(before)] + 1
            if place[key(after)] > expected:
                return violated(
                    f"{who(life.participant)} delivers {name(key(before))}, then "
                    f"{name(key(after))}, and not {name(order[expected])} between them",
                    before,
                    after,
                )
    return PASSED


def rejoin_liveness(history: History) -> Verdict:
    """A later life that stays up takes a state over, and delivers all that its group delivers
    first after that, to the end."""
    if not history.closed:
        return undetermined(OPEN)
    for life in lives(history):
        verdict = PASSED if life.over else _lives_up_to(history, life)
        if verdict.violated:
            return verdict
    return PASSED


def _lives_up_to(history: History, life: Life) -> Verdict:
    if life.joined is None:
        return violated(f"{who(life.participant)} never takes over a state", life.began)
    delivered = {key(event) for event in life.delivered}
    for message in due_at(history, life):
        first = _first_in_group(history, life, message)
        if message not in delivered and first is not None and first.idx > life.joined.idx:
            return violated(
                f"{who(life.participant)} is back, and never delivers {name(message)}",
                life.joined,
                first,
            )
    order = due_at(history, life)
    if life.delivered and order[-1] not in delivered:
        return violated(
            f"{who(life.participant)} ends before {name(order[-1])}", life.delivered[-1]
        )
    return PASSED


def lives(history: History) -> Iterator[Life]:
    members = history.members(tuple(range(len(history.trace.groups))))
    found: dict[Participant, Life] = {}
    current: dict[int, int] = {}
    for event in history.trace.events:
        process, incarnation = event.participant
        if incarnation and process in members and event.participant not in found:
            found[event.participant] = Life(event.participant, event)
            if (process, current.get(process, 0)) in found:
                found[process, current[process]].over = True
            current[process] = incarnation
        life = found.get(event.participant)
        if life is None:
            continue
        if event.kind in (CRASH, FAULT, END):
            life.over = True
        elif event.kind == JOINED and life.joined is None:
            life.joined = event
    for participant, life in found.items():
        life.delivered = history.deliveries.get(participant, [])
        yield life


def due_at(history: History, life: Life) -> list[MessageKey]:
    """All that anyone delivers and that is addressed to this life, or delivered by it, in order."""
    process = life.participant[0]
    own = {key(event) for event in life.delivered}
    due = [
        (events[0].ts or (0, 0), message)
        for message, events in history.deliverers.items()
        if message in own or process in history.members(history.dest(message))
    ]
    return [message for _, message in sorted(due)]


def _first_in_group(history: History, life: Life, message: MessageKey) -> TraceEvent | None:
    process = life.participant[0]
    group = next((g for g in history.trace.groups if process in g), ())
    return next((e for e in history.deliverers[message] if e.proc in group), None)
