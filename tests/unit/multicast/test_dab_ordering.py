"""The order of Dynamic Atomic Broadcast (paper 003 §6.1): scenarios 3, 4 and 24 of dab.md."""

from shmcast.multicast.protocols.core import Message, MessageId
from shmcast.multicast.protocols.dab_messages import Flush
from shmcast.multicast.protocols.dab_ordering import Ordering, Peer


def ordering(first_slot: int = 5) -> Ordering:
    found = Ordering((1, 2, 3), first_slot)
    for process in (1, 2, 3):
        found.add((process, 0), first_slot, first_slot - 1)
    return found


def peer(o: Ordering, process: int) -> Peer:
    found = o.find((process, 0))
    assert found is not None
    return found


def mark(o: Ordering, process: int, slot: int, *, data: bool = True) -> list[tuple[int, int]]:
    """A flush with one message, numbered by its slot; returns what is delivered thereupon."""
    messages = (Message(MessageId(process, slot), (0,)),) if data else ()
    o.receive(peer(o, process), Flush(0, slot, messages))
    return [d.message.id for d in o.deliver()]


def test_scenario_3_slot_is_delivered_by_process_whatever_the_arrival() -> None:
    o = ordering()
    for process in (3, 1, 2):
        assert mark(o, process, 5) == []
    assert mark(o, 3, 6) == []
    assert mark(o, 1, 6) == [(1, 5)]
    assert mark(o, 2, 6) == [(2, 5), (3, 5)], "slot 6 comes after it"
    assert o.slot == 6


def test_scenario_4_next_mark_frees_its_own_sender_only() -> None:
    o = ordering()
    for process in (1, 2, 3):
        mark(o, process, 5)
    assert mark(o, 1, 6) == [(1, 5)]
    assert mark(o, 3, 6) == [], "2 holds up all that follow"


def test_decision_frees_a_cursor_that_stands_on_the_slot_after_it() -> None:
    """D3: Fig. 5 looks at failures only when the slot changes."""
    o = ordering()
    for process in (1, 3):
        for slot in (5, 6, 7):
            mark(o, process, slot)
    mark(o, 2, 5)
    assert o.slot == 5 and o.index == 1
    peer(o, 2).end(5)
    assert [d.message.id for d in o.deliver()] == [(2, 5), (3, 5), (1, 6), (3, 6)]


def test_input_beyond_the_decision_is_dropped() -> None:
    o = ordering()
    mark(o, 2, 5)
    mark(o, 2, 6)
    peer(o, 2).end(5)
    assert list(peer(o, 2).slots) == [5]


def test_scenario_24_old_life_is_delivered_up_to_its_end_after_the_new_one_is_known() -> None:
    o = ordering()
    for slot in (5, 6):
        mark(o, 1, slot)
        mark(o, 2, slot)
    peer(o, 2).end(6)
    o.add((2, 1), 9, 8)
    delivered = [(2, 5), (2, 6)]
    found: list[tuple[int, int]] = [(1, 5), (2, 5)]  # by the marks above
    for slot in (5, 6, 7):
        found += mark(o, 3, slot, data=False)
        found += mark(o, 1, slot + 2, data=False)
    assert [m for m in found if m[0] == 2] == delivered


def test_mark_of_a_stale_life_is_no_news() -> None:
    o = ordering()
    o.add((2, 4), 9, 8)
    assert not o.is_news((2, 3))
    assert o.is_news((2, 5))


def test_reported_peer_is_not_listened_to_any_more() -> None:
    o = ordering()
    peer(o, 2).reported = True
    assert not o.receive(peer(o, 2), Flush(0, 5))
    assert peer(o, 2).last == 4
