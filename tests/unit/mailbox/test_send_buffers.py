"""Whatever has bytes can be sent."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from helpers import segments_of
from shmcast import CopyState, Loan, Mailbox, View


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


LOOKS = [
    lambda slot: slot.array(),
    lambda slot: slot.array("float32", (2, 8))[1:],
    lambda slot: slot.data[4:],
    lambda slot: np.frombuffer(slot.data, np.uint8, offset=8),
    memoryview,
]


@pytest.mark.parametrize("look", LOOKS, ids=["array", "part", "slice", "numpy", "memoryview"])
def test_a_loan_that_is_still_looked_into_is_not_sent_until_nobody_can_write(
    box: Mailbox, look: Callable[[Loan], Any]
) -> None:
    sender, receiver = box.sender(), box.receiver()
    kept: list[Any] = []
    slot = sender.loan(64).__enter__()
    slot.data[:] = b"a" * 64
    kept.append(look(slot))
    with pytest.raises(BufferError, match="outlives its block"):
        slot.__exit__(None, None, None)
    assert slot.receipt is None
    for again in (lambda: sender.send(b"x"), lambda: sender.loan(64).__enter__()):
        with pytest.raises(BufferError, match="earlier loan"):
            again()
    kept.clear()
    with sender.loan(64) as slot:
        slot.data[:] = b"b" * 64
    assert slot.receipt is not None
    assert receiver.receive(timeout=10).data == b"b" * 64
    assert box.copies == [CopyState.INTACT] * 2


def test_a_loan_that_raised_is_watched_as_well(box: Mailbox) -> None:
    sender = box.sender()
    kept: list[Any] = []
    slot = sender.loan(64)
    with contextlib.suppress(KeyError), slot:
        kept.append(slot.array())
        raise KeyError
    with pytest.raises(BufferError, match="earlier loan"):
        sender.send_many([b"x"])
    kept.clear()
    sender.send_many([b"x"])


def test_the_memory_of_a_loan_cannot_be_had_once_it_is_sent(box: Mailbox) -> None:
    with box.sender().loan(64) as slot:
        data = slot.data  # no harm: it ends with the block
    for late in (lambda: data[0], slot.array, lambda: slot.data):
        with pytest.raises(ValueError, match=r"released memoryview|outside of its block"):
            late()


def test_an_abandoned_loan_is_collected(box: Mailbox) -> None:
    sender = box.sender()
    assert sender.loan(64).__enter__().data.nbytes == 64
    gone = weakref.ref(sender)
    del sender
    gc.collect()
    assert gone() is None


def test_loans_and_views_are_made_by_their_ends() -> None:
    for make in (lambda: Loan("x", 0, 1, None), lambda: View("x", None)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="made by"):
            make()
