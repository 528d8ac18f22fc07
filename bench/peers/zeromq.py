"""pyzmq over ipc: PUSH and PULL, and for several receivers PUB and SUB without limits (with its
default limits a slow subscriber loses messages)."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd, unique_name

_SMALL = 1 << 16  # bytes
_FRAMES = 16


class _Channel(Channel):
    def __init__(self, receivers: int, size: int, wait: str) -> None:
        self._receivers, self._wait = receivers, wait
        # Unlimited is its fastest; for frames that would be gigabytes, and PUSH may wait.
        self._limit = 0 if receivers > 1 or size <= _SMALL else _FRAMES
        self._path = Path(tempfile.gettempdir()) / unique_name()

    def _socket(self, kind: int, *, bind: bool) -> tuple[Any, Any]:
        import zmq

        context = zmq.Context()
        made = context.socket(kind)
        made.set(zmq.SNDHWM, self._limit)
        made.set(zmq.RCVHWM, self._limit)
        if kind == zmq.XPUB:
            made.set(zmq.XPUB_VERBOSE, 1)  # tell of every subscriber, not of the first only
        if kind == zmq.SUB:
            made.set(zmq.SUBSCRIBE, b"")
        (made.bind if bind else made.connect)(f"ipc://{self._path}")
        return context, made

    def sender(self, index: int) -> SendingEnd:
        import zmq

        fan = self._receivers > 1
        context, out = self._socket(zmq.XPUB if fan else zmq.PUSH, bind=fan)
        if fan:
            for _ in range(self._receivers):
                out.recv()  # one subscription each: nobody misses the first message
        return SendingEnd(out.send, out.send_multipart, context.destroy)

    def receiver(self, index: int) -> ReceivingEnd:
        import zmq

        fan = self._receivers > 1
        context, source = self._socket(zmq.SUB if fan else zmq.PULL, bind=not fan)
        receive, again, nowait = source.recv, zmq.Again, zmq.NOBLOCK

        def busy() -> Any:
            while True:
                try:
                    return receive(nowait)
                except again:
                    pass

        def close() -> None:
            context.destroy(linger=0)

        return ReceivingEnd(
            busy if self._wait == "busy" else receive, source.recv_multipart, close=close
        )

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


PEERS = [
    Peer(
        "pyzmq ipc",
        lambda senders, receivers, size, wait: _Channel(receivers, size, wait),
        module="zmq",
        fans_out=True,
        batches=True,
    )
]
