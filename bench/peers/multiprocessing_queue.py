"""multiprocessing.Queue (a feeder thread, pickle, a lock) and SimpleQueue (pickle, a lock)."""

from __future__ import annotations

import multiprocessing as mp
import queue
from typing import Any

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd


class _Queue(Channel):
    def __init__(self, wait: str) -> None:
        self._wait = wait
        self._queue: Any = mp.get_context("fork").Queue()

    def sender(self, index: int) -> SendingEnd:
        def flush() -> None:
            self._queue.close()
            self._queue.join_thread()

        return SendingEnd(self._queue.put, flush=flush)

    def receiver(self, index: int) -> ReceivingEnd:
        get = self._queue.get

        def busy() -> Any:
            while True:
                try:
                    return get(False)
                except queue.Empty:
                    pass

        return ReceivingEnd(busy if self._wait == "busy" else get)

    def close(self) -> None:
        self._queue.close()
        self._queue.join_thread()


class _Simple(Channel):
    def __init__(self, wait: str) -> None:
        self._wait = wait
        self._queue: Any = mp.get_context("fork").SimpleQueue()

    def sender(self, index: int) -> SendingEnd:
        return SendingEnd(self._queue.put)

    def receiver(self, index: int) -> ReceivingEnd:
        get, empty = self._queue.get, self._queue.empty

        def busy() -> Any:
            while empty():
                pass
            return get()

        return ReceivingEnd(busy if self._wait == "busy" else get)

    def close(self) -> None:
        self._queue.close()


PEERS = [
    Peer(
        "multiprocessing.Queue",
        lambda senders, receivers, size, wait: _Queue(wait),
        largest=1 << 16,  # it keeps what does not fit in unbounded memory
    ),
    Peer("multiprocessing.SimpleQueue", lambda senders, receivers, size, wait: _Simple(wait)),
]
