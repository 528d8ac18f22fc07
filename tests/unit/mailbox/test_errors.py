"""Every error of the tree, reached the way a user would reach it; nothing is half-done after."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import shmcast
from helpers import SHM, Child, bounds, patch, segments_of, wait_until
from shmcast import Mailbox, PeerDead
from shmcast._native import lib
from shmcast.mailbox import faults

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


def test_every_code_of_the_core_has_a_meaning_and_a_next_step() -> None:
    codes = [getattr(lib, n) for n in dir(lib) if n.startswith("SC_") and getattr(lib, n) < -1000]
    assert len(codes) == 23
    for code in codes:
        error = shmcast.errors.error_from(code, "box")
        assert "box: " in str(error)
        assert "code" not in str(error)


@pytest.mark.parametrize(
    "strike", [faults.kill_process, faults.stop_process, faults.continue_process]
)
def test_a_fault_for_a_dead_process_says_that_it_is_dead(
    start: Start, strike: Callable[[int], None]
) -> None:
    child = start("say('here')")
    assert child.heard() == "here"
    wait_until(
        lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, "it waits to be buried"
    )
    with pytest.raises(PeerDead, match=f"process {child.pid}: .* is dead"):
        strike(child.pid)
    child.ended()
    with pytest.raises(PeerDead):
        strike(child.pid)
