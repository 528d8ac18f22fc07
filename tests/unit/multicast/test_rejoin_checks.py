"""What a life after the first owes: nothing is skipped, and it reaches the end."""

import pytest

from shmcast.multicast.checks.table import REJOIN, check
from shmcast.multicast.checks.trace import JOINED
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.checks.written import Written

MESSAGES = "abcdef"


def come_back(*delivered: str, joined: bool = True, handed_over: int = 2) -> Written:
    """p1 crashes and comes back; the others deliver a to f, of which some before it is back."""
    t = Written(groups=((0, 1, 2),), clients=(9,))
    for message in MESSAGES:
        t.multicast(9, message)
    t.crash(1).restart(1)
    for n, message in enumerate(MESSAGES):
        if n == handed_over and joined:
            t.event(1, JOINED)
        t.deliver(0, message, ts=(n, 0)).deliver(2, message, ts=(n, 0))
    for message in delivered:
        t.deliver(1, message, ts=(MESSAGES.index(message), 0))
    return t


def verdicts(t: Written, *, closed: bool = True) -> list[str]:
    found = check(t.trace(closed=closed), REJOIN)
    return [found[name].outcome.value for name in REJOIN]


@pytest.mark.parametrize("delivered", ["cdef", "bcdef", "abcdef"])
def test_life_that_delivers_all_from_its_first_message_on_owes_nothing(delivered: str) -> None:
    assert verdicts(come_back(*delivered)) == ["passed", "passed"]


def test_what_was_handed_over_need_not_be_delivered() -> None:
    assert verdicts(come_back(handed_over=5)) == ["passed", "violated"]
    assert verdicts(come_back(*"f", handed_over=5)) == ["passed", "passed"]
    t = come_back(joined=False)
    t.event(1, JOINED)
    assert verdicts(t) == ["passed", "passed"], "all of it was"


@pytest.mark.parametrize(
    ("delivered", "contiguity", "liveness"),
    [
        ("ce", "violated", "violated"),
        ("cdf", "violated", "violated"),
        ("cde", "passed", "violated"),
        ("def", "passed", "violated"),  # c was delivered by the others after it had joined
        ("", "passed", "violated"),
    ],
)
def test_gap_and_early_end_are_told_apart(delivered: str, contiguity: str, liveness: str) -> None:
    assert verdicts(come_back(*delivered)) == [contiguity, liveness]


def test_life_that_never_takes_over_a_state_is_not_back() -> None:
    assert verdicts(come_back(joined=False)) == ["passed", "violated"]


def test_life_that_crashes_again_owes_no_end_but_still_no_gap() -> None:
    assert verdicts(come_back("c").crash(1)) == ["passed", "passed"]
    assert verdicts(come_back("c", "e").crash(1)) == ["violated", "passed"]
    assert verdicts(come_back("c").crash(1).restart(1).event(1, JOINED)) == ["passed", "passed"]


def test_open_run_decides_gaps_only() -> None:
    assert verdicts(come_back("c"), closed=False) == ["passed", "undetermined"]
    assert verdicts(come_back("c", "e"), closed=False) == ["violated", "undetermined"]


def test_first_lives_and_clients_are_judged_elsewhere() -> None:
    t = Written(groups=((0, 1),), clients=(9,))
    t.multicast(9, "a").deliver(0, "a", ts=(1, 0)).crash(9).restart(9)
    found = check(t.trace(), REJOIN)
    assert {verdict.outcome for verdict in found.values()} == {Outcome.PASSED}


def test_message_for_others_is_no_gap() -> None:
    t = Written(groups=((0,), (1,)), clients=(9,))
    t.multicast(9, "a", dest=(0, 1)).multicast(9, "b", dest=(0,)).multicast(9, "c", dest=(0, 1))
    t.crash(1).restart(1).event(1, JOINED)
    for n, message in enumerate("abc"):
        t.deliver(0, message, ts=(n, 0))
    t.deliver(1, "a", ts=(0, 0)).deliver(1, "c", ts=(2, 0))
    assert verdicts(t) == ["passed", "passed"]
