"""Bad weather: full lanes, lost copies, late senders, slow receivers, no place, no permission."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

import pytest

import shmcast
from helpers import Child, bounds, segments_of, wait_until
from shmcast import Mailbox
from shmcast.mailbox import faults
from shmcast.realtime.bounds import NS_PER_MS

Start = Callable[..., Child]


def small(name: str, **options: object) -> Mailbox:
    return Mailbox.create(name, **{"message_size": 64, "capacity": 4, **options})  # type: ignore[arg-type]


def test_a_full_lane_raises_not_before_its_deadline_and_sends_nothing(
    name: str, protocol: str
) -> None:
    with (
        small(name, protocol=protocol, bounds=bounds(protocol, 3)) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        for i in range(4):
            tx.send(b"%d" % i)
        before = time.monotonic()
        with pytest.raises(shmcast.MailboxFull, match="nothing was written"):
            tx.send(b"too much", timeout=0.05)
        assert time.monotonic() - before >= 0.05
        assert [rx.receive(timeout=10).data for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        tx.send(b"4", timeout=10)
        assert rx.receive(timeout=10).data == b"4"
        assert box.stats().senders[0].full == 1


def test_a_batch_without_room_sends_none_of_it(name: str, protocol: str) -> None:
    with (
        small(name, protocol=protocol, bounds=bounds(protocol, 3)) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        tx.send_many([b"0", b"1", b"2"])
        with pytest.raises(shmcast.MailboxFull):
            tx.send_many([b"3", b"4"], timeout=0.01)
        receipt = tx.send(b"5")
        got = [rx.receive(timeout=10) for _ in range(4)]
        assert [m.data for m in got] == [b"0", b"1", b"2", b"5"]
        assert [m.sequence for m in got] == [0, 1, 2, 3]
        assert receipt.sequence == 3


def test_room_that_comes_in_time_lets_the_send_go_on(name: str, protocol: str) -> None:
    with (
        small(name, protocol=protocol, bounds=bounds(protocol, 3)) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        for i in range(4):
            tx.send(b"%d" % i)
        got: list[bytes] = []
        reader = threading.Thread(
            target=lambda: got.extend(rx.receive(timeout=20).data for _ in range(5))
        )
        reader.start()
        tx.send(b"4", timeout=20)
        reader.join()
        assert got == [b"0", b"1", b"2", b"3", b"4"]


def test_without_a_receiver_a_lane_never_fills(name: str, protocol: str) -> None:
    quick = bounds(protocol, 1, write_ns=5 * NS_PER_MS, flag_ns=NS_PER_MS)
    with small(name, copies=1, protocol=protocol, bounds=quick) as box, box.sender() as tx:
        last = [tx.send(b"x", timeout=10) for _ in range(12)][-1]
        assert last.sequence == 11


def test_all_copies_lost_is_told_to_senders_and_receivers(name: str, protocol: str) -> None:
    with small(name, protocol=protocol) as box, box.sender() as tx, box.receiver() as rx:
        for copy in range(3):
            faults.kill_copy(box, copy)
        for _ in range(2):  # also the second time
            with pytest.raises(shmcast.MailboxLost, match="create it again"):
                tx.send(b"x")
            with pytest.raises(shmcast.MailboxLost):
                rx.receive(timeout=10)
        with pytest.raises(shmcast.MailboxLost):
            box.sender()
        with pytest.raises(shmcast.MailboxLost):
            box.replace()
        assert box.copies == [shmcast.CopyState.FAILED] * 3


def test_a_receiver_asleep_is_told_when_all_copies_are_lost(name: str, protocol: str) -> None:
    said: list[BaseException] = []
    with small(name, protocol=protocol) as box, box.receiver(wait="block") as rx:

        def wait() -> None:
            try:
                rx.receive(timeout=30)
            except shmcast.MailboxLost as error:
                said.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: box.stats().receivers[0].sleeps, "the receiver sleeps")
        for copy in range(3):
            faults.kill_copy(box, copy)
        thread.join()
    assert len(said) == 1


def test_removal_while_in_use_is_told_to_members(name: str, protocol: str) -> None:
    with small(name, protocol=protocol) as box, box.sender() as tx, box.receiver() as rx:
        Mailbox.remove(name)
        for _ in range(2):
            with pytest.raises(shmcast.MailboxLost, match="removed"):
                tx.send(b"x")
            with pytest.raises(shmcast.MailboxLost, match="removed"):
                rx.receive(timeout=10)
        assert segments_of(name) == []
        with small(name) as again, again.sender() as new_tx, again.receiver() as new_rx:
            new_tx.send(b"fresh")
            assert new_rx.receive(timeout=10).data == b"fresh"


def test_a_removed_mailbox_wakes_a_sleeping_receiver(name: str) -> None:
    said: list[BaseException] = []
    with small(name) as box, box.receiver(wait="block") as rx:

        def wait() -> None:
            try:
                rx.receive(timeout=30)
            except shmcast.MailboxLost as error:
                said.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: box.stats().receivers[0].sleeps, "the receiver sleeps")
        Mailbox.remove(name)
        thread.join()
    assert len(said) == 1


def test_an_eager_sender_that_is_too_late_is_told_and_nobody_delivers(name: str) -> None:
    """A batch takes longer than a bound of two nanoseconds, so a busy receiver rejects it."""
    tiny = bounds("eager", 1, write_ns=1, flag_ns=1)
    with (
        Mailbox.create(name, copies=1, message_size=8, capacity=4096, bounds=tiny) as box,
        box.sender() as tx,
        box.receiver(wait="busy") as rx,
    ):
        got: list[bytes] = []

        def read() -> None:
            with contextlib.suppress(ValueError):  # closed
                while True:
                    with contextlib.suppress(TimeoutError):
                        got.extend(m.data for m in rx.receive_many(timeout=0.05))

        reader = threading.Thread(target=read)
        reader.start()
        accepted: list[bytes] = []
        rejected = 0
        for attempt in range(2000):
            batch = [b"%d.%d" % (attempt, i) for i in range(4096)]
            try:
                tx.send_many(batch, timeout=20)
                accepted += batch
            except shmcast.Rejected:
                rejected += 1
                break
        accepted.append(tx.send(b"last", timeout=20) and b"last")
        wait_until(lambda: got and got[-1] == b"last", "the last message")
        rx.close()
        reader.join()
        assert rejected == 1
        assert got == accepted
        assert box.stats().senders[0].rejected == 1


@pytest.mark.parametrize("timed", ["crash", "timing"])
def test_a_timed_sender_that_is_too_late_is_told_and_nobody_delivers(name: str, timed: str) -> None:
    tiny = bounds(timed, 3, write_ns=1, flag_ns=1, decide_ns=1)
    with (
        small(name, protocol=timed, bounds=tiny) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        for _ in range(3):
            with pytest.raises(shmcast.Rejected, match="nobody delivered"):
                tx.send(b"late")
        with pytest.raises(TimeoutError):
            rx.receive(timeout=0.1)
        assert box.stats().senders[0].rejected == 3


def test_a_stopped_eager_sender_is_rejected_and_the_others_go_on(name: str, start: Start) -> None:
    """SIGSTOP at any instruction: others' messages pass it, and it learns its own one's fate."""
    short = bounds("eager", 3, write_ns=NS_PER_MS, flag_ns=NS_PER_MS)
    with (
        small(name, capacity=64, bounds=short) as box,
        box.receiver() as rx,
        box.sender() as tx,
    ):
        child = start(
            """
            tx = shmcast.Mailbox.open(args[0]).sender()
            accepted, rejected = [], []
            say("ready")
            i = 0
            while not told():
                i += 1
                try:
                    tx.send(f"{i}".encode(), timeout=30)
                    accepted.append(i)
                except shmcast.Rejected:
                    rejected.append(i)
            say([accepted, rejected])
            """,
            name,
        )
        child.heard()
        got: list[int] = []

        def until_mine() -> None:
            while (data := rx.receive(timeout=30).data) != b"mine":
                got.append(int(data))

        for _ in range(30):
            faults.stop_process(child.pid)
            tx.send(b"mine", timeout=30)
            until_mine()
            faults.continue_process(child.pid)
            tx.send(b"mine", timeout=30)
            until_mine()
        child.tell("stop")

        def drain() -> None:
            with contextlib.suppress(TimeoutError):
                while True:
                    got.append(int(rx.receive(timeout=0.2).data))

        reader = threading.Thread(target=drain)
        reader.start()
        accepted, rejected = child.heard()
        reader.join()
        drain()
        assert got == accepted
        assert not set(got) & set(rejected)


def test_an_evicted_receiver_is_told_and_the_sender_goes_on(name: str, protocol: str) -> None:
    impatient = bounds(protocol, 3, hold_ns=0)
    with (
        small(name, protocol=protocol, bounds=impatient, evict=True) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        for i in range(9):
            tx.send(b"%d" % i, timeout=20)
        with pytest.raises(shmcast.DeadlineMissed, match="evicted"):
            rx.receive(timeout=10)
        with box.receiver() as again:
            tx.send(b"x", timeout=20)
            assert again.receive(timeout=10).data == b"x"


def test_a_receiver_is_evicted_however_short_the_senders_deadlines_are(
    name: str, protocol: str
) -> None:
    """Each call, and each slice of a long one, measured from its own beginning: bounds above 100 ms
    were never broken."""
    impatient = bounds(protocol, 3, hold_ns=300_000_000)
    with (
        small(name, protocol=protocol, bounds=impatient, evict=True) as box,
        box.sender() as tx,
        box.receiver(),
    ):

        def sent() -> bool:
            with contextlib.suppress(shmcast.MailboxFull):
                tx.send(b"x", timeout=0.02)
            return not box.stats().receivers

        wait_until(sent, "the eviction")


def test_an_evicted_view_says_that_what_was_read_may_be_wrong(name: str) -> None:
    impatient = bounds("eager", 3, hold_ns=0)
    with small(name, bounds=impatient, evict=True) as box, box.sender() as tx:
        rx = box.receiver()
        tx.send(b"first")
        block = rx.view(timeout=10)
        block.__enter__()
        for i in range(9):
            tx.send(b"%d" % i, timeout=20)
        with pytest.raises(shmcast.DeadlineMissed):
            block.__exit__(None, None, None)


def test_lanes_and_places_run_out_with_an_error_that_says_so(name: str, protocol: str) -> None:
    with small(name, protocol=protocol, senders=1, receivers=1) as box:
        with box.sender(), pytest.raises(shmcast.MailboxFull, match="every place is taken"):
            box.sender(timeout=0.01)
        with box.receiver(), pytest.raises(shmcast.MailboxFull, match="every place is taken"):
            box.receiver(timeout=0.01)
        with box.sender() as tx, box.receiver() as rx:
            tx.send(b"free again", timeout=10)
            assert rx.receive(timeout=10).data == b"free again"


@pytest.mark.parametrize("with_receiver", [True, False], ids=["received", "unread"])
def test_lanes_and_places_of_the_dead_are_reused(
    name: str, protocol: str, with_receiver: bool, start: Start
) -> None:
    quick = bounds(protocol, 3, write_ns=5 * NS_PER_MS, flag_ns=NS_PER_MS)
    with small(name, protocol=protocol, bounds=quick, senders=1, receivers=1) as box:
        child = start(
            """
            box = shmcast.Mailbox.open(args[0])
            rx = box.receiver() if args[1] else None
            tx = box.sender()
            tx.send(b"last words", timeout=20)
            say("sent")
            hear()
            """,
            name,
            with_receiver,
        )
        assert child.heard() == "sent"
        child.kill()
        with box.sender(timeout=20) as tx, box.receiver(timeout=20) as rx:
            tx.send(b"from the heir", timeout=10)
            assert rx.receive(timeout=10).data == b"from the heir"
        assert box.reap() == 0


def test_reap_frees_what_the_dead_held(name: str, start: Start) -> None:
    with small(name) as box:
        child = start(
            """
            box = shmcast.Mailbox.open(args[0])
            kept = [box.sender() for _ in range(3)] + [box.receiver() for _ in range(2)]
            say("held")
            hear()
            """,
            name,
        )
        child.heard()
        assert box.reap() == 0
        child.kill()
        assert box.reap() == 5
        assert box.reap() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.parametrize(
    ("mode", "group", "allowed"),
    [(0o600, None, False), (0o660, 12345, True), (0o666, None, True), (0o660, 54321, False)],
)
def test_mode_and_group_say_who_may_use_it(
    name: str, mode: int, group: int | None, allowed: bool, start: Start
) -> None:
    """Another user, whose only group is 12345."""
    with small(name, mode=mode, group=group, senders=2) as box, box.receiver() as rx:
        child = start(
            """
            os.setgroups([])
            os.setgid(12345)
            os.setuid(12345)
            try:
                tx = shmcast.Mailbox.open(args[0]).sender()
                tx.send(b"from a guest", timeout=20)
                say("sent")
            except shmcast.NotPermitted as error:
                say("refused" if isinstance(error, PermissionError) else "wrong error")
            try:
                shmcast.Mailbox.remove(args[0])
            except shmcast.NotPermitted:
                say("not removed")
            """,
            name,
        )
        assert child.heard() == ("sent" if allowed else "refused")
        assert child.heard() == "not removed"
        assert child.ended() == 0
        if allowed:
            assert rx.receive(timeout=10).data == b"from a guest"
        assert box.copies == [shmcast.CopyState.INTACT] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_refused_removal_leaves_the_mailbox_unharmed(name: str, start: Start) -> None:
    """A guest who may use the mailbox but not unlink it must not end it either."""
    with small(name, mode=0o666) as box, box.sender() as tx, box.receiver() as rx:
        child = start(
            """
            os.setgid(12345)
            os.setuid(12345)
            try:
                shmcast.Mailbox.remove(args[0])
            except shmcast.NotPermitted:
                say("not removed")
            """,
            name,
        )
        assert child.heard() == "not removed"
        tx.send(b"alive")
        assert rx.receive(timeout=10).data == b"alive"


def test_use_after_close_says_so(name: str) -> None:
    box = small(name)
    tx, rx = box.sender(), box.receiver()
    tx.close()
    rx.close()
    acts: list[Callable[[], object]] = [
        lambda: tx.send(b"x"),
        lambda: tx.send_many([b"x"]),
        lambda: tx.id,
        lambda: tx.loan(1).__enter__(),
        lambda: rx.receive(timeout=0),
        lambda: rx.receive_many(timeout=0),
        lambda: rx.view(timeout=0).__enter__(),
        rx.leave,
        lambda: rx.depth,
    ]
    for act in acts:
        with pytest.raises(ValueError, match="closed"):
            act()
    box.close()
    more: list[Callable[[], object]] = [
        box.sender,
        box.receiver,
        lambda: box.copies,
        box.stats,
        box.replace,
        box.reap,
    ]
    for act in more:
        with pytest.raises(ValueError, match="closed"):
            act()
    box.close()  # twice is fine
    tx.close()
    rx.close()
