"""Joining and leaving while traffic flows: the paper's appendix A.1.1 as tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

import shmcast
from helpers import Child, bounds, wait_until
from shmcast import CopyState, Mailbox
from shmcast.mailbox import server
from shmcast.realtime.bounds import NS_PER_MS

Start = Callable[..., Child]


@pytest.fixture
def box(name: str, protocol: str) -> Iterator[Mailbox]:
    quick = bounds(protocol, 3, write_ns=20 * NS_PER_MS, flag_ns=NS_PER_MS)
    with Mailbox.create(
        name, message_size=16, capacity=256, protocol=protocol, bounds=quick
    ) as made:
        yield made


class Counting:
    """A thread that sends 0, 1, 2, ...; `sent` has what was accepted and is complete."""

    def __init__(self, box: Mailbox) -> None:
        self._sender = box.sender()
        self._stop = threading.Event()
        self.sent: list[shmcast.Receipt] = []
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(0.0005):
            self.sent.append(self._sender.send(b"%d" % len(self.sent), timeout=30))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._sender.close()


@pytest.fixture
def counting(box: Mailbox) -> Iterator[Counting]:
    sending = Counting(box)
    wait_until(lambda: sending.sent, "the first message")
    yield sending
    sending.stop()


def test_claim_1_whoever_joined_gets_every_message_sent_after_the_join_returned(
    box: Mailbox, counting: Counting
) -> None:
    """A.1.1: from its entry time on, no message is missing, and none is older."""
    for _ in range(3):
        with box.receiver() as rx:
            first_after = len(counting.sent) + 1  # one send may be under way
            got = [int(rx.receive(timeout=20).data) for _ in range(20)]
        assert got[0] <= first_after
        assert got == list(range(got[0], got[0] + 20))


def test_claim_2_whoever_left_gets_every_message_before_the_leave_and_none_after(
    box: Mailbox, counting: Counting
) -> None:
    """A.1.1: everything with a timestamp before the exit time, nothing after it."""
    for _ in range(3):
        rx = box.receiver()
        start = int(rx.receive(timeout=20).data)
        sent_before = len(counting.sent)
        rest = [int(m.data) for m in rx.leave(timeout=20)]
        assert rest == list(range(start + 1, start + 1 + len(rest)))
        assert sent_before <= start + len(rest) + 1
        with pytest.raises(ValueError, match="closed"):
            rx.receive(timeout=0)


def test_a_receiver_that_left_holds_up_nobody(box: Mailbox) -> None:
    with box.sender() as tx:
        rx = box.receiver()
        tx.send(b"x")
        assert [m.data for m in rx.leave(timeout=20)] == [b"x"]
        for _ in range(2 * box.capacity):
            tx.send(b"y", timeout=20)
        assert box.stats().receivers == []


def test_a_receiver_gets_nothing_from_before_it_joined(box: Mailbox) -> None:
    with box.sender() as tx:
        for _ in range(5):
            tx.send(b"old")
        with box.receiver() as rx:
            tx.send(b"new")
            assert rx.receive(timeout=20).data == b"new"


def test_members_that_come_and_go_see_stretches_of_one_order(name: str) -> None:
    """Small lanes and fast senders: newcomers meet lanes that are lapped as they look."""
    with (
        Mailbox.create(name, message_size=16, capacity=2, senders=3) as box,
        box.receiver() as whole,
    ):
        stop, visited, sent = threading.Event(), threading.Event(), threading.Event()

        def send(tag: int) -> None:
            with box.sender() as tx:
                i = 0
                while not visited.is_set():
                    i += 1
                    tx.send(b"%d.%d" % (tag, i), timeout=30)

        stretches: list[list[shmcast.Message]] = []

        def visit() -> None:
            while not stop.is_set():
                with box.receiver(timeout=20) as rx:
                    stretches.append([rx.receive(timeout=20) for _ in range(10)])

        everything: list[shmcast.Message] = []

        def read() -> None:
            while True:
                try:
                    everything.extend(whole.receive_many(timeout=0.05))
                except TimeoutError:
                    if sent.is_set():
                        return

        senders = [threading.Thread(target=send, args=(tag,)) for tag in range(2)]
        visitors = [threading.Thread(target=visit) for _ in range(2)]
        reader = threading.Thread(target=read)
        for thread in [*senders, *visitors, reader]:
            thread.start()
        wait_until(lambda: len(stretches) >= 100, "a hundred visits")
        for event, threads in ((stop, visitors), (visited, senders), (sent, [reader])):
            event.set()
            for thread in threads:
                thread.join()
        where = {m: i for i, m in enumerate(everything)}
        for got in stretches:
            first = where[got[0]]
            assert everything[first : first + 10] == got
        assert box.copies == [CopyState.INTACT] * 3


def test_a_dead_receiver_does_not_hold_up_the_senders(box: Mailbox, start: Start) -> None:
    child = start(
        """
        rx = shmcast.Mailbox.open(args[0]).receiver()
        say("joined")
        hear()
        """,
        box.name,
    )
    child.heard()
    child.kill()
    with box.sender() as tx:
        for _ in range(box.capacity + 10):
            tx.send(b"x", timeout=20)
        assert box.stats().receivers == []


def test_a_stopped_receiver_is_not_taken_for_dead(box: Mailbox, start: Start) -> None:
    child = start(
        """
        rx = shmcast.Mailbox.open(args[0]).receiver()
        say("joined")
        hear()
        say([rx.receive(timeout=20).data.decode() for _ in range(3)])
        """,
        box.name,
    )
    child.heard()
    shmcast.mailbox.faults.stop_process(child.pid)
    with box.sender() as tx:
        for i in range(3):
            tx.send(b"%d" % i)
    assert box.reap() == 0
    shmcast.mailbox.faults.continue_process(child.pid)
    child.tell("go")
    assert child.heard() == ["0", "1", "2"]


def test_senders_killed_at_any_instruction_leave_a_mailbox_that_goes_on(
    name: str, start: Start
) -> None:
    """Each heir takes the dead one's lane; the two receivers agree on every message."""
    with Mailbox.create(name, message_size=64, capacity=8, senders=1) as box:
        one, other = box.receiver(), box.receiver()
        for _ in range(12):
            child = start(
                """
                tx = shmcast.Mailbox.open(args[0]).sender(timeout=20)
                say("ready")
                i = 0
                while True:
                    i += 1
                    tx.send(f"{os.getpid()}:{i}".encode(), timeout=30)
                """,
                name,
            )
            child.heard()
            for _ in range(20):
                assert one.receive(timeout=20) == other.receive(timeout=20)
            child.kill()
        rests: list[list[shmcast.Message]] = [[], []]
        for rx, rest in zip((one, other), rests, strict=True):
            with contextlib.suppress(TimeoutError):  # the last one dead may have left a full lane
                while True:
                    rest.append(rx.receive(timeout=0))
        with box.sender(timeout=20) as tx:
            tx.send(b"end", timeout=20)
        for rx, rest in zip((one, other), rests, strict=True):
            while not rest or rest[-1].data != b"end":
                rest.append(rx.receive(timeout=20))
        assert rests[0] == rests[1]
        assert box.copies == [CopyState.INTACT] * 3


