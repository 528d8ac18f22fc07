"""Bounds in both directions, for any constants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcast.realtime.bounds import Bounds, InconsistentBounds

times = st.integers(1, 10**9)


@st.composite
def any_bounds(draw: st.DrawFn) -> Bounds:
    names = ("write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns", "poll_ns")
    values = {name: draw(times) for name in names}
    epsilon = draw(st.integers(0, 10**6))
    return Bounds(copies=draw(st.integers(1, 8)), epsilon_ns=epsilon, **values)


@given(any_bounds(), st.sampled_from(["crash", "timing", "eager"]), st.integers(0, 10**10))
def test_a_latency_that_can_be_had_is_kept_and_no_constant_shrinks(
    needed: Bounds, protocol: str, more_ns: int
) -> None:
    wanted = needed.latency_ns(protocol) + more_ns
    found = Bounds.for_latency(wanted, protocol=protocol, needed=needed)
    assert found.latency_ns(protocol) <= wanted
    for name in ("write_ns", "flag_ns", "decide_ns", "poll_ns", "read_ns"):
        assert getattr(found, name) >= getattr(needed, name)


@given(any_bounds(), st.sampled_from(["crash", "timing"]), st.integers(1, 10**6))
def test_a_latency_out_of_reach_is_refused_with_one_that_is_not(
    needed: Bounds, protocol: str, less_ns: int
) -> None:
    least = needed.latency_ns(protocol)
    with pytest.raises(InconsistentBounds) as caught:
        Bounds.for_latency(least - less_ns, protocol=protocol, needed=needed)
    named = int(str(caught.value).rsplit(" ", 1)[1])
    assert Bounds.for_latency(named, protocol=protocol, needed=needed).latency_ns(protocol) <= named


@given(any_bounds(), st.integers(1, 10**6))
def test_an_expiry_that_is_too_early_is_refused_with_one_that_is_not(
    bounds: Bounds, early_ns: int
) -> None:
    too_early = bounds.smallest_expiry_ns - early_ns
    if too_early <= 0:
        return
    with pytest.raises(InconsistentBounds) as caught:
        replace(bounds, expiry_ns=too_early)
    named = int(str(caught.value).rsplit(" ", 1)[1])
    assert replace(bounds, expiry_ns=named).expiry_ns == named


@given(any_bounds())
def test_everything_grows_with_the_number_of_copies_alone(bounds: Bounds) -> None:
    more = replace(bounds, copies=bounds.copies + 1, expiry_ns=0)
    assert more.send_ns * bounds.copies == bounds.send_ns * more.copies  # linear: §4.1
    assert more.latency_ns("timing") > bounds.latency_ns("timing")
    assert more.receive_ns("crash") * bounds.copies == bounds.receive_ns("crash") * more.copies
