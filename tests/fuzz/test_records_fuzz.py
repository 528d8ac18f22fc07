"""The only bytes of the core that Python takes apart itself: the words of a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shmcast.mailbox.records import Batch

WORD = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(st.binary(max_size=20), WORD, WORD, WORD, WORD, WORD), max_size=6))
def test_any_words_of_a_batch_are_read_as_they_stand(
    rows: list[tuple[bytes, int, int, int, int, int]],
) -> None:
    words = b"".join(value.to_bytes(8, "little") for row in rows for value in row[1:])
    batch = Batch(tuple(row[0] for row in rows), words)
    plain = [(data, ts, sender, sequence) for data, ts, sequence, sender, _, _ in rows]
    assert [tuple(message) for message in batch] == plain
    assert [tuple(batch[i]) for i in range(len(batch))] == plain
    assert batch.timestamps.tolist() == [row[1] for row in rows]
