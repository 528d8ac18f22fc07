"""The formulas of mailbox.md §3 and §4 against examples worked by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from shmcast.realtime.bounds import Bounds, InconsistentBounds, quorum, tolerated_receivers

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


def test_receive_bound_of_crash_pays_epsilon_and_a_second_decision_in_every_copy() -> None:
    assert Bounds(**HAND).receive_ns("crash") == 3 * (2 * 7 + 50 + 5 + 2) == 213


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


# The table of §4.1, line by line, for n = 1, 2, 3 with the constants above; Δr of crash has one δd
# more per copy than the paper's (docs/decisions/0010):
# (n, Δs, Δr of crash, Δr of timing, latency of crash, χ at least, latency of timing)
TABLE = [
    (1, 110, 71, 84, 112, 141, 143),
    (2, 220, 142, 146, 222, 258, 260),
    (3, 330, 213, 208, 332, 375, 377),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"n={row[0]}")
def test_the_papers_table_line_by_line(row: tuple[int, ...]) -> None:
    b = Bounds(**{**HAND, "copies": row[0]})
    worked = (
        b.copies,
        b.send_ns,
        b.receive_ns("crash"),
        b.receive_ns("timing"),
        b.latency_ns("crash"),
        b.smallest_expiry_ns,
        b.latency_ns("timing"),
    )
    assert worked == row


@pytest.mark.parametrize(
    ("receivers", "mu", "failures"), [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 3, 1), (5, 3, 2)]
)
def test_fewer_than_half_of_the_receivers_may_fail_in_timing(
    receivers: int, mu: int, failures: int
) -> None:
    assert quorum(receivers) == mu
    assert tolerated_receivers("timing", receivers) == failures
    assert tolerated_receivers("crash", receivers) == receivers


def test_joining_and_leaving_take_a_send_and_epsilon_where_time_decides() -> None:
    b = Bounds(**HAND)
    assert b.join_ns("crash") == b.leave_ns("timing") == 330 + 2
    assert b.join_ns("eager") == 2
    assert b.drained_ns("crash") == 332 + 332 + 213
    assert b.removal_ns == 330 + 208 + 2 * 2


def test_several_wrong_values_are_named_at_once() -> None:
    with pytest.raises(InconsistentBounds) as caught:
        Bounds(**{**HAND, "read_ns": 0, "poll_ns": -3, "epsilon_ns": -1})
    for part in ("read_ns must be positive, not 0: use at least 1", "poll_ns", "epsilon_ns"):
        assert part in str(caught.value)


def test_bounds_of_hours_are_refused() -> None:
    with pytest.raises(InconsistentBounds, match="keep them below"):
        Bounds(**{**HAND, "write_ns": 10**14})


@pytest.mark.parametrize("protocol", ["crash", "timing"])
@pytest.mark.parametrize("wanted", [377, 400, 1000, 123_457])
def test_a_wanted_latency_gives_the_widest_constants_that_keep_it(
    protocol: str, wanted: int
) -> None:
    needed = Bounds(**HAND)
    found = Bounds.for_latency(wanted, protocol=protocol, needed=needed)
    assert found.latency_ns(protocol) <= wanted
    assert found.write_ns >= needed.write_ns
    # One more nanosecond in each stretched constant would be too much.
    more = {"write_ns": found.write_ns + 1, "flag_ns": found.flag_ns + 1}
    if protocol == "timing":
        more |= {"decide_ns": found.decide_ns + 1, "poll_ns": found.poll_ns + 1}
    assert replace(found, expiry_ns=0, **more).latency_ns(protocol) > wanted


def test_a_latency_out_of_reach_is_refused_with_the_smallest_one() -> None:
    with pytest.raises(InconsistentBounds, match="use at least 377"):
        Bounds.for_latency(376, protocol="timing", needed=Bounds(**HAND))
    with pytest.raises(InconsistentBounds, match="use at least 332"):
        Bounds.for_latency(331, protocol="crash", needed=Bounds(**HAND))


def test_the_slowest_polling_that_keeps_a_latency() -> None:
    assert Bounds.largest_poll_ns(377, needed=Bounds(**HAND)) == 20
    assert Bounds.largest_poll_ns(358, needed=Bounds(**HAND)) == 1
    with pytest.raises(InconsistentBounds, match="use at least 358"):
        Bounds.largest_poll_ns(357, needed=Bounds(**HAND))
