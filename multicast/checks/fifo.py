"""FIFO order: a sender's messages, in its order, without gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import MessageKey, TraceEvent
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

    Each pair (line, q) has one pointer that only moves forward, so this is linear.
    """
    lines: dict[Line, list[TraceEvent]] = defaultdict(list)
    place: dict[MessageKey, tuple[Line, int]] = {}
    for message, event in history.multicasts.items():
        line = line_of(event)
        place[message] = (line, len(lines[line]))
        lines[line].append(event)
    for participant in history.participants(uniform):
        late_start = participant[1] > 0  # a later life begins wherever it begins
        next_index: dict[Line, int] = {}
        for where, event in enumerate(history.deliveries[participant]):
            if key(event) not in place or history.position[participant][key(event)] != where:
                continue  # never multicast, or a second delivery: integrity's business
            line, index = place[key(event)]
            expected = next_index.get(line, index if late_start else 0)
            if index < expected:
                return violated(
                    f"{who(participant)} delivers {name(key(event))} after a later message of "
                    "its sender",
                    lines[line][index],
                    event,
                )
            for skipped in lines[line][expected:index]:
                if participant[0] in history.members(skipped.dest):
                    return violated(
                        f"{who(participant)} delivers {name(key(event))} without "
                        f"{name(key(skipped))} before it",
                        skipped,
                        lines[line][index],
                        event,
                    )
            next_index[line] = index + 1
    return PASSED
