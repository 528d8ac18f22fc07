"""Threads that share one sender."""

from __future__ import annotations

import os
import threading
from itertools import chain

from shmcast import Mailbox

SENDS = 10_000
THREADS = 4


def test_threads_that_share_a_sender_each_get_the_receipt_of_their_own_message() -> None:
    """They used to share one place for receipts, and read each other's."""
    name = f"shared-sender-{os.getpid()}"
    sequences: list[list[int]] = [[] for _ in range(THREADS)]
    with Mailbox.create(name, copies=1, message_size=16, capacity=1024) as box:
        try:
            sender = box.sender()

            def send(mine: list[int]) -> None:
                mine.extend(sender.send(b"x", timeout=10).sequence for _ in range(SENDS))

            threads = [threading.Thread(target=send, args=(mine,)) for mine in sequences]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            Mailbox.remove(name)
    assert sorted(chain(*sequences)) == list(range(SENDS * THREADS))
