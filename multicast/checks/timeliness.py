"""Δ-timeliness, in real time and in local time. Safety: a late delivery is never made good."""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.checks.history import History, key, name, who
from shmcast.multicast.checks.trace import TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, violated

Bound = Callable[[tuple[int, ...]], int]
"""Δ for messages to these groups: a multicast may have one constant per group."""


def real_time(history: History, bound: Bound, *, uniform: bool) -> Verdict:
    """real_t(deliver) − real_t(multicast) ≤ Δ."""
    return _timely(history, bound, uniform, lambda event: event.real_t)


def local_time(history: History, bound: Bound, *, uniform: bool) -> Verdict:
    """C_q(deliver) ≤ ts(m) + Δ, ts(m) being the sender's clock when it multicast m."""
    return _timely(history, bound, uniform, lambda event: event.local_t)


def _timely(
    history: History, bound: Bound, uniform: bool, clock: Callable[[TraceEvent], int]
) -> Verdict:
    for participant in history.participants(uniform):
        for event in history.deliveries[participant]:
            sent = history.multicasts.get(key(event))
            if sent is None:
                continue
            took, allowed = clock(event) - clock(sent), bound(sent.dest)
            if took > allowed:
                return violated(
                    f"{who(participant)} delivers {name(key(event))} after {took} ticks, "
                    f"allowed are {allowed}",
                    sent,
                    event,
                )
    return PASSED
