"""Clocks: cores of this host, and intervals of other hosts' offsets worked by hand."""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest

from shmcast.realtime.clock import (
    HOST_DRIFT_PPB,
    ClockBroken,
    CoreSkew,
    Interval,
    RemoteClock,
    compare_cores,
    epsilon_from,
    epsilon_of_host,
    kernel_error,
    pairs_to_compare,
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


def skew(a: int, b: int, low: int, high: int) -> CoreSkew:
    return CoreSkew(a, b, low, high, high - low, 1, 0, 0)


def test_with_many_cores_no_pair_is_left_out() -> None:
    """64 pairs were compared, and the rest forgotten: with 12 cores one of them."""
    pairs = pairs_to_compare(range(16), most=64)
    assert len(pairs) == len(set(pairs)) == 64
    assert {b for a, b in pairs if a == 0} == set(range(1, 16))
    assert len(pairs_to_compare(range(256), most=64)) == 255
    assert pairs_to_compare(range(4), most=64) == list(itertools.combinations(range(4), 2))


def test_cores_that_were_not_compared_with_each_other_are_bounded_by_the_first() -> None:
    """1 is up to 50 ahead of 0 and 2 up to 40 behind: so 2 is up to 90 behind 1."""
    compared = [skew(0, 1, -5, 50), skew(0, 2, -40, 7)]
    assert epsilon_from(compared).provable_ns == 90
    assert epsilon_from([*compared, skew(1, 2, -60, 3)]).provable_ns == 60


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


def test_what_is_known_widens_until_the_next_sample() -> None:
    """A link told the interval of its last sample, however old it was."""
    clock = RemoteClock(HOST_DRIFT_PPB)
    assert clock.known(0) is None
    clock.feed(0, 50, 50, 100)
    assert clock.known(40) == clock.at(100)  # a sample came since the clock was read
    second, drift = 1_000_000_000, relative_drift_ppb(HOST_DRIFT_PPB)
    later = clock.known(second)
    assert later == clock.at(second)
    assert later is not None and later.high_ns - later.low_ns >= 2 * drift


def test_a_clock_that_ntp_steers_stays_within_what_is_assumed_of_a_host() -> None:
    """100 ppm were assumed; one that NTP slows by 500, of a crystal that is 100 fast, was taken for
    one that jumps."""
    clock, second = RemoteClock(HOST_DRIFT_PPB), 1_000_000_000
    for s in range(10):
        ours = s * second
        theirs = ours - ours * 500 // 1_000_000
        clock.feed(ours, theirs, theirs, ours)


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
