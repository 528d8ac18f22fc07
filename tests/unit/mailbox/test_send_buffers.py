"""Whatever has bytes can be sent."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from shmcast import Mailbox


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
