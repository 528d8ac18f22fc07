"""One process of the demo: ``python -m shmcast.cli.demo.worker ROLE PLACE TAG LOG``.

It obeys lines on stdin (hurry, calm, finish) and ends when stdin ends, so that none is left when
the director is gone. On stdout it says ``ready`` and ``done``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence

from shmcast.cli.demo.logs import (
    ATTEMPT_ROW,
    DELIVERY_ROW,
    PAYLOAD,
    PAYLOAD_BYTES,
    Outcome,
)
from shmcast.errors import MailboxFull, Rejected
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Wait
from shmcast.mailbox.records import Message
from shmcast.mailbox.sender import Sender

CALM_PAUSE_S = 0.001
_SEND_TIMEOUT_S = 5.0
_RECEIVE_TIMEOUT_S = 0.05
# The mailboxes of the demo's domain; bit i of a set stands for name i.
PLANT_BOXES = ("valves", "alarms")
PLANT_SETS = (0b11, 0b01, 0b11, 0b10)


class Orders:
    """What the director wants, read by a thread."""

    def __init__(self) -> None:
        self.hurry = False
        self.finish = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.hurry = line.strip() == "hurry"
            self.finish = self.finish or line.strip() == "finish"
        if not self.finish:  # the director died
            os._exit(1)


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)


def _attempt(sender: Sender, data: bytes, boxes: int) -> tuple[Outcome, int]:
    to = [name for bit, name in enumerate(PLANT_BOXES) if boxes >> bit & 1] if boxes else None
    try:
        return Outcome.ACKNOWLEDGED, sender.send(data, to=to, timeout=_SEND_TIMEOUT_S).timestamp
    except Rejected:
        return Outcome.REJECTED, 0
    except MailboxFull:
        return Outcome.FULL, 0


def send(place: str, tag: int, log: int, orders: Orders) -> None:
    """Numbers from 0; a rejected number is never sent again, so it must never be delivered."""
    is_plant = place.endswith("/")
    opened: Domain | Mailbox = Domain.open(place[:-1]) if is_plant else Mailbox.open(place)
    with opened, opened.sender() as sender:
        _say("ready")
        number = 0
        while not orders.finish:
            boxes = PLANT_SETS[number % len(PLANT_SETS)] if is_plant else 0
            data = PAYLOAD.pack(tag, number).ljust(PAYLOAD_BYTES, b".")
            outcome, timestamp = _attempt(sender, data, boxes)
            os.write(log, ATTEMPT_ROW.pack(number, outcome, boxes, timestamp))
            number += 1
            if not orders.hurry:
                time.sleep(CALM_PAUSE_S)


def _record(log: int, messages: Sequence[Message]) -> None:
    at_ns = time.monotonic_ns()
    head = DELIVERY_ROW.pack
    rows = [head(m.timestamp, m.sender, at_ns) + m.data[: PAYLOAD.size] for m in messages]
    os.write(log, b"".join(rows))


def receive(place: str, log: int, orders: Orders) -> None:
    with Mailbox.open(place) as box:
        receiver = box.receiver(wait=Wait.BLOCK)  # more processes than cores
        _say("ready")
        while not orders.finish:
            with contextlib.suppress(TimeoutError):
                _record(log, receiver.receive_many(256, timeout=_RECEIVE_TIMEOUT_S))
        _record(log, receiver.leave(timeout=_SEND_TIMEOUT_S))


def main() -> None:
    role, place, tag, path = sys.argv[1:]
    orders = Orders()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if role == "send":
        send(place, int(tag), log, orders)
    else:
        receive(place, log, orders)
    _say("done")


if __name__ == "__main__":
    main()
