"""Frames from a camera process, written and read in place: no copy in Python at either end."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np

from shmcast import Mailbox

SHAPE = (480, 640, 3)
FRAMES = 50
FRAME_BYTES = int(np.prod(SHAPE))


def camera(name: str) -> None:
    with Mailbox.open(name) as box, box.sender() as sender:
        for number in range(FRAMES):
            with sender.loan(FRAME_BYTES) as slot:  # sent when the block ends
                slot.array(dtype="uint8", shape=SHAPE)[:] = number


def main() -> None:
    name = f"frames-{os.getpid()}"
    size = {"message_size": FRAME_BYTES, "capacity": 4, "senders": 1}
    with Mailbox.create(name, copies=2, **size) as box, box.receiver() as receiver:
        process = multiprocessing.get_context("spawn").Process(target=camera, args=(name,))
        process.start()
        try:
            for number in range(FRAMES):
                with receiver.view(timeout=30.0) as frame:  # the sender waits for this slot
                    assert frame.array(dtype="uint8", shape=SHAPE).mean() == number
            process.join()
            print(f"{FRAMES} frames of {FRAME_BYTES:,} bytes")
        finally:
            process.kill()
            Mailbox.remove(name)


if __name__ == "__main__":
    main()
