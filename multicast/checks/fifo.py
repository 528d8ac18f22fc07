"""FIFO order: a sender's messages, in its order, without gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import MessageKey, Participant, TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, violated

Line = tuple[Hashable, ...]


def global_fifo(history: History, *, uniform: bool) -> Verdict:
    """m before m′ by one sender, whatever the groups: a member of m's groups that delivers m′
    delivered m earlier. With one group of all processes this is FIFO Order of a broadcast."""
    return _fifo(history, uniform, lambda event: (event.proc,))


def local_fifo(history: History, *, uniform: bool) -> Verdict:
    """The same, only for messages to the same groups."""
    return _fifo(history, uniform, lambda event: (event.proc, event.dest))


def _fifo(history: History, uniform: bool, line_of: Callable[[TraceEvent], Line]) -> Verdict:
    """What q delivers of one line must be a prefix of the line's messages for q.

    Lines are kept per receiver, so this is linear in the deliveries that the run owes.
    """
    owed: dict[tuple[int, Line], list[TraceEvent]] = defaultdict(list)
    place: dict[tuple[int, MessageKey], int] = {}
    for message, event in history.multicasts.items():
        line = line_of(event)
        for process in history.members(event.dest):
            place[process, message] = len(owed[process, line])
            owed[process, line].append(event)
    for participant in history.participants(uniform):
        verdict = _in_line(history, participant, owed, place, line_of)
        if verdict.violated:
            return verdict
    return PASSED


def _in_line(
    history: History,
    participant: Participant,
    owed: dict[tuple[int, Line], list[TraceEvent]],
    place: dict[tuple[int, MessageKey], int],
    line_of: Callable[[TraceEvent], Line],
) -> Verdict:
    process, incarnation = participant
    next_index: dict[Line, int] = {}
    for where, event in enumerate(history.deliveries[participant]):
        message = key(event)
        index = place.get((process, message))
        if index is None or history.position[participant][message] != where:
            continue  # not for it, never multicast, or a second delivery: integrity's business
        line = line_of(history.multicasts[message])
        # A later life begins wherever it begins, and skips nothing from there on.
        expected = next_index.get(line, index if incarnation else 0)
        if index < expected:
            return violated(
                f"{who(participant)} delivers {name(message)} after a later message of its sender",
                history.multicasts[message],
                event,
            )
        if index > expected:
            skipped = owed[process, line][expected]
            return violated(
                f"{who(participant)} delivers {name(message)} without {name(key(skipped))} "
                "before it",
                skipped,
                history.multicasts[message],
                event,
            )
        next_index[line] = index + 1
    return PASSED
