"""Two processes and one mailbox in three copies; one copy is destroyed on the way."""

from __future__ import annotations

import multiprocessing
import os

from shmcast import Mailbox
from shmcast.mailbox.faults import kill_copy

COUNT = 1000


def produce(name: str) -> None:
    with Mailbox.open(name) as box, box.sender() as sender:
        for number in range(COUNT):
            sender.send(f"message {number}".encode())


def main() -> None:
    name = f"example-{os.getpid()}"
    with Mailbox.create(name, copies=3) as box, box.receiver() as receiver:
        # spawn: a forked child would inherit handles that belong to its parent.
        producer = multiprocessing.get_context("spawn").Process(target=produce, args=(name,))
        producer.start()
        try:
            for number in range(COUNT):
                assert receiver.receive(timeout=30.0).data == f"message {number}".encode()
                if number == COUNT // 2:
                    kill_copy(box, 0)  # nobody notices
            producer.join()
            print(f"{COUNT} messages in order, copies: {[state.value for state in box.copies]}")
        finally:
            producer.kill()
            Mailbox.remove(name)


if __name__ == "__main__":
    main()
