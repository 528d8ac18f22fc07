"""Gives the rows of a store their place in the run: a linear extension of causality.

Each process's rows stay in its order (life, then lseq), a multicast comes before its deliveries,
and what is left open is settled by real_t. If a record contradicts itself (a delivery that its
own multicast depends on), the earliest row that waits goes first, and integrity will say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush

from shmcast.multicast.checks.trace import DELIVER, MULTICAST, MessageKey, TraceEvent


def in_causal_order(rows: Iterable[TraceEvent]) -> list[TraceEvent]:
    """The rows with `idx` set to 0, 1, 2, …"""
    lines = _lines(rows)
    unsent = {row.msg for line in lines for row in line if row.kind == MULTICAST and row.msg}
    return _Merge(lines, unsent).run()


def _lines(rows: Iterable[TraceEvent]) -> list[list[TraceEvent]]:
    by_process: dict[int, list[TraceEvent]] = defaultdict(list)
    for row in rows:
        by_process[row.proc].append(row)
    for line in by_process.values():
        line.sort(key=lambda row: (row.incarnation, row.lseq))
    return [by_process[process] for process in sorted(by_process)]


class _Merge:
    def __init__(self, lines: list[list[TraceEvent]], unsent: set[MessageKey]) -> None:
        self.lines = lines
        self.unsent = unsent  # multicasts that are still to come
        self.at = [0] * len(lines)
        self.ready: list[tuple[int, int]] = []  # (real_t, line)
        self.waiting: dict[MessageKey, list[int]] = defaultdict(list)  # lines, by what they need
        self.found: list[TraceEvent] = []

    def run(self) -> list[TraceEvent]:
        for line in range(len(self.lines)):
            self._arm(line)
        while True:
            while self.ready:
                _, line = heappop(self.ready)
                self._emit(line)
            stuck = [line for lines in self.waiting.values() for line in lines]
            if not stuck:
                return self.found
            self.waiting.clear()
            first = min(stuck, key=lambda line: (self._head(line).real_t, line))
            self._emit(first)
            for line in stuck:
                if line != first:
                    self._arm(line)

    def _head(self, line: int) -> TraceEvent:
        return self.lines[line][self.at[line]]

    def _arm(self, line: int) -> None:
        if self.at[line] == len(self.lines[line]):
            return
        row = self._head(line)
        if row.kind == DELIVER and row.msg in self.unsent:
            self.waiting[row.msg].append(line)
        else:
            heappush(self.ready, (row.real_t, line))

    def _emit(self, line: int) -> None:
        row = self._head(line)
        self.found.append(row._replace(idx=len(self.found)))
        self.at[line] += 1
        if row.kind == MULTICAST and row.msg in self.unsent:
            self.unsent.discard(row.msg)
            for other in self.waiting.pop(row.msg, []):
                heappush(self.ready, (self._head(other).real_t, other))
        self._arm(line)
