"""shmcast itself, protocol `eager`, with as many copies as wanted."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from bench.peers.base import BATCH, Channel, Peer, ReceivingEnd, SendingEnd, unique_name

_SLOTS = 1024
_PAGE_SLOTS = 256
_FRAME_SLOTS = 8  # as the other that shares memory has


def slots_for(size: int) -> int:
    if size >= 1 << 18:
        return _FRAME_SLOTS
    return _SLOTS if size <= 1024 else _PAGE_SLOTS


class MailboxChannel(Channel):
    def __init__(
        self, senders: int, receivers: int, size: int, wait: str, copies: int, **options: Any
    ) -> None:
        from shmcast import Mailbox

        self._wait = wait
        self.name = unique_name()
        options.setdefault("capacity", slots_for(size))
        options.setdefault("senders", senders)
        options.setdefault("receivers", receivers)
        Mailbox.create(self.name, copies=copies, message_size=size, **options).close()

    def open(self) -> Any:
        from shmcast import Mailbox

        return Mailbox.open(self.name)

    def sender(self, index: int) -> SendingEnd:
        box = self.open()
        sender = box.sender()
        return SendingEnd(sender.send, sender.send_many, box.close)

    def receiver(self, index: int) -> ReceivingEnd:
        return receiving_end(self.open(), self._wait)

    def close(self) -> None:
        from shmcast import Mailbox
        from shmcast.errors import ShmcastError

        with contextlib.suppress(ShmcastError, FileNotFoundError):
            Mailbox.remove(self.name)


def receiving_end(box: Any, wait: str) -> ReceivingEnd:
    receiver = box.receiver(wait=wait)
    return ReceivingEnd(
        receiver.receive,
        partial(receiver.receive_many, BATCH),
        payload=lambda message: bytes(message.data),
        close=box.close,
    )


def called(copies: int) -> str:
    return f"shmcast, {copies} {'copy' if copies == 1 else 'copies'}"


def shmcast_peer(copies: int, **options: Any) -> Peer:
    return Peer(
        called(copies),
        partial(MailboxChannel, copies=copies, **options),
        fans_out=True,
        stream_wait="adaptive",
        waits=("block", "busy", "adaptive"),
        batches=True,
        copies=copies,
    )


PEERS = [shmcast_peer(1), shmcast_peer(3)]
