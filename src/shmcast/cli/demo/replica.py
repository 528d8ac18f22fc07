"""What the demo's replicas do with their deliveries: they write them down (logs.py).

Each life has a file of its own beside cluster.toml: NAME-LIFE.log.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from shmcast.cli.demo.logs import DELIVERY_ROW, PAYLOAD
from shmcast.multicast.run.node import Node


def write_down(node: Node) -> None:
    log = os.open(
        log_of(node.config.path.parent, node.name, node.incarnation),
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND,
        0o600,
    )
    for delivery in node.deliveries():
        place = delivery.timestamp
        row = DELIVERY_ROW.pack(place.time, place.tie, time.monotonic_ns())
        os.write(log, row + delivery.payload[: PAYLOAD.size])


def log_of(folder: Path, name: str, life: int) -> Path:
    return folder / f"{name}-{life}.log"


def lives_of(folder: Path, name: str) -> list[int]:
    """Those that wrote something down."""
    found = (re.fullmatch(rf"{re.escape(name)}-(\d+)\.log", path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in found if match)
