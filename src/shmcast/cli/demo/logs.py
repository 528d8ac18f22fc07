"""What senders and receivers write down: rows of fixed size, appended with one write each.

A process that is killed leaves whole rows and at most one torn one, which is ignored. A sender
writes a row after each send, so a killed one leaves at most one send of unknown outcome.
"""

from __future__ import annotations

import enum
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAYLOAD = struct.Struct("<QQ")  # tag of the sender, number of the message
PAYLOAD_BYTES = 64

DELIVERY = np.dtype(
    [("timestamp", "<u8"), ("sender", "<u8"), ("at_ns", "<u8"), ("tag", "<u8"), ("number", "<u8")]
)
DELIVERY_ROW = struct.Struct("<QQQ")  # what stands before the payload's words

ATTEMPT = np.dtype([("number", "<u8"), ("outcome", "<u8"), ("boxes", "<u8"), ("timestamp", "<u8")])
ATTEMPT_ROW = struct.Struct("<QQQQ")


class Outcome(enum.IntEnum):
    ACKNOWLEDGED = 0
    REJECTED = 1
    FULL = 2


def read_rows(path: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    data = path.read_bytes() if path.exists() else b""
    return np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], dtype=kind)
