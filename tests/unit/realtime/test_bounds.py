"""The formulas of mailbox.md §3 and §4 against examples worked by hand."""

from __future__ import annotations

import re

import pytest

from shmcast.realtime.bounds import Bounds, InconsistentBounds

# n = 3, δs = 100, δf = 10, δd = 7, δr = 50, δfd = 5, ε = 2, p = 20
HAND = {
    "copies": 3,
    "write_ns": 100,
    "flag_ns": 10,
    "decide_ns": 7,
    "read_ns": 50,
    "clear_ns": 5,
    "epsilon_ns": 2,
    "poll_ns": 20,
}


def test_send_bound_is_every_copys_write_and_flag() -> None:
    assert Bounds(**HAND).send_ns == 3 * 100 + 3 * 10


def test_receive_bound_of_crash_pays_epsilon_in_every_copy() -> None:
    assert Bounds(**HAND).receive_ns("crash") == 3 * (7 + 50 + 5 + 2) == 192


def test_receive_bound_of_timing_pays_epsilon_and_one_poll_once() -> None:
    assert Bounds(**HAND).receive_ns("timing") == 3 * (7 + 50 + 5) + 20 + 2 == 208


def test_the_smallest_expiry_is_taken_when_none_is_given() -> None:
    assert Bounds(**HAND).expiry_ns == 330 + 20 + 3 * 7 + 2 * 2 == 375


def test_a_later_expiry_is_kept() -> None:
    assert Bounds(**HAND, expiry_ns=1000).expiry_ns == 1000


def test_an_expiry_one_nanosecond_too_early_is_refused_with_the_smallest_that_would_do() -> None:
    with pytest.raises(InconsistentBounds, match=re.escape("use at least 375")):
        Bounds(**HAND, expiry_ns=374)
    assert Bounds(**HAND, expiry_ns=375).expiry_ns == 375


def test_latency_is_send_plus_epsilon_or_expiry_plus_epsilon() -> None:
    bounds = Bounds(**HAND)
    assert bounds.latency_ns("crash") == 332
    assert bounds.latency_ns("eager") == 332
    assert bounds.latency_ns("timing") == 377


@pytest.mark.parametrize("field", ["write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_step_that_takes_no_time_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(InconsistentBounds, match=f"{field} must be positive, not {value}"):
        Bounds(**{**HAND, field: value})


@pytest.mark.parametrize("field", ["epsilon_ns", "hold_ns"])
def test_a_negative_uncertainty_is_refused_by_name(field: str) -> None:
    with pytest.raises(InconsistentBounds, match=field):
        Bounds(**{**HAND, field: -1})


def test_no_copies_are_refused() -> None:
    with pytest.raises(InconsistentBounds, match="at least 1, not 0"):
        Bounds(**{**HAND, "copies": 0})


@pytest.mark.parametrize("protocol", ["eager", "crash", "timing"])
@pytest.mark.parametrize("copies", [1, 3, 8])
@pytest.mark.parametrize("size", [0, 4096, 64 << 20])
def test_defaults_are_consistent_and_leave_time_to_copy_the_message(
    protocol: str, copies: int, size: int
) -> None:
    bounds = Bounds.default(copies=copies, message_bytes=size, protocol=protocol)
    assert bounds.send_ns >= copies * size  # 1 GB/s
    assert bounds.expiry_ns >= bounds.smallest_expiry_ns


def test_bounds_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        Bounds(**HAND).write_ns = 1  # type: ignore[misc]
