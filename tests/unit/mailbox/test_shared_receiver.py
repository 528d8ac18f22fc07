"""Threads that share one receiver."""

from __future__ import annotations

import os
import threading

from shmcast import Mailbox

MESSAGES = 20_000
THREADS = 4


def test_threads_that_share_a_receiver_get_each_message_once_whole_and_in_order() -> None:
    """Each used to overwrite the other's buffer between the fetch and its unpacking."""
    name = f"shared-receiver-{os.getpid()}"
    taken: list[list[tuple[int, bytes]]] = [[] for _ in range(THREADS)]
    with Mailbox.create(name, copies=1, message_size=16, capacity=1024) as box:
        try:
            sender, receiver = box.sender(), box.receiver(wait="block")

            def take(mine: list[tuple[int, bytes]]) -> None:
                while (message := receiver.receive(timeout=10)).data != b"end":
                    mine.append((message.sequence, message.data))

            threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
            for thread in threads:
                thread.start()
            for number in range(MESSAGES):
                sender.send(b"%d" % number, timeout=10)
            for _ in threads:
                sender.send(b"end", timeout=10)
            for thread in threads:
                thread.join()
        finally:
            Mailbox.remove(name)
    got = [item for mine in taken for item in mine]
    assert sorted(sequence for sequence, _ in got) == list(range(MESSAGES))
    assert all(data == b"%d" % sequence for sequence, data in got)
    assert all(mine == sorted(mine) for mine in taken)
