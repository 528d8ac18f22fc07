"""The largest numbers that a mailbox promises, with processes and with bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import numpy as np
import pytest

import shmcast
from helpers import PATIENCE_S, bounds, wait_until
from shmcast import Mailbox
from shmcast.realtime.bounds import NS_PER_MS

MANY = 64
EACH = 2
MIB_64 = 64 << 20


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    finally:
        os._exit(0)


def read_exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data))
        assert more, "a child has died"
        data += more
    return data


def test_sixty_four_processes_send_to_sixty_four_others(name: str) -> None:
    joined, say_joined = os.pipe()
    heard, say_heard = os.pipe()

    def receive() -> None:
        with Mailbox.open(name, timeout=PATIENCE_S) as box:
            rx = box.receiver(timeout=PATIENCE_S, wait="block")
            os.write(say_joined, b".")
            order = hashlib.sha256()
            for _ in range(MANY * EACH):
                message = rx.receive(timeout=PATIENCE_S)
                order.update(b"%d %d %s\n" % (message.timestamp, message.sender, message.data))
            os.write(say_heard, order.digest())  # less than a pipe writes at once

    def send() -> None:
        with Mailbox.open(name, timeout=PATIENCE_S) as box:
            tx = box.sender(timeout=PATIENCE_S)
            for i in range(EACH):
                tx.send(b"%d" % i, timeout=PATIENCE_S)
            read_exactly(joined, 1)  # stays until all are there

    with Mailbox.create(name, message_size=16, capacity=4, senders=MANY, receivers=MANY):
        children = [forked(receive) for _ in range(MANY)]
        read_exactly(joined, MANY)
        children += [forked(send) for _ in range(MANY)]
        digests = read_exactly(heard, MANY * 32)
        os.write(say_joined, b"." * MANY)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        for fd in (joined, say_joined, heard, say_heard):
            os.close(fd)
        assert len({digests[at : at + 32] for at in range(0, len(digests), 32)}) == 1


@pytest.mark.parametrize("copies", [1, 3])
def test_the_largest_messages_arrive_whole_in_every_protocol(
    name: str, protocol: str, copies: int
) -> None:
    frame = np.random.default_rng(copies).integers(0, 256, MIB_64, dtype=np.uint8)
    slow = bounds(protocol, copies, write_ns=400 * NS_PER_MS // copies, read_ns=100 * NS_PER_MS)
    with Mailbox.create(
        name,
        protocol=protocol,
        copies=copies,
        message_size=MIB_64,
        capacity=2,
        senders=1,
        receivers=1,
        bounds=slow,
    ) as box:
        tx, rx = box.sender(), box.receiver()

        def sent_and_received() -> bool:
            """Late senders are told, and nobody delivers theirs."""
            try:
                tx.send(frame, timeout=PATIENCE_S)
                with rx.view(timeout=1) as view:
                    return bool(np.array_equal(view.array(), frame))
            except (shmcast.Rejected, TimeoutError):
                return False

        wait_until(sent_and_received, "a frame arrives whole")
