"""faster-fifo, with pickle taken out."""

from __future__ import annotations

from typing import Any

from bench.peers.base import BATCH, Channel, Peer, ReceivingEnd, SendingEnd


def _same(data: Any) -> Any:
    return data


class _Channel(Channel):
    def __init__(self, size: int, wait: str) -> None:
        from faster_fifo import Queue

        self._wait = wait
        room = max(256 * size, 1 << 20) if size < 1 << 18 else 16 * size
        self._queue: Any = Queue(max_size_bytes=room, loads=bytes, dumps=_same)
        self._size = size

    def sender(self, index: int) -> SendingEnd:
        return SendingEnd(self._queue.put, self._queue.put_many)

    def receiver(self, index: int) -> ReceivingEnd:
        from queue import Empty

        fifo = self._queue
        fifo.reallocate_msg_buffer(max(2 * self._size, 1 << 18))
        get, get_now, get_many = fifo.get, fifo.get_nowait, fifo.get_many

        def busy() -> Any:
            while True:
                try:
                    return get_now()
                except Empty:
                    pass

        def many() -> Any:
            return get_many(max_messages_to_get=BATCH)

        return ReceivingEnd(busy if self._wait == "busy" else get, many)

    def close(self) -> None:
        self._queue.close()


PEERS = [
    Peer(
        "faster-fifo",
        lambda senders, receivers, size, wait: _Channel(size, wait),
        module="faster_fifo",
        batches=True,
    )
]
