"""Every error of the tree, reached the way a user would reach it; nothing is half-done after."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import shmcast
from helpers import SHM, Child, bounds, patch, segments_of, wait_until
from shmcast import Mailbox
from shmcast._native import lib
from shmcast.mailbox import faults
from shmcast.realtime.bounds import NS_PER_MS

Start = Callable[..., Child]

VERSION_AT = 8  # in the segment's header: magic, then the layout version, then the byte order
BYTE_ORDER_AT = 12


def small(name: str, **options: object) -> Mailbox:
    return Mailbox.create(name, **{"message_size": 64, "capacity": 4, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    ["", ".hidden", "-x", "a b", "../../etc/passwd", "a\0b", "näme", "x" * 101, "a\nb", "a/"],
)
def test_an_odd_name_is_refused_and_makes_no_segment(bad: str) -> None:
    before = set(SHM.glob("shmcast.*"))
    with pytest.raises(ValueError, match=r"letters|characters|range"):
        Mailbox.create(bad)
    assert not {p for p in set(SHM.glob("shmcast.*")) - before if bad and bad in p.name}


def test_the_longest_name_works(name: str) -> None:
    longest = name + "x" * (lib.SC_NAME_MAX - len(name))
    with small(longest), Mailbox.open(longest) as box:
        assert box.name == longest
    Mailbox.remove(longest)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"copies": 0}, "copies"),
        ({"copies": 9}, "copies"),
        ({"senders": 0}, "senders"),
        ({"senders": 65}, "senders"),
        ({"receivers": 0}, "receivers"),
        ({"receivers": 65}, "receivers"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": (1 << 20) + 1}, "capacity"),
        ({"message_size": -1}, "message_size"),
        ({"message_size": (1 << 30) + 1}, "message_size"),
        ({"protocol": "fast"}, "fast"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(
    name: str, options: dict[str, object], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        small(name, **options)
    assert segments_of(name) == []


def test_bounds_for_another_number_of_copies_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="2 copies, not for 3"):
        small(name, copies=3, bounds=bounds("eager", 2))


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10])
def test_an_impossible_timeout_is_refused(name: str, timeout: float) -> None:
    with small(name) as box, box.receiver() as rx, pytest.raises(ValueError, match="timeout"):
        rx.receive(timeout=timeout)


def test_creating_twice_says_that_it_exists(name: str) -> None:
    with small(name) as box:
        with pytest.raises(FileExistsError, match="open it"):
            small(name)
        assert len(box.copies) == 3


def test_opening_what_is_not_there_says_so(name: str) -> None:
    with pytest.raises(FileNotFoundError, match="create it first"):
        Mailbox.open(name)
    with pytest.raises(FileNotFoundError):
        Mailbox.remove(name)


def test_an_oversized_message_is_refused_before_anything_is_written(
    name: str, protocol: str
) -> None:
    with (
        small(name, protocol=protocol, bounds=bounds(protocol, 3)) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        tx.send(b"before")
        before = [path.read_bytes() for path in segments_of(name)]
        with pytest.raises(shmcast.MessageTooLarge):
            tx.send(b"x" * 65)
        with pytest.raises(shmcast.MessageTooLarge):
            tx.send_many([b"fits", b"x" * 65])
        with pytest.raises(shmcast.MessageTooLarge):
            tx.send_many([b"more than the lane holds"] * 5)
        if protocol == "eager":  # elsewhere the receivers decide on the first one meanwhile
            assert [path.read_bytes() for path in segments_of(name)] == before
        tx.send(b"after")
        got = [rx.receive(timeout=10).data for _ in range(2)]
        assert got == [b"before", b"after"]


@pytest.mark.parametrize("offset", [VERSION_AT, BYTE_ORDER_AT], ids=["version", "byte order"])
def test_another_layout_or_byte_order_is_incompatible(name: str, offset: int) -> None:
    small(name).close()
    for path in segments_of(name):
        patch(path, offset, struct.pack(">I", 2))
    with pytest.raises(shmcast.Incompatible, match="remove it"):
        Mailbox.open(name)


def test_a_foreign_file_with_our_name_is_corrupt(name: str) -> None:
    path = SHM / f"shmcast.{name}.0"
    path.write_bytes(b"somebody else's" * 1000)
    with pytest.raises(shmcast.Corrupt, match="not a shmcast segment"):
        Mailbox.open(name)
    with pytest.raises(FileExistsError):
        small(name)
    assert path.read_bytes() == b"somebody else's" * 1000
    Mailbox.remove(name)


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_what_is_not_a_file_is_not_opened(name: str, kind: str, tmp_path: Path) -> None:
    path = SHM / f"shmcast.{name}.0"
    match kind:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(tmp_path / "target")
        case _:
            os.mkfifo(path)
    with pytest.raises((shmcast.Corrupt, OSError)):
        Mailbox.open(name, timeout=0.1)
    path.rmdir() if kind == "directory" else path.unlink()


@pytest.mark.parametrize("size", [0, 10, 4096, 12288])
def test_segments_cut_short_are_corrupt(name: str, size: int) -> None:
    small(name).close()
    for path in segments_of(name):
        os.truncate(path, size)
    with pytest.raises((shmcast.Corrupt, shmcast.MailboxLost)):
        Mailbox.open(name)


def test_a_segment_of_another_domain_does_not_join(name: str, new_name: Callable[[], str]) -> None:
    """Copied in by hand under our name: it must count as a failed copy, not as ours."""
    other = new_name()
    with small(name) as box, small(other):
        segments_of(name)[1].unlink()
        (SHM / f"shmcast.{name}.1").write_bytes(segments_of(other)[1].read_bytes())
        with Mailbox.open(name) as newcomer:
            assert newcomer.copies[1] is shmcast.CopyState.FAILED
            with newcomer.sender() as tx, box.receiver() as rx:
                tx.send(b"x")
                assert rx.receive(timeout=10).data == b"x"


def test_a_full_shared_memory_is_an_error_at_creation(name: str) -> None:
    """More than the machine can have: no segment, no SIGBUS later."""
    huge = 1 << 30
    with pytest.raises(OSError, match=r"full") as caught:
        Mailbox.create(name, message_size=huge, capacity=1 << 16, senders=64)
    assert caught.value.errno == errno.ENOSPC
    assert segments_of(name) == []


def test_a_file_size_limit_is_an_error_at_creation(name: str, start: Start) -> None:
    child = start(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        try:
            shmcast.Mailbox.create(args[0], message_size=1 << 20, capacity=16)
        except OSError as error:
            say(type(error).__name__)
        """,
        name,
    )
    assert child.heard() == "OSError"
    assert child.ended() == 0
    assert segments_of(name) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_small_shared_memory_that_fills_up_leaves_the_mailbox_usable(start: Start) -> None:
    """With 1 MiB of /dev/shm: a second mailbox does not fit, the first one lives."""
    child = start(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None) or \\
                libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=1m"):
            say(os.strerror(ctypes.get_errno()))
            sys.exit()
        domain = shmcast.Domain.create("small", copies=2)
        first = domain.create_mailbox("first", message_size=64, capacity=16, receivers=2)
        try:
            domain.create_mailbox("second", message_size=1 << 16, capacity=16)
        except OSError as error:
            say(error.errno)
        try:
            shmcast.Mailbox.create("other", message_size=1 << 16, capacity=16)
        except OSError as error:
            say(error.errno)
        say(sorted(os.listdir("/dev/shm")))
        rx = first.receiver()
        domain.sender().send(b"x", to="first")
        say(rx.receive(timeout=10).data.decode())
        say(len(domain.mailboxes()))
        domain.create_mailbox("third", message_size=64, capacity=4, receivers=2)
        say(sorted(domain.mailboxes()))
        """
    )
    answer = child.heard()
    if answer != errno.ENOSPC:
        pytest.skip(f"no mount namespace here: {answer}")
    assert child.heard() == errno.ENOSPC
    assert child.heard() == ["shmcast.small.0", "shmcast.small.1"]
    assert child.heard() == "x"
    assert child.heard() == 1
    assert child.heard() == ["first", "third"]
    assert child.ended() == 0


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


def test_every_code_of_the_core_has_a_meaning_and_a_next_step() -> None:
    codes = [getattr(lib, n) for n in dir(lib) if n.startswith("SC_") and getattr(lib, n) < -1000]
    assert len(codes) == 19
    for code in codes:
        error = shmcast.errors.error_from(code, "box")
        assert "box: " in str(error)
        assert "code" not in str(error)
