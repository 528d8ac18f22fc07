"""One camera, three consumers: frames are written once, in place, and read in place by all.

The analyst looks at every frame; the recorder copies what it keeps; the display wants the newest
frame only and skips the rest. Nothing is dropped by the mailbox: the camera waits for the slowest.

    python examples/video_fanout.py [frames]
"""

from __future__ import annotations

import multiprocessing
import os
import struct
import sys
from multiprocessing.connection import Connection

import numpy as np

from shmcast import Mailbox, Receiver

SHAPE = (480, 640, 3)
PIXELS = int(np.prod(SHAPE))
HEADER = struct.Struct("<QQ")  # frame number, exposure in ns: before the pixels
LAST = 1 << 63  # set in the number of the last frame


def camera(name: str, frames: int) -> None:
    with Mailbox.open(name) as box, box.sender() as sender:
        for number in range(frames):
            with sender.loan(HEADER.size + PIXELS) as slot:  # sent when the block ends
                flag = LAST if number == frames - 1 else 0
                HEADER.pack_into(slot.data, 0, number | flag, 1_000_000)
                pixels(slot.data)[:] = number % 256


def pixels(data: memoryview) -> np.ndarray:
    return np.frombuffer(data, np.uint8, offset=HEADER.size).reshape(SHAPE)


def analyst(receiver: Receiver) -> str:
    """Every frame, read where it lies."""
    seen = 0
    while True:
        with receiver.view(timeout=30) as frame:
            number, _ = HEADER.unpack_from(frame.data)
            image = pixels(frame.data)
            assert image[0, 0, 0] == image[-1, -1, -1] == (number & ~LAST) % 256  # whole
            assert number & ~LAST == seen  # every one, in order
            seen += 1
        if number & LAST:
            return f"analyst: {seen} frames, every one whole and in order"


def recorder(receiver: Receiver) -> str:
    """Keeps a small copy of each: the frame itself must not be used after its block."""
    kept: list[np.ndarray] = []
    while True:
        with receiver.view(timeout=30) as frame:
            number, _ = HEADER.unpack_from(frame.data)
            kept.append(pixels(frame.data)[::8, ::8].copy())
        if number & LAST:
            return f"recorder: {len(kept)} thumbnails, {sum(k.nbytes for k in kept):,} bytes"


def display(receiver: Receiver) -> str:
    """The newest frame only: what has come meanwhile is passed over."""
    shown = passed = 0
    while True:
        newest = receiver.receive(timeout=30)
        while receiver.depth:
            newest, passed = receiver.receive(timeout=30), passed + 1
        shown += 1
        if HEADER.unpack_from(newest.data)[0] & LAST:
            return f"display: {shown} shown, {passed} passed over"


CONSUMERS = {"analyst": analyst, "recorder": recorder, "display": display}


def consume(name: str, who: str, pipe: Connection) -> None:
    with Mailbox.open(name) as box, box.receiver() as receiver:
        pipe.send("here")  # from now on it gets every frame
        pipe.send(CONSUMERS[who](receiver))


def main() -> None:
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    name = f"video-{os.getpid()}"
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit handles of its parent
    size = {"message_size": HEADER.size + PIXELS, "capacity": 8, "senders": 1}
    processes, pipes = [], []
    with Mailbox.create(name, copies=1, **size):  # frames of a moment: one copy is enough
        try:
            for who in CONSUMERS:
                ours, theirs = spawn.Pipe()
                pipes.append(ours)
                processes.append(spawn.Process(target=consume, args=(name, who, theirs)))
                processes[-1].start()
            assert all(pipe.poll(60) and pipe.recv() == "here" for pipe in pipes)
            processes.append(spawn.Process(target=camera, args=(name, frames)))
            processes[-1].start()
            for pipe in pipes:
                assert pipe.poll(60), "a consumer is stuck"
                print(pipe.recv())
            for process in processes:
                process.join()
        finally:
            for process in processes:
                process.kill()
            Mailbox.remove(name)


if __name__ == "__main__":
    main()
