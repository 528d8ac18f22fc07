"""Validity, agreement, integrity, termination: who delivers what, whatever the order."""

from __future__ import annotations

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import MessageKey
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated

OPEN = "the run is open: what is missing may still come"


def validity(history: History) -> Verdict:
    """A correct process that broadcasts m delivers m itself."""
    if not history.closed:
        return undetermined(OPEN)
    for message, event in history.multicasts.items():
        if event.incarnation or event.proc in history.faulty:
            continue
        if message not in history.position.get((event.proc, 0), {}):
            return violated(f"correct p{event.proc} never delivers its own {name(message)}", event)
    return PASSED


def multicast_validity(history: History) -> Verdict:
    """A correct sender's m is delivered by some correct member of its groups, if there is one."""
    if not history.closed:
        return undetermined(OPEN)
    for message, event in history.multicasts.items():
        if event.incarnation or event.proc in history.faulty:
            continue
        members = history.correct_members(event.dest)
        if members and not any(message in history.position.get((p, 0), {}) for p in members):
            return violated(f"no correct member delivers {name(message)}", event)
    return PASSED


def agreement(history: History, *, uniform: bool) -> Verdict:
    """Delivered by some correct (uniform: any) process ⇒ by every correct member of its groups."""
    if not history.closed:
        return undetermined(OPEN)
    for message, events in history.deliverers.items():
        first = next((e for e in events if uniform or history.is_correct(e.participant)), None)
        if first is None:
            continue
        for process in history.correct_members(history.dest(message)):
            if message not in history.position.get((process, 0), {}):
                return violated(
                    f"{who(first.participant)} delivers {name(message)}, correct p{process} "
                    "never does",
                    first,
                )
    return PASSED


def integrity(history: History, *, uniform: bool) -> Verdict:
    """At most one delivery, after the multicast, and only by a member of the message's groups.
    A multicast that may have been lost with its sender convicts nobody of having invented it."""
    for participant in history.participants(uniform):
        seen: set[MessageKey] = set()
        for event in history.deliveries[participant]:
            message = key(event)
            sent = history.multicasts.get(message)
            is_early = sent is None or sent.idx > event.idx
            if is_early and message[0] not in history.unfinished:
                return violated(
                    f"{who(participant)} delivers {name(message)} before anyone multicasts it",
                    event,
                    sent,
                )
            if message in seen:
                first = history.deliveries[participant][history.position[participant][message]]
                return violated(f"{who(participant)} delivers {name(message)} twice", first, event)
            if sent is not None and event.proc not in history.members(sent.dest):
                return violated(
                    f"{who(participant)} delivers {name(message)}, addressed to {sent.dest}",
                    sent,
                    event,
                )
            seen.add(message)
    return PASSED


def termination(history: History) -> Verdict:
    """Paper 000 §II: m "multicast by a correct process or delivered by any process" is delivered
    by a quorum of every destination group. Who was killed may have delivered it unseen."""
    if not history.closed:
        return undetermined(OPEN)
    for message, event in history.multicasts.items():
        from_correct = not event.incarnation and event.proc not in history.faulty
        if not from_correct and message not in history.deliverers:
            continue
        delivered = {e.proc for e in history.deliverers.get(message, ())} | history.gaps.killed
        for group in event.dest:
            members = history.trace.groups[group]
            count = sum(1 for process in members if process in delivered)
            if count <= len(members) // 2:
                return violated(
                    f"{name(message)} reaches {count} of {len(members)} in group {group}", event
                )
    return PASSED
