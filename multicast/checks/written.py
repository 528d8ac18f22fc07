"""Traces written by hand: for the examples of the papers and for tests of the checkers.

t = Written(groups=((0, 1, 2),))
t.multicast(0, "m").deliver(1, "m").crash(0)
verdicts = check(t.trace(), ["agreement"])
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    MULTICAST,
    RESTART,
    MessageKey,
    Trace,
    TraceEvent,
)


class Written:
    """Each call adds one event, one tick after the one before unless `at` says when."""

    def __init__(self, groups: tuple[tuple[int, ...], ...], clients: tuple[int, ...] = ()) -> None:
        self._trace = Trace(groups, clients)
        self._messages: dict[str, tuple[MessageKey, tuple[int, ...]]] = {}
        self._sent: Counter[int] = Counter()
        self._lives: Counter[int] = Counter()
        self._now = 0

    def multicast(
        self, proc: int, message: str, dest: tuple[int, ...] = (0,), at: int | None = None
    ) -> Written:
        self._sent[proc] += 1
        self._messages[message] = ((proc, self._sent[proc]), dest)
        return self.event(proc, MULTICAST, message, at=at)

    def deliver(
        self,
        proc: int,
        *messages: str,
        ts: tuple[int, int] | None = None,
        at: int | None = None,
        layer: str = "",
    ) -> Written:
        for message in messages:
            self.event(proc, DELIVER, message, at=at, ts=ts, layer=layer)
        return self

    def crash(self, proc: int) -> Written:
        return self.event(proc, CRASH)

    def restart(self, proc: int) -> Written:
        self._lives[proc] += 1
        return self.event(proc, RESTART)

    def fault(self, proc: int) -> Written:
        return self.event(proc, FAULT)

    def event(
        self,
        proc: int,
        kind: str,
        message: str | None = None,
        *,
        at: int | None = None,
        ts: tuple[int, int] | None = None,
        layer: str = "",
        detail: str = "",
    ) -> Written:
        self._now = self._now + 1 if at is None else at
        key, dest = (None, ()) if message is None else self._of(message)
        idx = len(self._trace.events)
        self._trace.events.append(
            TraceEvent(
                idx,
                self._now,
                self._now,
                proc,
                self._lives[proc],
                idx,
                kind,
                layer,
                key,
                dest,
                ts,
                detail=detail,
            )
        )
        return self

    def _of(self, message: str) -> tuple[MessageKey, tuple[int, ...]]:
        """A message that nobody multicast gets a key that nobody uses."""
        return self._messages.get(message, ((-1, len(message)), ()))

    def trace(self, *, closed: bool = True) -> Trace:
        return replace(self._trace, closed=closed)
