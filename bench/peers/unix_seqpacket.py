"""Unix SEQPACKET sockets: a socket pair, inherited by both sides."""

from __future__ import annotations

import contextlib
import socket

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd

_SO_SNDBUFFORCE = 32  # beyond the system's limit, for root


def _widen(end: socket.socket, size: int) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * size)
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 4 * size)


class _Channel(Channel):
    def __init__(self, size: int, wait: str) -> None:
        self._size, self._wait = size, wait
        self._from, self._to = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if size > 16384:
            _widen(self._from, size)

    def sender(self, index: int) -> SendingEnd:
        return SendingEnd(self._from.send)

    def receiver(self, index: int) -> ReceivingEnd:
        receive, size = self._to.recv, self._size

        def blocking() -> bytes:
            return receive(size)

        def busy() -> bytes:
            while True:
                try:
                    return receive(size, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    pass

        return ReceivingEnd(busy if self._wait == "busy" else blocking)

    def close(self) -> None:
        self._from.close()
        self._to.close()


PEERS = [Peer("Unix SEQPACKET", lambda senders, receivers, size, wait: _Channel(size, wait))]
