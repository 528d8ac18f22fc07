"""A batch is a sequence of messages, however lazily it is unpacked."""

from __future__ import annotations

from struct import pack

import pytest

from shmcast import Batch, Mailbox, Message

MESSAGES = [Message(b"a", 10, 256, 0), Message(b"bb", 11, 256, 1), Message(b"", 12, 512, 0)]


def test_a_batch_gives_back_what_it_was_made_of() -> None:
    words = b"".join(pack("5Q", m.timestamp, m.sequence, m.sender, 0, 0) for m in MESSAGES)
    batch = Batch(tuple(m.data for m in MESSAGES), words)
    assert list(batch) == MESSAGES
    assert [batch[i] for i in range(3)] == MESSAGES
    assert batch[-1] == MESSAGES[-1]
    assert batch[1:] == MESSAGES[1:]
    assert batch.timestamps.tolist() == [10, 11, 12]
    assert batch == MESSAGES
    assert batch != MESSAGES[:2]
    with pytest.raises(IndexError):
        batch[3]


@pytest.mark.parametrize("sizes", [[8, 8, 8, 8], [0, 5, 64, 1], [0, 0, 0]])
def test_payloads_of_equal_and_of_different_sizes_are_cut_right(
    name: str, sizes: list[int]
) -> None:
    with Mailbox.create(name, copies=1, message_size=64, capacity=16) as box:
        tx, rx = box.sender(), box.receiver()
        sent = [bytes([65 + i]) * size for i, size in enumerate(sizes)]
        receipt = tx.send_many(sent)
        batch = rx.receive_many(16, timeout=10)
        assert list(batch.payloads) == sent
        assert [m.timestamp for m in batch] == [receipt.timestamp + i for i in range(len(sizes))]
        assert [m.sequence for m in batch] == list(range(len(sizes)))
