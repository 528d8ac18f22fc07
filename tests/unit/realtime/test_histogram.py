"""Histograms: the same buckets in C and in Python, percentiles within an eighth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcast.realtime.histogram import EMPTY, WORDS, Histogram, bucket_of, low_of


@given(st.integers(0, 1 << 50))
def test_a_time_lies_in_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)
    assert low_of(bucket) <= ns
    if bucket < WORDS - 1:
        assert ns < low_of(bucket + 1) <= max(8, low_of(bucket)) * 9 / 8 + 1


@given(st.lists(st.integers(0, 10**10), min_size=1), st.sampled_from([50, 90, 99, 99.9, 100]))
def test_a_percentile_is_never_too_small_and_at_most_an_eighth_too_large(
    values: list[int], percent: float
) -> None:
    found = Histogram.of(values).percentile(percent)
    ranked = sorted(values)
    exact = ranked[max(0, -(-len(values) * percent // 100).__int__() - 1)]
    assert exact <= found <= max(values)
    assert found <= exact * 9 / 8 + 1


def test_what_is_above_a_bound_is_counted() -> None:
    found = Histogram.of([10, 100, 1000, 10_000])
    assert found.above(500) == 2
    assert found.above(10_000_000) == 0


def test_histograms_add_and_subtract_and_survive_a_file() -> None:
    a, b = Histogram.of([1, 2, 300]), Histogram.of([5])
    assert (a + b).total == 4
    assert (a + b - b).counts == a.counts
    assert Histogram.sparse(a.pairs(), a.most_ns) == a
    assert EMPTY.percentile(99) == 0


def test_no_percentile_above_a_hundred() -> None:
    with pytest.raises(ValueError, match="0 to 100"):
        EMPTY.percentile(101)
