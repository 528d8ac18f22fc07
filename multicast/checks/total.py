"""Total order, from the weakest form to the strongest, and order by timestamp.

Consecutive deliveries of a process are edges of a graph of messages. The graph has the same
closure as the union of all local orders, so one total order exists iff it has no cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations, pairwise

from shmcast.multicast.checks.graph import find_cycle
from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import MessageKey, Participant, TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, violated

Edges = dict[MessageKey, list[MessageKey]]
Wanted = Callable[[TraceEvent], bool]


def global_total(history: History, *, uniform: bool) -> Verdict:
    """The union of "delivered m, then m′" over all processes is acyclic."""
    return _cycle_verdict(_delivery_edges(history, uniform))


def pairwise_total(history: History, *, uniform: bool) -> Verdict:
    """Two processes that both deliver m and m′ deliver them in the same order. With one group of
    all processes this is Total Order of a broadcast."""
    if not global_total(history, uniform=uniform).violated:
        return PASSED  # the stronger property holds, and is cheaper to see
    return _disagreement(history, uniform, lambda event: True)


def local_total(history: History, *, uniform: bool) -> Verdict:
    """The same, for messages to the same groups."""
    if not global_total(history, uniform=uniform).violated:
        return PASSED
    for dest in dict.fromkeys(event.dest for event in history.multicasts.values()):

        def wanted(event: TraceEvent, dest: tuple[int, ...] = dest) -> bool:
            return history.dest(key(event)) == dest

        verdict = _disagreement(history, uniform, wanted)
        if verdict.violated:
            return verdict
    return PASSED


def ordering(history: History) -> Verdict:
    """Paper 000 §II: one order ≺ such that a process that delivers m has delivered every m′ ≺ m
    that is addressed to it. A message that p never delivers comes after all that p delivers."""
    edges = _delivery_edges(history, uniform=True)
    for message in history.deliverers:
        for process in history.members(history.dest(message)):
            first_life = (process, 0)  # a later one may owe messages to the one before it
            delivered = history.deliveries.get(first_life)
            if delivered and message not in history.position[first_life]:
                edges[key(delivered[-1])].append(message)
    return _cycle_verdict(edges)


def timestamp_order(history: History) -> Verdict:
    """All deliveries of m show one timestamp, no two messages share one, and timestamps grow
    along every process. This is a certificate: it implies one total order."""
    shown: dict[MessageKey, TraceEvent] = {}
    taken: dict[tuple[int, int], TraceEvent] = {}
    for participant, events in history.deliveries.items():
        previous: TraceEvent | None = None
        for event in events:
            if event.ts is None:
                return violated(f"{name(key(event))} is delivered without timestamp", event)
            first = shown.setdefault(key(event), event)
            if first.ts != event.ts:
                return violated(
                    f"{name(key(event))} has timestamps {first.ts} and {event.ts}", first, event
                )
            owner = taken.setdefault(event.ts, event)
            if key(owner) != key(event):
                return violated(
                    f"{name(key(owner))} and {name(key(event))} share timestamp {event.ts}",
                    owner,
                    event,
                )
            if previous is not None and previous.ts is not None and previous.ts >= event.ts:
                return violated(
                    f"{who(participant)} delivers {previous.ts}, then {event.ts}", previous, event
                )
            previous = event
    return PASSED


def _delivery_edges(history: History, uniform: bool) -> Edges:
    edges: Edges = defaultdict(list)
    for participant in history.participants(uniform):
        mine = history.deliveries[participant]
        for a, b in pairwise(mine):
            if a.msg != b.msg:  # twice the same is integrity's business
                edges[key(a)].append(key(b))
    return edges


def _cycle_verdict(edges: Edges) -> Verdict:
    cycle = find_cycle(edges)
    if cycle is None:
        return PASSED
    path = " → ".join(name(message) for message in [*cycle, cycle[0]])
    return violated(f"no one order: {path}")


def _disagreement(history: History, uniform: bool, wanted: Wanted) -> Verdict:
    """Only reached when an order is broken somewhere, so it may compare pairs of processes."""
    for p, q in combinations(history.participants(uniform), 2):
        verdict = _compare(history, p, q, wanted)
        if verdict.violated:
            return verdict
    return PASSED


def _compare(history: History, p: Participant, q: Participant, wanted: Wanted) -> Verdict:
    at_q = history.position[q]
    previous: TraceEvent | None = None
    for where, event in enumerate(history.deliveries[p]):
        if key(event) not in at_q or not wanted(event):
            continue
        if history.position[p][key(event)] != where:
            continue  # a second delivery: integrity's business
        if previous is not None and at_q[key(previous)] > at_q[key(event)]:
            return violated(
                f"{who(p)} delivers {name(key(previous))} before {name(key(event))}, {who(q)} the "
                "other way round",
                previous,
                event,
                history.deliveries[q][at_q[key(event)]],
                history.deliveries[q][at_q[key(previous)]],
            )
        previous = event
    return PASSED
