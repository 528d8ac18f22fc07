"""multiprocessing.Pipe, bytes without pickle."""

from __future__ import annotations

import multiprocessing as mp

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd

_ATOMIC = 4096 - 4  # a pipe keeps writes of this length whole, whoever else writes


class _Channel(Channel):
    def __init__(self, wait: str) -> None:
        self._wait = wait
        self._to, self._from = mp.Pipe(duplex=False)

    def sender(self, index: int) -> SendingEnd:
        return SendingEnd(self._from.send_bytes)

    def receiver(self, index: int) -> ReceivingEnd:
        receive, poll = self._to.recv_bytes, self._to.poll

        def busy() -> bytes:
            while not poll():
                pass
            return receive()

        return ReceivingEnd(busy if self._wait == "busy" else receive)

    def close(self) -> None:
        self._from.close()
        self._to.close()


PEERS = [
    Peer(
        "multiprocessing.Pipe",
        lambda senders, receivers, size, wait: _Channel(wait),
        largest_shared=_ATOMIC,
    )
]
