"""A trace seen as what checkers ask of it: who multicast, who delivered, in which order.

Built once per trace and layer, in one pass. Each life of a process is a participant of its own:
a life that begins after a crash owes nothing that was sent before it, so it counts as faulty for
what correct processes must do, and is bound by every uniform property that speaks of order. A
process with a second life has stopped once, whether or not that is on record as a crash.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    MULTICAST,
    MessageKey,
    Participant,
    Trace,
    TraceEvent,
)


class History:
    """The multicasts and deliveries of one layer.

    A layer that only delivers, as optimistic delivery does, takes its multicasts from
    `multicast_layer`.
    """

    def __init__(self, trace: Trace, layer: str = "", multicast_layer: str | None = None) -> None:
        self.trace = trace
        self.closed = trace.closed
        self.gaps = trace.gaps
        self.unfinished = trace.gaps.unfinished
        source = layer if multicast_layer is None else multicast_layer
        self.events: list[TraceEvent] = []  # multicasts and deliveries of this layer, in order
        self.multicasts: dict[MessageKey, TraceEvent] = {}
        self.by_sender: dict[int, list[TraceEvent]] = defaultdict(list)
        self.deliveries: dict[Participant, list[TraceEvent]] = defaultdict(list)
        self.faulty: set[int] = set()
        for event in trace.events:
            kind = event.kind
            if kind == DELIVER and event.layer == layer:
                self.deliveries[event.proc, event.incarnation].append(event)
                self.events.append(event)
            elif kind == MULTICAST and event.layer == source:
                self._multicast(event)
            elif kind in (CRASH, FAULT):
                self.faulty.add(event.proc)
            if event.incarnation:
                self.faulty.add(event.proc)
        self._member_sets: dict[tuple[int, ...], frozenset[int]] = {}

    def _multicast(self, event: TraceEvent) -> None:
        assert event.msg is not None
        if event.msg not in self.multicasts:  # a retry is the same multicast
            self.multicasts[event.msg] = event
            self.by_sender[event.proc].append(event)
            self.events.append(event)

    def is_correct(self, participant: Participant) -> bool:
        return participant[1] == 0 and participant[0] not in self.faulty

    def participants(self, uniform: bool) -> list[Participant]:
        """Those that delivered something: all of them, or the correct ones."""
        return [p for p in self.deliveries if uniform or self.is_correct(p)]

    def members(self, dest: tuple[int, ...]) -> frozenset[int]:
        found = self._member_sets.get(dest)
        if found is None:
            found = self._member_sets[dest] = self.trace.members(dest)
        return found

    def correct_members(self, dest: tuple[int, ...]) -> list[int]:
        return [p for p in sorted(self.members(dest)) if p not in self.faulty]

    def dest(self, message: MessageKey) -> tuple[int, ...]:
        """As multicast; a message that nobody multicast has no destination."""
        event = self.multicasts.get(message)
        return () if event is None else event.dest

    def may_be_sent(self, message: MessageKey) -> bool:
        """Its multicast is not on record, and may be among the rows that its sender lost."""
        return message not in self.multicasts and message[0] in self.unfinished

    @cached_property
    def unsent(self) -> MessageKey | None:
        """A message that was delivered, and of which nobody knows by whom it was multicast."""
        return next((m for m in self.deliverers if self.may_be_sent(m)), None)

    @cached_property
    def resumed(self) -> int | None:
        """A process that multicast again after a life whose last rows are missing."""
        for process, life in sorted(self.gaps.cut):
            if any(event.incarnation > life for event in self.by_sender.get(process, ())):
                return process
        return None

    @cached_property
    def position(self) -> dict[Participant, dict[MessageKey, int]]:
        """pos(p, m): index of the first delivery of m at p; absent where p never delivers m."""
        found: dict[Participant, dict[MessageKey, int]] = {}
        for participant, events in self.deliveries.items():
            positions = found[participant] = {}
            for index, event in enumerate(events):
                positions.setdefault(key(event), index)
        return found

    @cached_property
    def deliverers(self) -> dict[MessageKey, list[TraceEvent]]:
        """All deliveries of each message, in the order of the run."""
        found: dict[MessageKey, list[TraceEvent]] = defaultdict(list)
        for event in self.events:
            if event.kind == DELIVER:
                found[key(event)].append(event)
        return found


def key(event: TraceEvent) -> MessageKey:
    assert event.msg is not None, "a multicast or delivery without its message"
    return event.msg


def who(participant: Participant) -> str:
    process, incarnation = participant
    return f"p{process}" if incarnation == 0 else f"p{process} in life {incarnation}"


def name(message: MessageKey) -> str:
    return f"m{message[0]}.{message[1]}"
