"""From mailboxes to Arrow: receivers whose messages become columns, without an object per message.

The core writes payloads one behind the other and what is known of them into an array beside it;
both are columns already.

Several mailboxes of a domain give one stream in the domain's order. A delivery in one mailbox says
nothing of another: an operation that goes to the other alone may be stamped earlier and still be
under way. So each mailbox is asked up to which timestamp nothing more can come, after it was looked
at; what is stamped earlier than the least of these answers is handed out, in order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shmcast._native import ffi, lib
from shmcast.errors import Corrupt, DeadlineMissed, error_from
from shmcast.mailbox.core import Closing, deadline_in
from shmcast.mailbox.mailbox import Mailbox

SCHEMA = pa.schema(
    [
        ("data", pa.binary()),
        ("timestamp", pa.int64()),  # ns; CLOCK_MONOTONIC of this boot
        ("sender", pa.int64()),
        ("sequence", pa.int64()),
        ("mailbox", pa.string()),
    ]
)
SPARK_SCHEMA = "data binary, timestamp bigint, sender bigint, sequence bigint, mailbox string"

_LOOK = 4096  # messages of one look: the senders get their room back at its end
_BUFFER_BYTES_MIN = 1 << 20
_WORDS = 5  # struct sc_message: timestamp, sequence, sender, bytes, offset
_RECHECK_S = 0.0002  # a send under way holds back what is here already
_TIMEOUT = lib.SC_TIMEOUT


@dataclass(frozen=True, slots=True)
class Taken:
    """What one look at one mailbox gave; `box` is its number in the intake."""

    box: int
    words: npt.NDArray[np.uint64]
    data: bytes

    @property
    def newest(self) -> int:
        return int(self.words[-1, 0])

    def batch(self, name: str) -> pa.RecordBatch:
        count = len(self.words)
        ends = np.zeros(count + 1, np.int32)
        np.cumsum(self.words[:, 3], out=ends[1:])
        payloads = pa.BinaryArray.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(self.data)]
        )
        columns = (np.ascontiguousarray(self.words[:, i]).view(np.int64) for i in (0, 2, 1))
        return pa.RecordBatch.from_arrays(
            [payloads, *map(pa.array, columns), pa.repeat(name, count)], schema=SCHEMA
        )


class _Tap:
    """One receiver, read through the core."""

    def __init__(self, name: str, number: int, timeout_s: float) -> None:
        self.name, self.number = name, number
        self._box = Mailbox.open(name, timeout=timeout_s)
        self._receiver = self._box.receiver(timeout=timeout_s, wait="block")
        size = max(_BUFFER_BYTES_MIN, self._box.message_size)
        self._buffer = bytearray(size)
        self._into = ffi.from_buffer(self._buffer)
        self._infos = ffi.new(f"struct sc_message[{_LOOK}]")
        words = np.frombuffer(ffi.buffer(self._infos), np.uint64)
        self._words = words.reshape(_LOOK, _WORDS)

    def look(self, timeout_s: float, rows_max: int = _LOOK) -> Taken | None:
        found = lib.sc_receive_many(
            self._receiver.handle,
            self._into,
            len(self._buffer),
            deadline_in(timeout_s),
            self._infos,
            min(_LOOK, rows_max),
        )
        if found == _TIMEOUT:
            return None
        if found < 0:
            raise error_from(found, self.name)
        words = self._words[:found].copy()
        used = int(words[-1, 3] + words[-1, 4])
        return Taken(self.number, words, bytes(memoryview(self._buffer)[:used]))

    def settled(self) -> int:
        """What is still to come of this mailbox is stamped at or after this; 0: not known now."""
        before = ffi.new("uint64_t *")
        code = lib.sc_receiver_settled(self._receiver.handle, deadline_in(1.0), before)
        if code < 0:
            raise error_from(code, self.name)
        return int(before[0])

    def close(self) -> None:
        self._receiver.close()
        self._box.close()


class Intake(Closing):
    """Joins every mailbox named; take() gives what came, in order, as record batches."""

    def __init__(self, names: Sequence[str], *, timeout_s: float = 5.0) -> None:
        self.names = list(names)
        self._taps: list[_Tap] = []
        self._held: list[Taken] = []  # several mailboxes: not yet known to be next
        self._handed_out_to = 0
        try:
            for number, name in enumerate(self.names):
                self._taps.append(_Tap(name, number, timeout_s))
        except BaseException:
            self.close()
            raise

    def take(self, timeout_s: float, rows_max: int = _LOOK) -> list[pa.RecordBatch]:
        """What can be had; waits for the first message, to the deadline at most."""
        if len(self._taps) == 1:
            taken = self._taps[0].look(timeout_s, rows_max)
            return [taken.batch(self.names[0])] if taken else []
        return self._round(timeout_s)

    def finish(self, timeout_s: float) -> list[pa.RecordBatch]:
        """What was received before now and not handed out yet. What may have to come before it is
        waited for: DeadlineMissed if it takes too long."""
        newest = max((taken.newest for taken in self._held), default=0)
        end = time.monotonic() + timeout_s
        given: list[pa.RecordBatch] = []
        while newest and (settled := self._look(0.0)) <= newest:
            given += self._hand_out(settled)
            if time.monotonic() > end:
                raise DeadlineMissed(
                    f"{', '.join(self.names)}: a send has been under way for {timeout_s:.0f} s"
                )
        return given + self._hand_out(newest + 1)

    def _round(self, timeout_s: float) -> list[pa.RecordBatch]:
        each_s = timeout_s / len(self._taps)
        return self._hand_out(self._look(min(each_s, _RECHECK_S) if self._held else each_s))

    def _look(self, wait_s: float) -> int:
        """Takes what there is. All that is still to come is stamped at or after the answer."""
        for tap in self._taps:
            taken = tap.look(wait_s)
            if taken is not None:
                self._held.append(taken)
                wait_s = 0.0
        return min(tap.settled() for tap in self._taps)

    def _hand_out(self, before: int) -> list[pa.RecordBatch]:
        """Everything held that is stamped earlier, sorted."""
        ready: list[Taken] = []
        kept: list[Taken] = []
        for taken in self._held:
            cut = int(np.searchsorted(taken.words[:, 0], before, side="left"))
            split = int(taken.words[:cut, 3].sum())
            if cut:
                ready.append(Taken(taken.box, taken.words[:cut], taken.data[:split]))
            if cut < len(taken.words):
                kept.append(Taken(taken.box, taken.words[cut:], taken.data[split:]))
        self._held = kept
        if not ready:
            return []
        lane = np.concatenate([taken.words[:, 2] for taken in ready]) & np.uint64(255)
        stamp = np.concatenate([taken.words[:, 0] for taken in ready])
        box = np.concatenate([np.full(len(taken.words), taken.box) for taken in ready])
        order = np.lexsort((box, lane, stamp))
        if stamp[order[0]] < self._handed_out_to:
            raise Corrupt(f"{', '.join(self.names)}: a message came behind its place in the order")
        self._handed_out_to = int(stamp[order[-1]])
        table = pa.Table.from_batches([taken.batch(self.names[taken.box]) for taken in ready])
        batches: list[Any] = table.take(pa.array(order)).combine_chunks().to_batches()
        return batches

    def close(self) -> None:
        for tap in self._taps:
            tap.close()
