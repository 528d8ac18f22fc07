"""What a sink may put before a payload, so that receivers recognise a batch that comes again.

    0       4       8        16      20      24       24 + n
    | magic | crc   | batch  | row   | rows  | writer's name: 1 byte length, bytes | payload ...

A batch that failed is written again by Spark, with the same number and the same rows. A sink sends
a batch in order from one place, so "later than the last (batch, row) of that writer" is all that
a receiver needs to remember.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from shmcast.errors import Corrupt

MAGIC = 0x53504231  # "SPB1"
_HEAD = struct.Struct("<IIQIIB")


class Origin(NamedTuple):
    """A row of a batch."""

    writer: str
    batch: int
    row: int  # in the batch, from 0
    rows: int  # of the batch


def wrap(origin: Origin, payload: bytes) -> bytes:
    """What a sink with envelope=true sends."""
    name = origin.writer.encode()
    rest = (origin.batch, origin.row, origin.rows, len(name))
    crc = zlib.crc32(_HEAD.pack(0, 0, *rest) + name)
    return _HEAD.pack(MAGIC, crc, *rest) + name + payload


def unwrap(message: bytes) -> tuple[Origin, bytes]:
    """Where a message comes from, and its payload. Raises Corrupt if it has no envelope."""
    if len(message) < _HEAD.size:
        raise Corrupt("no envelope: was this sent by a sink with envelope=true?")
    magic, crc, batch, row, rows, size = _HEAD.unpack_from(message)
    name = message[_HEAD.size : _HEAD.size + size]
    if magic != MAGIC or crc != zlib.crc32(_HEAD.pack(0, 0, batch, row, rows, size) + name):
        raise Corrupt("no envelope: was this sent by a sink with envelope=true?")
    return Origin(name.decode(), batch, row, rows), message[_HEAD.size + size :]


class Once:
    """Passes each row of each batch once. Remembers two numbers per writer."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def payload(self, message: bytes) -> bytes | None:
        """The payload, or nothing if it has come before."""
        origin, payload = unwrap(message)
        if (origin.batch, origin.row) <= self._last.get(origin.writer, (-1, -1)):
            return None
        self._last[origin.writer] = (origin.batch, origin.row)
        return payload
