"""POSIX message queues through posix_ipc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd, unique_name

_LIMITS = Path("/proc/sys/fs/mqueue")


def _limit(which: str, otherwise: int) -> int:
    try:
        return int((_LIMITS / which).read_text())
    except OSError:
        return otherwise


class _Channel(Channel):
    def __init__(self, size: int, wait: str) -> None:
        import posix_ipc

        self._wait = wait
        self._busy_error = posix_ipc.BusyError
        self._queue: Any = posix_ipc.MessageQueue(
            "/" + unique_name(),
            posix_ipc.O_CREX,
            max_messages=_limit("msg_max", 10),
            max_message_size=size,
        )

    def sender(self, index: int) -> SendingEnd:
        return SendingEnd(self._queue.send)

    def receiver(self, index: int) -> ReceivingEnd:
        take, busy_error = self._queue.receive, self._busy_error

        def busy() -> Any:
            while True:
                try:
                    return take(0)
                except busy_error:
                    pass

        return ReceivingEnd(
            busy if self._wait == "busy" else take, payload=lambda result: bytes(result[0])
        )

    def close(self) -> None:
        self._queue.unlink()
        self._queue.close()


PEERS = [
    Peer(
        "posix_ipc message queue",
        lambda senders, receivers, size, wait: _Channel(size, wait),
        module="posix_ipc",
        largest=_limit("msgsize_max", 8192),
        largest_shared=_limit("msgsize_max", 8192),
    )
]
