"""Causal order, and the local order that it is made of.

A message's past is a vector: how many multicasts of each sender happened before it. A delivery
is right if all of that past that is addressed to the receiver is delivered already; one pointer
per (receiver, sender) says how far that holds. The cost is deliveries × senders.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import DELIVER, MessageKey, Participant, TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, violated

Past = dict[int, int]  # sender -> how many of its multicasts


def global_causal(history: History, *, uniform: bool) -> Verdict:
    """multicast(m) → multicast(m′), the relation spanning all groups (full transitive closure):
    a member of m's groups that delivers m′ delivered m earlier. With one group of all processes
    this is Causal Order of a broadcast."""
    return _causal(history, history.events, uniform)


def local_causal(history: History, *, uniform: bool) -> Verdict:
    """The relation is built from events of messages to the same groups only."""
    by_dest: dict[tuple[int, ...], list[TraceEvent]] = defaultdict(list)
    for event in history.events:
        by_dest[history.dest(key(event))].append(event)
    for events in by_dest.values():
        verdict = _causal(history, events, uniform)
        if verdict.violated:
            return verdict
    return PASSED


class _Frontier:
    """How far, in each sender's line, one receiver has delivered all that is addressed to it."""

    def __init__(self, owed: dict[int, list[TraceEvent]]) -> None:
        self.owed = owed  # by sender: what is addressed to this receiver
        self.delivered: set[MessageKey] = set()
        self.complete: dict[int, int] = defaultdict(int)  # index into owed[sender]

    def first_missing(self, sender: int) -> TraceEvent | None:
        """Moves the pointer as far as it goes; returns what stops it."""
        line = self.owed.get(sender, [])
        at = self.complete[sender]
        while at < len(line) and key(line[at]) in self.delivered:
            at += 1
        self.complete[sender] = at
        return line[at] if at < len(line) else None


def _causal(history: History, events: Iterable[TraceEvent], uniform: bool) -> Verdict:
    place: dict[MessageKey, int] = {}  # number among its sender's multicasts
    count_of: dict[int, int] = defaultdict(int)
    owed: dict[int, dict[int, list[TraceEvent]]] = defaultdict(lambda: defaultdict(list))
    events = list(events)
    for event in events:
        if event.kind != DELIVER:
            place[key(event)] = count_of[event.proc]
            count_of[event.proc] += 1
            for process in history.members(event.dest):
                owed[process][event.proc].append(event)
    known: dict[int, Past] = defaultdict(dict)  # the causal past of each process, over its lives
    past: dict[MessageKey, tuple[int, Past]] = {}
    frontiers: dict[Participant, _Frontier] = {}
    for event in events:
        mine = known[event.proc]
        if event.kind != DELIVER:
            past[key(event)] = (event.proc, dict(mine))
            mine[event.proc] = place[key(event)] + 1
            continue
        if key(event) not in past:
            continue  # delivered before it was multicast: integrity's business
        sender, before = past[key(event)]
        frontier = frontiers.get(event.participant)
        if frontier is None:
            frontier = frontiers[event.participant] = _Frontier(owed[event.proc])
        if _bound(history, event, uniform):
            missing = _missing(frontier, before, place)
            if missing is not None:
                return violated(
                    f"{who(event.participant)} delivers {name(key(event))} without "
                    f"{name(key(missing))}, which causally precedes it",
                    missing,
                    history.multicasts[key(event)],
                    event,
                )
        frontier.delivered.add(key(event))
        for other, count in before.items():
            if count > mine.get(other, 0):
                mine[other] = count
        mine[sender] = max(mine.get(sender, 0), place[key(event)] + 1)
    return PASSED


def _bound(history: History, event: TraceEvent, uniform: bool) -> bool:
    """A later life may lack what was delivered before it began, so gaps convict it of nothing."""
    return event.incarnation == 0 and (uniform or event.proc not in history.faulty)


def _missing(frontier: _Frontier, before: Past, place: dict[MessageKey, int]) -> TraceEvent | None:
    for sender, count in before.items():
        stop = frontier.first_missing(sender)
        if stop is not None and place[key(stop)] < count:
            return stop
    return None


def local_order(history: History, *, uniform: bool) -> Verdict:
    """r delivers m before it multicasts m′: a member of m's groups that delivers m′ delivered m
    earlier. One step only: together with FIFO it is Causal Order, for broadcasts."""
    for receiver in history.participants(uniform):
        if receiver[1] > 0:
            continue
        for sender, sent in history.by_sender.items():
            verdict = _local_order_between(history, receiver, sender, sent)
            if verdict.violated:
                return verdict
    return PASSED


def _local_order_between(
    history: History, receiver: Participant, sender: int, sent: list[TraceEvent]
) -> Verdict:
    position = history.position[receiver]
    never = len(history.deliveries[receiver])
    for life in sorted({event.incarnation for event in sent}):
        read = history.deliveries.get((sender, life), [])
        read_idx = [event.idx for event in read]
        latest, latest_read, upto = -1, None, 0  # the last of what the sender had read, at q
        for event in sent:
            if event.incarnation != life or key(event) not in position:
                continue
            end = bisect_right(read_idx, event.idx)
            for index in range(upto, end):
                if receiver[0] not in history.members(history.dest(key(read[index]))):
                    continue
                where = position.get(key(read[index]), never)
                if where > latest:
                    latest, latest_read = where, read[index]
            upto = end
            if latest_read is not None and latest > position[key(event)]:
                return violated(
                    f"{who(receiver)} delivers {name(key(event))} without "
                    f"{name(key(latest_read))}, which its sender had delivered",
                    latest_read,
                    event,
                    history.deliveries[receiver][position[key(event)]],
                )
    return PASSED
