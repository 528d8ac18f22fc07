"""How ends of a mailbox end: at the interpreter's exit, when leaving takes too long. What asyncio's
do while a copy is replaced, and whose the new one is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import shmcast
from helpers import Child, Layout, bounds, patch, peek, seal, segments_of, unseal
from shmcast import Mailbox
from shmcast._native import lib
from shmcast.mailbox import faults

Start = Callable[..., Child]


# Runs after everything of shmcast has run at exit, as a daemon thread may.
LAST_CALLS = """
import atexit
calls = []
def last():
    for call in calls:
        try:
            call()
            print("no error", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
atexit.register(last)
import sys
import shmcast
box = shmcast.Mailbox.open(sys.argv[1])
tx, rx = box.sender(), box.receiver()
calls += [lambda: tx.send(b"x"), lambda: rx.receive(timeout=0), lambda: tx.send_many([b"y"])]
"""


def test_a_call_that_comes_after_the_exit_handlers_finds_its_end_closed(name: str) -> None:
    with Mailbox.create(name, message_size=64) as box, box.receiver() as witness:
        done = subprocess.run(
            [sys.executable, "-c", LAST_CALLS, name],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "MALLOC_PERTURB_": "165"},  # freed memory is no handle any more
        )
        assert (done.returncode, done.stdout.split()) == (0, ["ValueError"] * 3), done.stderr
        assert [s for s in box.stats().senders if s.pid] == [], "places are given back at exit"
        assert len(box.stats().receivers) == 1
        with pytest.raises(TimeoutError):
            witness.receive(timeout=0)


def test_leaving_that_takes_too_long_closes_and_brings_what_had_come(name: str) -> None:
    with Mailbox.create(name, message_size=64) as box, box.sender() as tx:
        rx = box.receiver()
        tx.send(b"one")
        tx.send(b"two")
        faults.skew_clock(drift=-1.0)  # it stands still, so the time to leave never comes
        with pytest.raises(TimeoutError) as caught:
            rx.leave(timeout=0.01)
        assert isinstance(caught.value, shmcast.LeftEarly)
        assert [m.data for m in caught.value.messages] == [b"one", b"two"]
        with pytest.raises(ValueError, match="closed"):
            rx.receive()
        assert box.stats().receivers == []


def freeze(name: str) -> None:
    """As if somebody were replacing a copy; it is nobody, so whoever waits ends it."""
    for path in segments_of(name):
        config = unseal(peek(path, Layout.CONFIG, 8))
        patch(path, Layout.CONFIG, seal((config >> 8) + 1 << 8 | 128 | config & 127))


def test_asend_waits_while_a_copy_is_replaced_and_counts_no_full_lane(name: str) -> None:
    async def scenario(box: Mailbox) -> None:
        with box.sender() as tx, box.receiver() as rx:
            await tx.asend(b"before")
            freeze(name)
            await tx.asend(b"meanwhile", timeout=20)
            await tx.asend(b"0")
            await tx.asend(b"1")  # four: the lane is full
            waiting = asyncio.create_task(tx.asend(b"2", timeout=20))
            await asyncio.sleep(0)
            got = [(await rx.areceive(timeout=20)).data for _ in range(5)]
            await waiting
            assert got == [b"before", b"meanwhile", b"0", b"1", b"2"]

    with Mailbox.create(name, message_size=64, capacity=4) as box:
        asyncio.run(scenario(box))
        assert [s.full for s in box.stats().senders] == [0]


@pytest.mark.parametrize("timed", ["crash", "timing"])
def test_asyncio_leaves_waiting_for_bounds_to_a_thread(name: str, timed: str) -> None:
    """The loop's own thread never looks itself."""
    callers: list[int] = []

    class Watched(shmcast.Receiver):
        def receive(self, **how: float | None) -> shmcast.Message:  # type: ignore[override]
            callers.append(threading.get_ident())
            return super().receive(**how)

    async def scenario(box: Mailbox) -> list[bytes]:
        rx = Watched(
            box.segments, box.index, 64, 10.0, wait=shmcast.Wait.BLOCK, late=shmcast.Late.COUNT
        )
        with box.sender() as tx, rx:
            await tx.asend(b"x", timeout=20)
            return [(await rx.areceive(timeout=20)).data]

    quick = bounds(timed, 2)
    with Mailbox.create(name, protocol=timed, copies=2, message_size=64, bounds=quick) as box:
        assert asyncio.run(scenario(box)) == [b"x"]
    assert threading.get_ident() not in callers


def test_an_undecided_send_brings_the_receipt_that_confirm_takes(name: str) -> None:
    """How it comes about: tests/c/test_seams.c."""
    with Mailbox.create(name, message_size=64) as box, box.sender() as tx:
        with pytest.raises(shmcast.DeadlineMissed, match="confirm") as caught:
            tx._fail(lib.SC_UNDECIDED)
        assert isinstance(caught.value, shmcast.Undecided)
        tx.confirm(caught.value.receipt)
        tx.confirm(tx.send(b"x"))


OWNER = """
os.setgroups([])
os.setgid(12345)
os.setuid(12345)
box = shmcast.Mailbox.create(args[0], copies=2, message_size=64, mode=args[1])
tx, rx = box.sender(), box.receiver()
tx.send(b"before")
say("made")
hear()
tx.send(b"after")
say([rx.receive(timeout=20).data.decode() for _ in range(2)])
with shmcast.Mailbox.open(args[0]) as again:
    say([copy.value for copy in again.copies])
shmcast.Mailbox.remove(args[0])
say("removed")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to replace another user's copy")
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_copy_that_root_replaces_stays_its_owners(name: str, mode: int, start: Start) -> None:
    owner = start(OWNER, name, mode)
    assert owner.heard() == "made"
    with Mailbox.open(name) as box:
        faults.kill_copy(box, 0)
        assert box.replace() == 1
    owner.tell()
    assert owner.heard() == ["before", "after"]
    assert owner.heard() == ["intact", "intact"]
    assert owner.heard() == "removed"
    assert segments_of(name) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_guest_who_cannot_give_the_new_copy_to_its_owner_is_refused(
    name: str, start: Start
) -> None:
    with Mailbox.create(name, copies=2, message_size=64, mode=0o666) as box, box.sender() as tx:
        faults.kill_copy(box, 0)
        guest = start(
            """
            os.setgroups([])
            os.setgid(12345)
            os.setuid(12345)
            box = shmcast.Mailbox.open(args[0])
            try:
                box.replace(timeout=20)
            except shmcast.NotPermitted as error:
                say(str(error))
            """,
            name,
        )
        assert "owner" in guest.heard()
        tx.send(b"alive")
        assert len(segments_of(name)) == 2, "the failed one and the intact one"
        assert box.replace() == 1
