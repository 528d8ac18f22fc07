"""Offset intervals against simulated clocks: whatever the offset, the drift within its bound and
the two ways' delays, the true offset is never outside."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcast.realtime.clock import PPB, ClockBroken, RemoteClock

DRIFT_PPB = 200_000
drifts = st.integers(-DRIFT_PPB, DRIFT_PPB)
delays = st.integers(0, 10**8)
rounds = st.lists(st.tuples(st.integers(0, 10**10), delays, delays, delays), min_size=1, max_size=8)


class Simulated:
    """A clock with exact arithmetic; read() rounds down, as a counter does."""

    def __init__(self, offset_ns: int, drift_ppb: int) -> None:
        self._offset, self._rate = offset_ns, 1 + Fraction(drift_ppb, PPB)

    def exact(self, true_ns: Fraction | int) -> Fraction:
        return self._offset + self._rate * true_ns

    def read(self, true_ns: int) -> int:
        return int(self.exact(true_ns) // 1)


def run(ours: Simulated, theirs: Simulated, trips: list[tuple[int, ...]], drift_ppb: int):  # type: ignore[no-untyped-def]
    """Yields (interval, true offset) after each round trip, and once more some time later."""
    estimate, now = RemoteClock(drift_ppb=drift_ppb), 0
    for pause, there, work, back in trips:
        now += pause
        start, received, answered, end = (
            now,
            now + there,
            now + there + work,
            now + there + work + back,
        )
        found = estimate.feed(
            ours.read(start), theirs.read(received), theirs.read(answered), ours.read(end)
        )
        yield found, theirs.exact(end) - ours.exact(end)
        later = end + pause
        yield estimate.at(ours.read(later)), theirs.exact(later) - ours.exact(later)
        now = end


@given(st.integers(-(10**15), 10**15), drifts, drifts, rounds)
def test_the_true_offset_is_always_inside(
    offset: int, our_drift: int, their_drift: int, trips: list[tuple[int, ...]]
) -> None:
    ours, theirs = Simulated(10**16, our_drift), Simulated(10**16 + offset, their_drift)
    for found, true in run(ours, theirs, trips, DRIFT_PPB):
        assert found.low_ns <= true <= found.high_ns


def test_a_clock_beyond_its_drift_bound_is_caught() -> None:
    """The check above can fail: with a bound that is too small the truth is outside, or the
    samples contradict each other."""
    ours, theirs = Simulated(0, 0), Simulated(0, DRIFT_PPB)
    trips = [(10**9, 10, 0, 10)] * 5
    truthful = []
    with contextlib.suppress(ClockBroken):
        for found, true in run(ours, theirs, trips, 10):
            truthful.append(found.low_ns <= true <= found.high_ns)
    assert len(truthful) < 2 * len(trips) or not all(truthful)


@given(st.integers(-(10**12), 10**12), st.integers(10**7, 10**9), st.sampled_from([-1, 1]))
def test_a_jump_larger_than_the_uncertainty_is_noticed(offset: int, jump: int, sign: int) -> None:
    estimate = RemoteClock(drift_ppb=1000)
    estimate.feed(10**12, 10**12 + offset + 500, 10**12 + offset + 500, 10**12 + 1000)
    t = 10**12 + 10**9
    theirs = t + offset + 500 + sign * jump
    with pytest.raises(ClockBroken):
        estimate.feed(t, theirs, theirs, t + 1000)
