"""The judge: silent on a sound run, and every kind of broken one is caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shmcast.cli.demo.verdict import BEFORE_ALL, Got, Sent, judge, longest_pause_ns

A, B = 1, 2


def sender(tag: int, *numbers: int, doubtful: int | None = None) -> Sent:
    """Number n was stamped 10·n + tag."""
    tried = {*numbers} | ({doubtful} if doubtful is not None else set())
    unknown = tried - {*numbers}
    return Sent(tag, {n: 10 * n + tag for n in numbers}, dict.fromkeys(tried, 1), unknown)


def receiver(name: str, *keys: tuple[int, int], joined: int = -1, stayed: bool = True) -> Got:
    stamps = [(10 * number + tag, tag) for tag, number in keys]
    since = BEFORE_ALL if joined < 0 else (joined, 0)
    return Got(name, "box", 0, since, stayed, list(keys), stamps)


SOUND = [(A, 0), (B, 0), (A, 1), (B, 1)]
SENDERS = [sender(A, 0, 1), sender(B, 0, 1)]


def test_two_receivers_with_the_same_sequence_are_sound() -> None:
    assert judge([receiver("one", *SOUND), receiver("two", *SOUND)], SENDERS).is_clean


def test_an_acknowledged_message_that_is_missing_everywhere_is_lost() -> None:
    got = [receiver("one", *SOUND[:-1]), receiver("two", *SOUND[:-1])]
    assert judge(got, SENDERS).lost == 2


def test_a_message_that_one_receiver_lacks_is_lost_though_its_sender_never_knew() -> None:
    senders = [sender(A, 0, doubtful=1), sender(B, 0, 1)]
    got = [receiver("one", *SOUND), receiver("two", (A, 0), (B, 0), (B, 1))]
    assert judge(got, senders).lost == 1


def test_the_last_message_of_a_killed_sender_may_be_there_or_not() -> None:
    senders = [sender(A, 0, doubtful=1), sender(B, 0, 1)]
    for keys in (SOUND, [(A, 0), (B, 0), (B, 1)]):
        assert judge([receiver("one", *keys), receiver("two", *keys)], senders).is_clean


def test_two_receivers_with_different_orders_are_reordered() -> None:
    swapped = [SOUND[1], SOUND[0], *SOUND[2:]]
    assert judge([receiver("one", *SOUND), receiver("two", *swapped)], SENDERS).reordered > 0


def test_an_order_that_looks_right_at_each_receiver_and_differs_is_reordered() -> None:
    one = receiver("one", *SOUND)
    swapped = replace(one, name="two", keys=[SOUND[1], SOUND[0], *SOUND[2:]])
    assert judge([one, swapped], SENDERS).reordered == 2


def test_a_sender_s_own_order_counts_even_where_all_agree() -> None:
    backwards = Got("one", "box", 0, BEFORE_ALL, True, [(A, 1), (A, 0)], [(1, A), (2, A)])
    assert judge([backwards], [Sent(A, {1: 1, 0: 2}, {0: 1, 1: 1})]).reordered == 1


def test_a_message_delivered_twice_is_doubled() -> None:
    assert judge([receiver("one", *SOUND, SOUND[-1])], SENDERS).doubled == 1


@pytest.mark.parametrize("stranger", [(A, 7), (9, 0)])
def test_a_message_that_nobody_sent_is_a_phantom(stranger: tuple[int, int]) -> None:
    assert judge([receiver("one", *SOUND, stranger)], SENDERS).phantom == 1


def test_a_rejected_message_that_is_delivered_is_a_phantom() -> None:
    refused = replace(SENDERS[0], acknowledged={0: 1})
    assert judge([receiver("one", *SOUND)], [refused, SENDERS[1]]).phantom == 1


def test_a_late_joiner_owes_only_what_was_stamped_after_it_joined() -> None:
    late = receiver("late", *SOUND[2:], joined=5)
    assert judge([receiver("one", *SOUND), late], SENDERS).is_clean
    assert judge([receiver("one", *SOUND), replace(late, since=BEFORE_ALL)], SENDERS).lost > 0


def test_a_killed_receiver_owes_only_what_came_before_its_death() -> None:
    dead = receiver("dead", *SOUND[:2], stayed=False)
    assert judge([receiver("one", *SOUND), dead], SENDERS).is_clean
    holed = receiver("dead", SOUND[0], SOUND[2], stayed=False)
    assert judge([receiver("one", *SOUND), holed], SENDERS).lost > 0


def plant(bit: int, *keys: tuple[int, int]) -> Got:
    return replace(receiver(f"box {bit}", *keys), place=f"box {bit}", bit=bit)


def test_several_mailboxes_show_one_order_and_all_or_nothing() -> None:
    senders = [replace(SENDERS[0], to={0: 3, 1: 3}), replace(SENDERS[1], to={0: 1, 1: 2})]
    first = plant(0, (A, 0), (B, 0), (A, 1))
    second = plant(1, (A, 0), (A, 1), (B, 1))
    assert judge([first, second], senders).is_clean
    assert judge([first, plant(1, (A, 0), (B, 1))], senders).lost > 0
    assert judge([first, plant(1, (A, 1), (A, 0), (B, 1))], senders).reordered > 0
    assert judge([plant(0, *SOUND), second], senders).phantom == 1  # (B, 1) was for the other


def test_a_mailbox_without_a_lasting_receiver_proves_nothing() -> None:
    assert not judge([receiver("dead", *SOUND, stayed=False)], SENDERS).is_clean


def test_a_pause_is_counted_within_its_interval_only() -> None:
    assert longest_pause_ns([5, 20, 30, 90], start_ns=10, end_ns=50) == 20
    assert longest_pause_ns([], start_ns=10, end_ns=50) == 40
