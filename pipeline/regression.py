"""This run against an earlier one: which figures moved, and whether that is more than chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from shmcast.pipeline.latency import MEASURES, Latencies, Summary
from shmcast.realtime.histogram import Histogram

FIGURES = ("p50", "p99", "p99.9", "worst")
NOTICEABLE = 1.25  # a percentile is known to an eighth in both runs: less says nothing
SURE = 1.95  # Kolmogorov-Smirnov: c(α) for α = 0.001


class Change(NamedTuple):
    measure: str
    part: int | None  # None: all of them together
    figure: str
    earlier_ns: int
    now_ns: int
    word: str  # "slower", "faster", "same"

    @property
    def ratio(self) -> float:
        return self.now_ns / self.earlier_ns if self.earlier_ns else math.inf


@dataclass(frozen=True, slots=True)
class Regression:
    earlier: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]  # why the two may not be comparable

    @property
    def slower(self) -> list[Change]:
        return [change for change in self.changes if change.word == "slower"]


def compare(earlier: Latencies, now: Latencies) -> Regression:
    changes: list[Change] = []
    for measure in MEASURES:
        parts = sorted(set(earlier.parts(measure)) & set(now.parts(measure)))
        for part in (None, *parts):
            changes += _changes(measure, part, earlier.of(measure, part=part),
                                now.of(measure, part=part))  # fmt: skip
    return Regression(earlier.run, tuple(changes), tuple(_notes(earlier, now)))


def _changes(measure: str, part: int | None, earlier: Summary, now: Summary) -> list[Change]:
    if not earlier.count or not now.count:
        return []
    differ = differ_surely(earlier.histogram, now.histogram)
    pairs = [
        ("p50", earlier.percentile(50), now.percentile(50)),
        ("p99", earlier.percentile(99), now.percentile(99)),
        ("p99.9", earlier.percentile(99.9), now.percentile(99.9)),
        ("worst", earlier.most_ns, now.most_ns),
    ]
    return [
        Change(measure, part, name, was, is_, _word(was, is_, differ)) for name, was, is_ in pairs
    ]


def _word(earlier_ns: int, now_ns: int, differ: bool) -> str:
    if differ and now_ns > earlier_ns * NOTICEABLE:
        return "slower"
    if differ and now_ns * NOTICEABLE < earlier_ns:
        return "faster"
    return "same"


def differ_surely(one: Histogram, other: Histogram) -> bool:
    """Two samples of one distribution would differ that much once in a thousand times."""
    n, m = one.total, other.total
    gap = seen_one = seen_other = 0
    largest = 0.0
    for a, b in zip(one.counts, other.counts, strict=True):
        seen_one += a
        seen_other += b
        gap = abs(seen_one * m - seen_other * n)
        largest = max(largest, gap / (n * m))
    return largest > SURE * math.sqrt((n + m) / (n * m))


def _notes(earlier: Latencies, now: Latencies) -> list[str]:
    found = []
    if earlier.protocol != now.protocol:
        found.append(f"the earlier run is of {earlier.protocol}, this one of {now.protocol}")
    if earlier.bound_ns != now.bound_ns:
        found.append("the two runs have different bounds")
    if len(earlier.faults) != len(now.faults):
        found.append(f"{len(earlier.faults)} faults in the earlier run, {len(now.faults)} here")
    return found
