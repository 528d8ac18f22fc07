"""One process of the demo: ``python -m shmcast.cli.demo.worker ROLE PLACE TAG LOG``.

It sends to a domain, receives from a mailbox, or is a client of a cluster. It obeys lines on stdin
(hurry, calm, finish) and ends when stdin ends, so that none is left when the director is gone. On
stdout it says ``ready`` and ``done``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

from shmcast.cli.demo.logs import (
    DELIVERY_ROW,
    DESTINATIONS,
    PAYLOAD,
    PAYLOAD_BYTES,
    STEP_ROW,
    What,
)
from shmcast.errors import DeadlineMissed, MailboxFull, NoQuorum, Rejected
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Wait
from shmcast.mailbox.records import Message

BOXES = ("valves", "alarms")
GROUPS = ("g1", "g2")
_SEND_PAUSE_S = 0.005
_ASK_PAUSE_S = 0.008
_HURRY_PAUSE_S = 0.0001
_TIMEOUT_S = 5.0
_PATIENCE_S = 30.0  # of a client, for one message
_RECEIVE_TIMEOUT_S = 0.05
_LEAVE_S = 3.0

Try = Callable[[bytes, list[int]], tuple[What, int]]


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
        if not self.finish:  # the director died: leave in order, or at once if that takes long
            self.finish = True
            threading.Timer(_LEAVE_S, os._exit, (1,)).start()


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(text, flush=True)


def _stream(attempt: Try, tag: int, log: int, orders: Orders, pause_s: float) -> None:
    """Numbers from 0; a rejected number is never sent again, so it must never be delivered."""
    _say("ready")
    number = 0
    while not orders.finish:
        to = DESTINATIONS[number % len(DESTINATIONS)]
        data = PAYLOAD.pack(tag, number).ljust(PAYLOAD_BYTES, b".")
        bits = [bit for bit in (0, 1) if to >> bit & 1]
        os.write(log, STEP_ROW.pack(number, What.BEGUN, to, 0, time.monotonic_ns()))
        what, stamp = attempt(data, bits)
        os.write(log, STEP_ROW.pack(number, what, to, stamp, time.monotonic_ns()))
        number += 1
        time.sleep(_HURRY_PAUSE_S if orders.hurry else pause_s)


def send(place: str, tag: int, log: int, orders: Orders) -> None:
    with Domain.open(place) as domain, domain.sender() as sender:

        def attempt(data: bytes, bits: list[int]) -> tuple[What, int]:
            try:
                receipt = sender.send(data, to=[BOXES[b] for b in bits], timeout=_TIMEOUT_S)
            except Rejected:
                return What.REJECTED, 0
            except MailboxFull:
                return What.FULL, 0
            return What.ACKNOWLEDGED, receipt.timestamp

        _stream(attempt, tag, log, orders, _SEND_PAUSE_S)


def ask(place: str, tag: int, log: int, orders: Orders) -> None:
    """A client of the cluster. What was not answered in time is asked for again."""
    from shmcast.multicast.run.cluster import Cluster

    with Cluster.load(place).client() as client:

        def attempt(data: bytes, bits: list[int]) -> tuple[What, int]:
            end = time.monotonic() + _PATIENCE_S
            try:
                ordered = client.multicast(data, [GROUPS[b] for b in bits], timeout=_TIMEOUT_S)
            except (DeadlineMissed, NoQuorum):
                while True:
                    try:
                        ordered = client.retry(timeout=_TIMEOUT_S)
                        break
                    except (DeadlineMissed, NoQuorum):
                        if time.monotonic() > end:
                            raise
            return What.ACKNOWLEDGED, ordered.timestamp.time

        _stream(attempt, tag, log, orders, _ASK_PAUSE_S)


def _record(log: int, messages: Sequence[Message]) -> None:
    at_ns = time.monotonic_ns()
    head = DELIVERY_ROW.pack
    rows = [head(m.timestamp, m.sender, at_ns) + m.data[: PAYLOAD.size] for m in messages]
    os.write(log, b"".join(rows))


def receive(place: str, tag: int, log: int, orders: Orders) -> None:
    with Mailbox.open(place) as box:
        receiver = box.receiver(wait=Wait.BLOCK)  # more processes than cores
        _say("ready")
        while not orders.finish:
            with contextlib.suppress(TimeoutError):
                _record(log, receiver.receive_many(256, timeout=_RECEIVE_TIMEOUT_S))
        _record(log, receiver.leave(timeout=_TIMEOUT_S))


ROLES = {"send": send, "receive": receive, "ask": ask}


def main() -> None:
    role, place, tag, path = sys.argv[1:]
    orders = Orders()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ROLES[role](place, int(tag), log, orders)
    _say("done")


if __name__ == "__main__":
    main()
