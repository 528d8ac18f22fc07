"""Messages and receipts made in C are like any other."""

from __future__ import annotations

import copy
import pickle

import pytest

from shmcast import Mailbox
from shmcast._fast import messages_of
from shmcast.mailbox.records import Message, Receipt


@pytest.fixture
def made(name: str) -> tuple[Message, Receipt]:
    with Mailbox.create(name, copies=1, message_size=64) as box:
        sender, receiver = box.sender(), box.receiver()
        receipt = sender.send(b"x")
        return receiver.receive(timeout=10), receipt


def test_a_made_record_is_equal_to_a_plain_one_and_prints_like_it(
    made: tuple[Message, Receipt],
) -> None:
    for record in made:
        plain = type(record)(*record)
        assert type(record) in (Message, Receipt)
        assert record == plain and hash(record) == hash(plain)
        assert repr(record) == repr(plain)
        assert record._asdict() == plain._asdict()
        assert record._replace(sequence=9) == plain._replace(sequence=9)


def test_a_made_record_can_be_copied_and_pickled(made: tuple[Message, Receipt]) -> None:
    for record in made:
        assert copy.copy(record) == copy.deepcopy(record) == record
        assert pickle.loads(pickle.dumps(record)) == record  # noqa: S301 - our own bytes


def test_words_that_do_not_fit_the_payloads_are_refused() -> None:
    with pytest.raises(ValueError, match="2 payloads, but 40 bytes of words"):
        messages_of((b"a", b"b"), bytes(40))
