"""Whether the times of a record can be compared at all.

A clock that stepped makes late look timely and timely late. Two things show that one did: a
process's own clock runs backwards between two of its rows, or a message is delivered before it was
multicast. Then nothing is said about time bounds. A step that shows neither way is not noticed.

Rows looked at: multicasts and deliveries of the application. Spark's version is clock_checks.py.
"""

from __future__ import annotations

from shmcast.multicast.checks.history import History, name
from shmcast.multicast.checks.trace import Trace

REAL_TIME = ("real-time", "uniform-real-time")  # these compare clocks by themselves


def backwards(proc: int, lseq: int, by_ns: int) -> str:
    return f"the clock of p{proc} runs backwards by {by_ns} ns before row {lseq}"


def too_early(proc: int, message: tuple[int, int], by_ns: int) -> str:
    return f"p{proc} delivers {name(message)} {by_ns} ns before it is multicast: clocks disagree"


def doubt(trace: Trace, property_: str) -> str:
    """Why this property of time cannot be decided; empty if nothing speaks against it."""
    history = History(trace)
    last: dict[tuple[int, int], int] = {}
    for event in history.events:
        before = last.get(event.participant, event.local_t)
        if event.local_t < before:
            return backwards(event.proc, event.lseq, before - event.local_t)
        last[event.participant] = event.local_t
    if property_ not in REAL_TIME:
        return ""
    for message, events in history.deliverers.items():
        sent = history.multicasts.get(message)
        for event in events:
            if sent is not None and event.real_t < sent.real_t:
                return too_early(event.proc, message, sent.real_t - event.real_t)
    return ""
