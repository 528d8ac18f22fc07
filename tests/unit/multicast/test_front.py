"""The entry of a replica, and the table that makes retries harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run import front as front_module
from shmcast.multicast.run.api import Place
from shmcast.multicast.run.front import PENDING_MAX, PIPELINE, REQUESTS_MAX, Front, place_of
from shmcast.multicast.run.records import Busy, Redirect, Reply, Request, decode
from shmcast.multicast.run.sessions import Sessions

CLIENT = 1 << 20


def a_front(incarnation: int = 0) -> Front:
    return Front(Topology(((0, 1, 2), (3, 4, 5))), 0, 0, incarnation)


def request(seq: int, dest: tuple[int, ...] = (0, 1), client: int = CLIENT) -> Request:
    return Request(client, seq, dest, b"x")


def enter(front: Front, *requests: Request) -> list[object]:
    sessions = Sessions()
    return [front.request(r, sessions, accepting=True) for r in requests]


def test_a_lone_request_leaves_at_once_and_those_that_wait_together_leave_together() -> None:
    front = a_front()
    for seq in range(1, PIPELINE + 1):
        enter(front, request(seq))
        assert len(front.take()) == 1
    enter(front, request(8), request(9))
    assert front.take() == []
    front.delivered(next(iter(front.under_way)))
    (message,) = front.take()
    assert [r.seq for r in decode(message.payload) if isinstance(r, Request)] == [8, 9]


def test_different_destinations_make_different_messages() -> None:
    front = a_front()
    enter(front, request(1, (0,)), request(2, (0, 1)))
    assert [m.dest for m in front.take()] == [(0,), (0, 1)]


def test_a_composite_is_never_longer_than_a_place_can_count() -> None:
    front = a_front()
    enter(front, *(request(seq) for seq in range(1, REQUESTS_MAX + 2)))
    assert [len(decode(m.payload)) for m in front.take()] == [REQUESTS_MAX, 1]


def test_payloads_are_bounded_by_their_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_module, "PENDING_BYTES_MAX", 2)
    monkeypatch.setattr(front_module, "UNDER_WAY_BYTES_MAX", 0)
    front = a_front()
    taken = enter(front, *(request(seq) for seq in range(1, 5)))
    assert taken[:3] == [None] * 3 and isinstance(taken[3], Busy)
    front.waiting[(0,)] = front.waiting.pop((0, 1))
    (first,) = front.take()
    enter(front, request(9, (0, 1)))
    assert front.take() == []  # whatever its destinations
    for seq in range(1, 4):
        front.answer(CLIENT, seq, Place(1, 0))
    assert enter(front, request(9, (0, 1))) == [None]
    front.delivered(first.id)
    assert len(front.take()) == 1
    assert (front.pending_bytes, front.under_way_bytes) == (1, 1)


def test_numbers_of_two_lives_never_meet() -> None:
    first, second = a_front(0), a_front(1)
    enter(first, request(1))
    enter(second, request(1))
    assert first.take()[0].id != second.take()[0].id


def test_a_request_for_others_is_sent_to_one_of_them_and_nonsense_is_not_taken() -> None:
    front = a_front()
    assert enter(front, request(1, (1,))) == [Redirect(CLIENT, 1, 3)]
    assert enter(front, request(1, (0, 7)), request(1, (1, 0))) == [Redirect(CLIENT, 1, 0)] * 2
    assert front.take() == []


def test_too_many_requests_are_refused_until_some_are_answered() -> None:
    front = a_front()
    enter(front, *(request(seq) for seq in range(PENDING_MAX)))
    assert enter(front, request(PENDING_MAX)) == [Busy(CLIENT, PENDING_MAX)]
    assert front.answer(CLIENT, 0, Place(1, 0)) == Reply(CLIENT, 0, 1, 0)
    assert enter(front, request(PENDING_MAX)) == [None]


def test_a_request_asked_for_again_is_not_entered_twice_and_a_delivered_one_is_answered() -> None:
    front, sessions = a_front(), Sessions()
    assert front.request(request(1), sessions, accepting=True) is None
    assert front.request(request(1), sessions, accepting=True) is None
    (message,) = front.take()
    assert len(decode(message.payload)) == 1
    sessions.is_first(CLIENT, 1, Place(5, 2))
    assert front.request(request(1), sessions, accepting=False) == Reply(CLIENT, 1, 5, 2)


def test_places_within_a_composite_stay_below_the_next_message() -> None:
    first = [place_of(7, 0, index) for index in (0, 1, REQUESTS_MAX - 1)]
    assert [*first, place_of(7, 1, 0), place_of(8, 0, 0)] == sorted(
        [*first, place_of(7, 1, 0), place_of(8, 0, 0)]
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=60))
def test_each_request_is_first_exactly_once(steps: list[tuple[int, int]]) -> None:
    """A client goes on (1), or its last request is ordered once more (0)."""
    sessions, numbers, firsts = Sessions(), dict.fromkeys(range(4), 0), []
    for index, (client, on) in enumerate(steps):
        numbers[client] += on
        if numbers[client] and sessions.is_first(client, numbers[client], Place(index, 0)):
            firsts.append((client, numbers[client], index))
    assert [(c, n) for c, n, _ in firsts] == list(dict.fromkeys((c, n) for c, n, _ in firsts))
    assert len(firsts) == sum(numbers.values())
    for client, number, index in firsts:
        if number == numbers[client]:
            assert sessions.place(client, number) == Place(index, 0)
    assert Sessions.of_rows(sessions.rows()).rows() == sessions.rows()


def test_a_late_copy_of_an_old_request_is_dropped() -> None:
    sessions = Sessions()
    assert [sessions.is_first(CLIENT, seq, Place(seq, 0)) for seq in (1, 2, 1, 3, 2)] == [
        True, True, False, True, False,
    ]  # fmt: skip


def test_the_client_silent_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmcast.multicast.run.sessions.CLIENTS_MAX", 2)
    sessions = Sessions()
    for client in (1, 2, 1, 3):
        sessions.is_first(client, client * 10 + len(sessions.rows()), Place(0, 0))
    assert [row[0] for row in sessions.rows()] == [1, 3]
