"""States that only a death at the wrong instruction leaves behind, made by hand.

Each test writes into the segments what a process would have left there that died between two
stores, and then asks for the four guarantees. Each is the story of a defect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import shmcast
from helpers import Child, Layout, bounds, patch, peek, seal, segments_of, unseal
from shmcast import CopyState, Mailbox
from shmcast.mailbox import faults
from shmcast.realtime.bounds import NS_PER_MS

Start = Callable[..., Child]
SIZES = {"senders": 2, "receivers": 4, "message_size": 64, "capacity": 4}
AT = Layout(**SIZES)
ONE_MESSAGE = """
box = shmcast.Mailbox.open(args[0])
tx = box.sender()
tx.send(b"last words", timeout=20)
say("sent")
hear()
"""


def test_a_sender_dead_between_two_copies_flags_loses_nothing_with_the_first_copy(
    name: str, start: Start
) -> None:
    with Mailbox.create(name, **SIZES) as box, box.receiver() as fast, box.receiver() as slow:
        child = start(ONE_MESSAGE, name)
        child.heard()
        child.kill()
        for path in segments_of(name):
            patch(path, AT.intent(0), seal(unseal(peek(path, AT.intent(0), 8)) & ~1))  # still up
        for path in segments_of(name)[1:]:
            patch(path, AT.slot(0, 0), seal(0))  # the flag stands in the first copy only
        assert fast.receive(timeout=10).data == b"last words"
        assert box.reap() == 1
        faults.kill_copy(box, 0)
        assert slow.receive(timeout=10).data == b"last words"
        with box.sender() as heir:
            heir.send(b"next")
        assert fast.receive(timeout=10).data == b"next"
        assert slow.receive(timeout=10).data == b"next"


def test_the_intent_of_a_sender_dead_after_its_acceptance_stops_nobody(
    name: str, start: Start
) -> None:
    """The message is accepted and delivered; nobody reaps the lane; others must get through."""
    with Mailbox.create(name, **SIZES) as box, box.receiver() as rx:
        child = start(ONE_MESSAGE, name)
        child.heard()
        child.kill()
        for path in segments_of(name):
            patch(path, AT.intent(0), seal(unseal(peek(path, AT.intent(0), 8)) & ~1))
            patch(path, AT.slot(0, 0), seal(0))
        with box.sender() as tx:
            tx.send(b"next")
            assert [rx.receive(timeout=10).data for _ in range(2)] == [b"last words", b"next"]


@pytest.mark.parametrize("timed", ["crash", "timing"])
def test_a_message_that_never_reached_the_other_copies_does_not_fail_them(
    name: str, timed: str, start: Start
) -> None:
    """The sender dies with one copy written; it is decided against everywhere; that copy dies."""
    slow = bounds(timed, 3, write_ns=150 * NS_PER_MS)
    with Mailbox.create(name, **SIZES, protocol=timed, bounds=slow) as box:
        one, other = box.receiver(), box.receiver()
        child = start(ONE_MESSAGE, name)
        child.heard()
        child.kill()
        for number, path in enumerate(segments_of(name)):
            patch(path, AT.slot(0, 0), seal(0))
            if number:
                patch(path, AT.slot(0, 0) + 8, seal(0) + bytes(48))
        with pytest.raises(TimeoutError):
            one.receive(timeout=1.2)
        faults.kill_copy(box, 0)
        with box.sender() as heir:
            heir.send(b"next", timeout=20)
            assert other.receive(timeout=20).data == b"next"
            assert one.receive(timeout=20).data == b"next"
        assert box.copies == [CopyState.FAILED, CopyState.INTACT, CopyState.INTACT]


def test_a_stale_hint_of_a_lanes_end_does_not_fail_copies(name: str, protocol: str) -> None:
    """As a newcomer sees it that read the hint and then slept for a lap."""
    quick = bounds(protocol, 3, write_ns=5 * NS_PER_MS, flag_ns=NS_PER_MS, decide_ns=40 * NS_PER_MS)
    with Mailbox.create(name, **SIZES, protocol=protocol, bounds=quick) as box, box.sender() as tx:
        for i in range(10):
            tx.send(b"%d" % i, timeout=20)
        for path in segments_of(name):
            assert unseal(peek(path, AT.tail(0), 8)) == 9
            patch(path, AT.tail(0), seal(0))
        with box.receiver() as rx:
            tx.send(b"new", timeout=20)
            assert rx.receive(timeout=20).data == b"new"
        assert box.copies == [CopyState.INTACT] * 3


def test_a_sender_that_changes_copies_does_not_overlook_a_newcomer(name: str) -> None:
    """Somebody died between counting in two copies, so equal counters mean different lists."""
    with Mailbox.create(name, **SIZES) as box, box.sender() as tx, box.receiver() as first:
        tx.send(b"before")
        first.receive(timeout=10)
        first.leave()
        tx.send(b"looks at the list")
        for _ in range(4):
            tx.send(b"and again")
        counted = int.from_bytes(peek(segments_of(name)[0], AT.members, 8), "little")
        for path in segments_of(name)[1:]:
            patch(path, AT.members, (counted - 1).to_bytes(8, "little"))
        with box.receiver() as rx:
            faults.kill_copy(box, 0)
            sent = 0
            with contextlib.suppress(shmcast.MailboxFull):
                while sent < 3 * SIZES["capacity"]:
                    tx.send(b"x", timeout=0.05)
                    sent += 1
            assert sent <= SIZES["capacity"]
            assert rx.receive(timeout=10).data == b"x"


def test_a_configuration_of_more_segments_than_there_can_be_is_a_failed_copy(name: str) -> None:
    with Mailbox.create(name, **SIZES) as box:
        patch(segments_of(name)[1], Layout.CONFIG, seal(5 << 8 | 100))
        with Mailbox.open(name) as newcomer:
            assert newcomer.copies == [CopyState.INTACT, CopyState.FAILED, CopyState.INTACT]
        assert box.copies == [CopyState.INTACT, CopyState.FAILED, CopyState.INTACT]


def test_one_bit_anywhere_in_a_message_fails_one_copy_and_no_message(name: str) -> None:
    """Every word of a slot in turn: flags, header, payload."""
    for offset in range(0, 128, 4):
        with Mailbox.create(name, **SIZES) as box, box.sender() as tx, box.receiver() as rx:
            tx.send(b"x" * 64)
            path, at = segments_of(name)[0], AT.slot(0, 0) + offset
            patch(path, at, bytes([peek(path, at, 1)[0] ^ 0x10]))
            assert rx.receive(timeout=10).data == b"x" * 64
        Mailbox.remove(name)


def test_the_layout_that_these_tests_write_is_the_real_one(name: str) -> None:
    with Mailbox.create(name, **SIZES) as box, box.sender() as tx, box.receiver():
        tx.send(b"where am I?")
        path: Path = segments_of(name)[0]
        assert peek(path, AT.slot(0, 0) + 64, 11) == b"where am I?"
        assert unseal(peek(path, AT.slot(0, 0), 8)) == 1
        assert unseal(peek(path, AT.intent(0), 8)) == 3
        assert unseal(peek(path, Layout.CONFIG, 8)) == 3
