"""Order, integrity and agreement of a run too long to keep, in bounded memory.

The certificate of total.py needs no past: timestamps that grow along every process and are equal
at all deliverers imply one order and at most one delivery. What is kept is the last timestamp of
each participant and the messages that are not yet delivered everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.checks.history import name, who
from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    MULTICAST,
    MessageKey,
    Participant,
    TraceEvent,
)
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated


@dataclass(slots=True)
class Pending:
    sent: TraceEvent
    missing: set[int]
    ts: tuple[int, int] | None = None


@dataclass(slots=True)
class Certificate:
    """Feed it every event of a run; ask for the verdict at any time."""

    groups: tuple[tuple[int, ...], ...]
    last: dict[Participant, tuple[int, int]] = field(default_factory=dict)
    pending: dict[MessageKey, Pending] = field(default_factory=dict)
    crashed: set[int] = field(default_factory=set)
    failure: Verdict | None = None
    deliveries: int = 0
    pending_max: int = 0

    def __call__(self, event: TraceEvent) -> None:
        if event.layer or self.failure is not None:
            return
        if event.kind == DELIVER:
            self.deliveries += 1
            self._deliver(event)
        elif event.kind == MULTICAST and event.msg is not None and event.msg not in self.pending:
            members = {p for g in event.dest for p in self.groups[g]}
            self.pending[event.msg] = Pending(event, members)
            self.pending_max = max(self.pending_max, len(self.pending))
        elif event.kind == CRASH:
            self.crashed.add(event.proc)

    def _deliver(self, event: TraceEvent) -> None:
        assert event.msg is not None
        waiting = self.pending.get(event.msg)
        if event.ts is None or waiting is None or event.proc not in waiting.missing:
            self.failure = violated(
                f"{who(event.participant)} delivers {name(event.msg)} uncalled for", event
            )
            return
        before = self.last.get(event.participant)
        if before is not None and before >= event.ts:
            self.failure = violated(
                f"{who(event.participant)} delivers {before}, then {event.ts}", event
            )
        if waiting.ts is not None and waiting.ts != event.ts:
            self.failure = violated(f"{name(event.msg)} has two timestamps", event)
        waiting.ts = event.ts
        self.last[event.participant] = event.ts
        waiting.missing.discard(event.proc)
        if not waiting.missing:
            del self.pending[event.msg]

    def verdict(self, *, closed: bool) -> Verdict:
        if self.failure is not None:
            return self.failure
        for message, waiting in self.pending.items():
            if not waiting.missing - self.crashed:
                continue
            if not closed:
                return undetermined("the run is open")
            return violated(f"{name(message)} is not delivered everywhere", waiting.sent)
        return PASSED
