"""Clocks: cores of this host, and intervals of other hosts' offsets worked by hand."""

from __future__ import annotations

import contextlib
import os

import pytest

from shmcast.realtime.clock import (
    ClockBroken,
    Interval,
    RemoteClock,
    compare_cores,
    epsilon_of_host,
    kernel_error,
    relative_drift_ppb,
)

CPUS = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(CPUS) < 2, reason="this process may use one core only")


@two_cores
def test_the_clocks_of_two_cores_are_one() -> None:
    found = compare_cores(CPUS[0], CPUS[1], rounds=500, limit_s=20)
    assert found.rounds >= 1
    assert found.low_ns <= 0 <= found.high_ns
    assert found.inversions == found.inversion_ns == 0
    assert found.high_ns - found.low_ns <= found.round_trip_ns


def test_epsilon_of_the_host_covers_what_was_seen() -> None:
    found = epsilon_of_host(rounds=200, limit_s=20)
    assert len(found.pairs) == min(64, len(CPUS) * (len(CPUS) - 1) // 2)
    assert 0 <= found.observed_ns <= found.provable_ns


def test_a_core_is_not_compared_with_itself() -> None:
    with pytest.raises(ValueError, match="out of range"):
        compare_cores(CPUS[0], CPUS[0])


@two_cores
def test_a_comparison_ends_at_its_deadline() -> None:
    for limit_s in (0.3, 3, 30):  # both cores may be busy for a while
        with contextlib.suppress(TimeoutError):
            found = compare_cores(CPUS[0], CPUS[1], rounds=4_000_000_000, limit_s=limit_s)
            assert 1 <= found.rounds < 4_000_000_000
            return
    pytest.fail("no round in half a minute")


def test_a_core_that_is_not_there_is_an_error() -> None:
    with pytest.raises((OSError, TimeoutError)):
        compare_cores(CPUS[0], 1023, limit_s=0.05)


def test_the_kernels_opinion_of_its_wall_clock_can_be_asked_for() -> None:
    found = kernel_error()
    assert found.most_ns >= 0 and found.estimated_ns >= 0


def test_one_round_trip_without_drift() -> None:
    """Sent at 100, received at 1150 by their clock, answered at 1160, back at 180.
    A nanosecond more on either side, because clocks show whole ones."""
    clock = RemoteClock(drift_ppb=0)
    assert clock.feed(100, 1150, 1160, 180) == Interval(979, 1051)
    assert clock.at(10_000) == Interval(979, 1051)


def test_an_interval_widens_by_the_drift_of_both_clocks() -> None:
    clock = RemoteClock(drift_ppb=100_000)
    clock.feed(0, 50, 50, 100)
    second = 1_000_000_000
    assert clock.at(second) == Interval(-51 - 200_021, 51 + 200_022)
    assert relative_drift_ppb(100_000) == 200_021


def test_two_samples_are_intersected() -> None:
    clock = RemoteClock(drift_ppb=0)
    clock.feed(0, 40, 40, 100)  # [-61, 41]
    assert clock.feed(200, 290, 290, 300) == Interval(-11, 41)
    assert clock.at(300).offset_ns == 15
    assert clock.at(300).epsilon_ns == 26
    assert clock.at(300).uncorrected_ns == 41


def test_a_jump_beyond_the_interval_is_noticed() -> None:
    clock = RemoteClock(drift_ppb=0)
    clock.feed(0, 40, 40, 100)
    with pytest.raises(ClockBroken, match="no offset fits"):
        clock.feed(200, 1240, 1240, 300)
    assert clock.at(300) == Interval(-61, 41)  # the bad sample changed nothing


def test_a_clock_that_runs_backwards_is_noticed() -> None:
    clock = RemoteClock(drift_ppb=0)
    with pytest.raises(ClockBroken, match="backwards"):
        clock.feed(100, 50, 40, 120)
    with pytest.raises(ClockBroken, match="backwards"):
        clock.feed(100, 50, 60, 90)


def test_there_is_no_interval_before_the_first_sample_or_in_the_past() -> None:
    clock = RemoteClock(drift_ppb=0)
    with pytest.raises(ValueError, match="no sample"):
        clock.at(0)
    clock.feed(0, 40, 40, 100)
    with pytest.raises(ValueError, match="before the latest"):
        clock.at(99)
