"""How long things took in a recorded run, against their bound: definitions and figures.

Two measures, both since the multicast and in ns of the record's `real_t`:

    delivery     to each row "deliver", counted for the group of the process that delivered
    completion   to the sender's row "ordered", counted by the number of destination groups

and three phases. A fault's window lasts until its group delivers a message that was multicast
after the fault. A measurement is *during* faults if it overlaps a window, else *before* or *after*
the first one. Windows that touch are one.

Histograms are those of realtime/histogram.py: they merge exactly, over groups, phases and runs.
Maxima and misses are exact; a percentile is an upper bound, too large by an eighth at most. The
same figures come from memory (latency_memory.py) and from Spark (latency_spark.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shmcast.errors import Corrupt, Incompatible
from shmcast.realtime.histogram import EMPTY, Histogram

VERSION = 1
ORDERED = "ordered"  # the row of a multicast's own process: it is ordered
FAULTS = ("crash", "fault", "link")
DELIVERY, COMPLETION = "delivery", "completion"
MEASURES = (COMPLETION, DELIVERY)
BEFORE, DURING, AFTER = "before", "during", "after"
PHASES = (BEFORE, DURING, AFTER)
NO_GROUP = -1  # of a process that is in none


class Key(NamedTuple):
    measure: str
    part: int  # a group (delivery), or how many groups (completion)
    phase: str


@dataclass(frozen=True, slots=True)
class Summary:
    histogram: Histogram = EMPTY
    misses: int = 0  # longer than the bound; 0 where there is none
    backwards: int = 0  # ended before they began: a clock that stepped. They count as 0 ns

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.histogram + other.histogram,
            self.misses + other.misses,
            self.backwards + other.backwards,
        )

    @property
    def count(self) -> int:
        return self.histogram.total

    @property
    def most_ns(self) -> int:
        return self.histogram.most_ns

    def percentile(self, percent: float) -> int:
        return self.histogram.percentile(percent)


class FaultWindow(NamedTuple):
    start_ns: int
    end_ns: int  # the group delivers what was multicast since; or the record's end
    proc: int
    kind: str
    detail: str
    recovered: bool

    @property
    def pause_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Latencies:
    run: str
    protocol: str
    bound_ns: int | None
    multicasts: int  # messages
    undelivered: int  # of them: no delivery on record
    cells: Mapping[Key, Summary] = field(default_factory=dict)
    faults: tuple[FaultWindow, ...] = ()

    def of(self, measure: str, *, part: int | None = None, phase: str | None = None) -> Summary:
        """Merged over what is not named."""
        return total(
            summary
            for key, summary in self.cells.items()
            if key.measure == measure and part in (None, key.part) and phase in (None, key.phase)
        )

    def parts(self, measure: str) -> list[int]:
        return sorted({key.part for key in self.cells if key.measure == measure})

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "run": self.run,
            "protocol": self.protocol,
            "bound_ns": self.bound_ns,
            "multicasts": self.multicasts,
            "undelivered": self.undelivered,
            "cells": [
                {
                    **key._asdict(),
                    **figures(summary),
                    "histogram": [list(pair) for pair in summary.histogram.pairs()],
                }
                for key, summary in sorted(self.cells.items())
            ],
            "faults": [{**f._asdict(), "pause_ns": f.pause_ns} for f in self.faults],
        }

    @classmethod
    def from_json(cls, found: Any) -> Latencies:
        """Of a file that anybody may have written."""
        try:
            version = found["version"]
            if version != VERSION:
                raise Incompatible(
                    f"latencies of version {version}, and this program reads version {VERSION}: "
                    "make the earlier report again"
                )
            cells = {_key(cell): _summary(cell) for cell in found["cells"]}
            faults = tuple(
                FaultWindow(
                    int(f["start_ns"]),
                    int(f["end_ns"]),
                    int(f["proc"]),
                    str(f["kind"]),
                    str(f["detail"]),
                    bool(f["recovered"]),
                )
                for f in found["faults"]
            )
            bound = found["bound_ns"]
            return cls(
                run=str(found["run"]),
                protocol=str(found["protocol"]),
                bound_ns=None if bound is None else int(bound),
                multicasts=int(found["multicasts"]),
                undelivered=int(found["undelivered"]),
                cells=cells,
                faults=faults,
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Corrupt(
                f"not the JSON of a report ({type(error).__name__}: {error}): "
                "make it with `shmcast report RUN --json`"
            ) from None


def _key(cell: Mapping[str, Any]) -> Key:
    key = Key(str(cell["measure"]), int(cell["part"]), str(cell["phase"]))
    if key.measure not in MEASURES or key.phase not in PHASES:
        raise ValueError(f"no such cell: {key}")
    return key


def _summary(cell: Mapping[str, Any]) -> Summary:
    pairs = [(int(bucket), int(count)) for bucket, count in cell["histogram"]]
    if any(bucket < 0 or count < 0 for bucket, count in pairs):
        raise ValueError("negative counts")
    histogram = Histogram.sparse(pairs, int(cell["most_ns"]))
    return Summary(histogram, int(cell["misses"]), int(cell["backwards"]))


def total(summaries: Iterable[Summary]) -> Summary:
    return sum(summaries, Summary())


def figures(summary: Summary) -> dict[str, int]:
    return {
        "count": summary.count,
        "p50_ns": summary.percentile(50),
        "p99_ns": summary.percentile(99),
        "p99.9_ns": summary.percentile(99.9),
        "most_ns": summary.most_ns,
        "misses": summary.misses,
        "backwards": summary.backwards,
    }


def merged(windows: Iterable[FaultWindow]) -> list[tuple[int, int]]:
    """The time under faults, as intervals that do not touch, in order."""
    found: list[tuple[int, int]] = []
    for window in sorted(windows):
        if found and window.start_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], window.end_ns))
        else:
            found.append((window.start_ns, window.end_ns))
    return found


def group_of(groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """The first group that lists a process."""
    return {p: g for g, members in reversed(list(enumerate(groups))) for p in members}
