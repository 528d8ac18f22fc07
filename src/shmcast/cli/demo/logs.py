"""What senders and receivers write down: rows of fixed size, appended with one write each.

A process that is killed leaves whole rows and at most one torn one, which is ignored. A sender
writes a row before each send and one after it, so of a killed one nothing is unknown but whether
its last send took place.
"""

from __future__ import annotations

import enum
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAYLOAD = struct.Struct("<qq")  # tag of the sender, number of the message
PAYLOAD_BYTES = 64

# A place in the order is a time and what breaks ties: the sender's place, or the group.
DELIVERY = np.dtype(
    [("time", "<i8"), ("tie", "<i8"), ("at_ns", "<i8"), ("tag", "<i8"), ("number", "<i8")]
)
DELIVERY_ROW = struct.Struct("<qqq")  # what stands before the payload's words

STEP = np.dtype(
    [("number", "<i8"), ("what", "<i8"), ("to", "<i8"), ("time", "<i8"), ("at_ns", "<i8")]
)
STEP_ROW = struct.Struct("<qqqqq")

# Bit i of `to` stands for mailbox or group i. A sender takes these in turn.
DESTINATIONS = (0b11, 0b01, 0b11, 0b10)


class What(enum.IntEnum):
    BEGUN = 0
    ACKNOWLEDGED = 1
    REJECTED = 2
    FULL = 3


class Log:
    """One file, read as it grows."""

    def __init__(self, path: Path, kind: np.dtype[Any]) -> None:
        self.path = path
        self._kind = kind
        self._read = 0

    def all(self) -> npt.NDArray[Any]:
        return self._rows(self.path.read_bytes() if self.path.exists() else b"")

    def fresh(self) -> npt.NDArray[Any]:
        """What came since the last call."""
        if not self.path.exists():
            return self._rows(b"")
        with self.path.open("rb") as file:
            file.seek(self._read)
            rows = self._rows(file.read())
        self._read += rows.nbytes
        return rows

    def last(self) -> npt.NDArray[Any]:
        """The last row, or none."""
        size = self.path.stat().st_size if self.path.exists() else 0
        whole = size // self._kind.itemsize
        with self.path.open("rb") as file:
            file.seek(max(0, whole - 1) * self._kind.itemsize)
            return self._rows(file.read(self._kind.itemsize))

    def _rows(self, data: bytes) -> npt.NDArray[Any]:
        size = self._kind.itemsize
        return np.frombuffer(data[: len(data) // size * size], dtype=self._kind)
