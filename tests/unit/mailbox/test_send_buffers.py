"""Whatever has bytes can be sent."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from helpers import segments_of
from shmcast import CopyState, Mailbox


@pytest.fixture
def box() -> Iterator[Mailbox]:
    name = f"buffers-{os.getpid()}"
    with Mailbox.create(name, copies=2, message_size=256, capacity=128) as made:
        try:
            yield made
        finally:
            Mailbox.remove(name)


@pytest.mark.parametrize(
    "data",
    [
        b"plain",
        bytearray(b"changeable"),
        memoryview(b"looked at"),
        np.arange(8, dtype=np.float32),
        np.arange(16, dtype=np.int16)[::2],
    ],
    ids=["bytes", "bytearray", "memoryview", "array", "strided array"],
)
def test_anything_with_bytes_arrives_as_its_bytes(box: Mailbox, data: object) -> None:
    sender, receiver = box.sender(), box.receiver()
    sender.send(data)  # type: ignore[arg-type]
    assert receiver.receive(timeout=1).data == memoryview(data).tobytes()  # type: ignore[call-overload]


@pytest.mark.parametrize("checksum", [True, False], ids=["checksum", "no checksum"])
def test_a_buffer_that_changes_while_it_is_sent_damages_no_copy(name: str, checksum: bool) -> None:
    """What arrives may be a mixture, but every copy holds the same one, with its checksum."""
    frame = np.zeros(1 << 20, dtype=np.uint8)
    over = threading.Event()

    def scribble() -> None:
        for value in itertools.cycle(range(256)):
            if over.is_set():
                return
            frame[:] = value

    with Mailbox.create(
        name, copies=2, message_size=frame.nbytes, capacity=2, senders=1, checksum=checksum
    ) as box:
        sender, receiver = box.sender(), box.receiver()
        thread = threading.Thread(target=scribble)
        thread.start()
        try:
            for _ in range(40):
                sender.send(frame)
                first, second = (path.read_bytes() for path in segments_of(name))
                same = first[-2 * frame.nbytes :] == second[-2 * frame.nbytes :]
                assert same  # not compared there: pytest would show two MiB of difference
                assert len(receiver.receive().data) == frame.nbytes
        finally:
            over.set()
            thread.join()
        assert box.copies == [CopyState.INTACT] * 2
