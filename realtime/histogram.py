"""Histograms as csrc/rt_histogram.h writes them: eight buckets for every power of two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WORDS = 320
_BITS = 3


def bucket_of(ns: int) -> int:
    if ns < 1 << _BITS:
        return ns
    exponent = ns.bit_length() - 1
    sub = ns >> (exponent - _BITS) & ((1 << _BITS) - 1)
    return min(WORDS - 1, (exponent - _BITS + 1) << _BITS | sub)


def low_of(bucket: int) -> int:
    """The smallest time that counts in a bucket."""
    if bucket < 1 << _BITS:
        return bucket
    exponent = (bucket >> _BITS) + _BITS - 1
    return (1 << exponent) + ((bucket & ((1 << _BITS) - 1)) << (exponent - _BITS))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket, and the exact maximum where its writer knows it."""

    counts: tuple[int, ...]
    most_ns: int = 0

    @classmethod
    def of(cls, values_ns: Iterable[int]) -> Histogram:
        counts, most = [0] * WORDS, 0
        for value in values_ns:
            counts[bucket_of(value)] += 1
            most = max(most, value)
        return cls(tuple(counts), most)

    @classmethod
    def sparse(cls, pairs: Iterable[Sequence[int]], most_ns: int) -> Histogram:
        counts = [0] * WORDS
        for bucket, count in pairs:
            counts[bucket] += count
        return cls(tuple(counts), most_ns)

    def pairs(self) -> list[tuple[int, int]]:
        """(bucket, count) where there is something: for files."""
        return [(i, count) for i, count in enumerate(self.counts) if count]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def percentile(self, percent: float) -> int:
        """An upper bound of it, by at most an eighth, and never above the maximum."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile is 0 to 100, not {percent}")
        total = self.total
        if not total:
            return 0
        wanted, seen = max(1, math.ceil(total * percent / 100)), 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if seen >= wanted:
                upper = low_of(bucket + 1) - 1
                return min(upper, self.most_ns) if self.most_ns else upper
        raise AssertionError("the counts add up to the total")

    def supports(self, percent: float) -> bool:
        """Are there so many that at least one is expected beyond it? Else percentile() is no more
        than the largest of a few."""
        return self.total * (100 - percent) >= 100 - 1e-6 if percent < 100 else self.total > 0

    @property
    def highest_percentile(self) -> float:
        """That it supports, up to 100: of 97 samples 98.97."""
        return 100 - 100 / self.total if self.total else 0.0

    def above(self, bound_ns: int) -> int:
        """How many were certainly longer than a bound."""
        return sum(c for i, c in enumerate(self.counts) if c and low_of(i) > bound_ns)

    def __add__(self, other: Histogram) -> Histogram:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(counts, max(self.most_ns, other.most_ns))

    def __sub__(self, earlier: Histogram) -> Histogram:
        """What came since; the maximum is still that of all."""
        counts = tuple(a - b for a, b in zip(self.counts, earlier.counts, strict=True))
        return Histogram(counts, self.most_ns)


EMPTY = Histogram((0,) * WORDS)