def test_a_server_frees_places_and_replaces_copies_by_itself(name: str, start: Start) -> None:
    with Mailbox.create(name, message_size=16, capacity=4, senders=1) as box:
        child = start(
            """
            tx = shmcast.Mailbox.open(args[0]).sender()
            say("holds")
            hear()
            """,
            name,
        )
        child.heard()
        child.kill()
        shmcast.mailbox.faults.kill_copy(box, 0)
        assert name in server.names()
        with server.Server(name, period_s=0.01) as running:
            wait_until(lambda: box.copies == [CopyState.INTACT] * 3, "the copy is replaced")
            wait_until(lambda: any(done.freed for done in running.history), "the lane is freed")
        with box.sender(timeout=0) as tx:
            assert tx.send(b"x")


HIDDEN = """
import subprocess
from shmcast.mailbox import server
subprocess.run(["mount", "-t", "proc", "proc", "/proc", "-o", "hidepid=2"], check=True)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
say(os.path.exists(f"/proc/{os.getppid()}/stat"))
box = shmcast.Mailbox.open(args[0])
say(server.sweep(args[0], replace=False).freed)
try:
    box.sender(timeout=0.05)
    say("took a living process's lane")
except shmcast.MailboxFull:
    say("every lane is taken")
"""


def test_a_process_that_proc_hides_from_us_is_not_taken_for_dead(name: str, start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: /proc is mounted with hidepid")
    unshare = ("unshare", "-m")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not permitted here")
    with shmcast.Mailbox.create(name, copies=2, senders=1, mode=0o666) as box:
        tx, rx = box.sender(), box.receiver()
        tx.send(b"before")
        other = start(HIDDEN, name, before=unshare)
        assert not other.heard()
        assert other.heard() == 0
        assert other.heard() == "every lane is taken"
        tx.send(b"after")
        assert [rx.receive(timeout=20).data for _ in range(2)] == [b"before", b"after"]
