"""Messages and receipts made in a hurry are like any other."""

from __future__ import annotations

import copy
import pickle

import pytest

from shmcast.mailbox.records import Message, Receipt, make_message, make_receipt

PAIRS = [
    (make_message((b"x", 1, 2, 3)), Message(b"x", 1, 2, 3)),
    (make_receipt((1, 2, 3)), Receipt(1, 2, 3)),
]


@pytest.mark.parametrize(("made", "plain"), PAIRS, ids=["message", "receipt"])
def test_a_made_record_is_equal_to_a_plain_one_and_prints_like_it(
    made: Message | Receipt, plain: Message | Receipt
) -> None:
    assert isinstance(made, type(plain))
    assert made == plain and hash(made) == hash(plain)
    assert repr(made) == repr(plain)
    assert made._asdict() == plain._asdict()
    assert made._replace(sequence=9) == plain._replace(sequence=9)


@pytest.mark.parametrize(("made", "plain"), PAIRS, ids=["message", "receipt"])
def test_a_made_record_can_be_copied_and_pickled(
    made: Message | Receipt, plain: Message | Receipt
) -> None:
    assert copy.copy(made) == copy.deepcopy(made) == plain
    assert pickle.loads(pickle.dumps(made)) == plain  # noqa: S301 - our own bytes
