"""From mailboxes to Arrow: receivers whose messages become columns, without an object per message.

The core writes payloads one behind the other and what is known of them into an array beside it;
both are columns already.

Several mailboxes of a domain give one stream in the domain's order. When a message stamped t is
delivered anywhere in a domain, no operation that could be stamped earlier is under way in all of
it: what is earlier lies ready in its mailbox. So whatever was taken before a round of looks at all
mailboxes may be handed out after it, in order; what came during the round waits for the next one. A
mailbox in which something is left after its look counts only as far as it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shmcast._native import ffi, lib
from shmcast.errors import Corrupt, error_from
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

    @property
    def depth(self) -> int:
        return self._receiver.depth

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

    def _round(self, timeout_s: float) -> list[pa.RecordBatch]:
        complete_to = max((taken.newest for taken in self._held), default=0)
        wait_s = 0.0 if self._held else timeout_s / len(self._taps)
        for tap in self._taps:
            taken = tap.look(wait_s)
            if taken is not None:
                self._held.append(taken)
            if tap.depth:
                complete_to = min(complete_to, taken.newest if taken else 0)
        return self._hand_out(complete_to)

    def _hand_out(self, complete_to: int) -> list[pa.RecordBatch]:
        """Everything held that is stamped `complete_to` or earlier, sorted."""
        ready: list[Taken] = []
        kept: list[Taken] = []
        for taken in self._held:
            cut = int(np.searchsorted(taken.words[:, 0], complete_to, side="right"))
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
