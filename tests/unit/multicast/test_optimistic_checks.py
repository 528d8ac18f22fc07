"""What optimistic delivery promises, and how its mistakes are counted."""

import pytest

from shmcast.multicast.checks.optimistic import LAYER, mistakes
from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.written import Written

GROUP = ((0, 1),)


def sent(*messages: str) -> Written:
    written = Written(groups=GROUP)
    for message in messages:
        written.multicast(0, message)
    return written


@pytest.mark.parametrize(
    ("optimistic", "wrong"),
    [("abcd", 0), ("bacd", 1), ("bcda", 1), ("dcba", 3), ("badc", 2)],
)
def test_mistakes_are_the_messages_that_would_have_to_move(optimistic: str, wrong: int) -> None:
    written = sent(*"abcd").deliver(1, *optimistic, layer=LAYER).deliver(1, *"abcd")
    found = mistakes(written.trace())
    assert (found.deliveries, found.wrong) == (4, wrong)


def test_message_that_is_never_opt_delivered_is_a_mistake() -> None:
    written = sent("a", "b").deliver(1, "b", layer=LAYER).deliver(1, "a", "b")
    assert mistakes(written.trace()).rate * 2 == 1


def test_each_process_is_compared_with_itself() -> None:
    written = sent("a", "b")
    for process, order in ((0, "ab"), (1, "ba")):
        written.deliver(process, *order, layer=LAYER).deliver(process, *order)
    assert mistakes(written.trace()).wrong == 0


def test_no_deliveries_make_no_mistakes() -> None:
    assert mistakes(sent("a").trace()).rate == 0


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("optimistic-validity", sent("a").deliver(0, "a").deliver(1, "a")),
        ("optimistic-agreement", sent("a").deliver(0, "a", layer=LAYER)),
        ("optimistic-integrity", sent("a").deliver(0, "a", "a", layer=LAYER)),
        ("optimistic-fifo", sent("a", "b").deliver(0, "b", "a", layer=LAYER)),
    ],
)
def test_optimistic_layer_is_held_to_its_own_properties(name: str, written: Written) -> None:
    assert check(written.trace(), [name])[name].violated


def test_wrong_optimistic_order_is_no_violation() -> None:
    """§4.1: atomic order is probabilistic."""
    written = Written(groups=GROUP).multicast(0, "a").multicast(1, "b")
    written.deliver(0, "a", "b", layer=LAYER).deliver(1, "b", "a", layer=LAYER)
    names = [f"optimistic-{n}" for n in ("validity", "agreement", "integrity", "fifo")]
    assert not any(v.violated for v in check(written.trace(), names).values())
