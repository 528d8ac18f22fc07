"""A sender that dies at the last step of a send must not hold up the others."""

from __future__ import annotations

import mmap
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from shmcast.mailbox.mailbox import Mailbox

_HEADER_BYTES = 4096  # csrc/layout.h: the sender table follows the header
_VICTIM = """
import os, signal, sys
from shmcast.mailbox.mailbox import Mailbox
with Mailbox.open(sys.argv[1]) as box:
    sender = box.sender()
    sender.send(b"last words")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def box() -> Iterator[Mailbox]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    with Mailbox.create(name, copies=3, message_size=64, capacity=8) as opened:
        yield opened
    Mailbox.remove(name)


def sealed(value: int) -> int:
    """csrc/seal.h."""
    check = ((value ^ 0x5348) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 48
    return value << 16 | check


def raise_intent_again(name: str) -> None:
    """Lane 0 as its owner leaves it that dies between the a-flags and lowering the intent."""
    for copy in range(3):
        with Path(f"/dev/shm/shmcast.{name}.{copy}").open("r+b") as file:
            memory = mmap.mmap(file.fileno(), _HEADER_BYTES * 2)
            word = memoryview(memory)[_HEADER_BYTES : _HEADER_BYTES + 8].cast("Q")
            intent = word[0] >> 16
            assert sealed(intent) == word[0] and intent & 1, "done: op << 1 | 1"
            word[0] = sealed(intent ^ 1)
            word.release()


def test_a_sender_that_dies_before_it_lowers_its_intent_stops_nobody(box: Mailbox) -> None:
    with box.receiver() as receiver:
        subprocess.run([sys.executable, "-c", _VICTIM, box.name], check=False, timeout=30)
        raise_intent_again(box.name)
        with box.sender() as sender:
            sender.send(b"next")
            assert receiver.receive(timeout=1.0).data == b"last words"
            assert receiver.receive(timeout=1.0).data == b"next"
