"""What every peer offers: a channel, made before the processes are forked, with ends to open.

A sending end has `send(data)` and perhaps `send_many(list)`; a receiving end has `receive()` and
perhaps `receive_many()`, which returns a list. They are the peer's own functions wherever that is
possible, so that nothing of ours is measured with them; `payload(result)` turns what `receive`
returned into bytes, for the check that the right message came.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

BATCH = 64  # messages of one send_many, wherever a question says "batched"

_numbers = count()


def unique_name() -> str:
    return f"shmcast-bench-{os.getpid()}-{next(_numbers)}"


def nothing() -> None:
    pass


@dataclass
class SendingEnd:
    send: Callable[[Any], object]
    send_many: Callable[[list[bytes]], object] | None = None
    close: Callable[[], object] = nothing
    flush: Callable[[], object] = nothing  # until everything has left this process


@dataclass
class ReceivingEnd:
    receive: Callable[[], Any]
    receive_many: Callable[[], Any] | None = None
    payload: Callable[[Any], bytes] = bytes
    close: Callable[[], object] = nothing


class Channel(ABC):
    """One group of senders to one group of receivers. Made in the parent, opened in children."""

    @abstractmethod
    def sender(self, index: int) -> SendingEnd: ...

    @abstractmethod
    def receiver(self, index: int) -> ReceivingEnd: ...

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """In the parent, when the children are gone."""


class Fan(Channel):
    """One sender to several receivers over a peer that knows pairs only: one channel for each."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels

    def sender(self, index: int) -> SendingEnd:
        ends = [channel.sender(index) for channel in self._channels]
        sends = [end.send for end in ends]

        def send(data: bytes) -> None:
            for one in sends:
                one(data)

        many = [end.send_many for end in ends if end.send_many is not None]

        def send_many(batch: list[bytes]) -> None:
            for one in many:
                one(batch)

        def flush() -> None:
            for end in ends:
                end.flush()

        def close() -> None:
            for end in ends:
                end.close()

        return SendingEnd(send, send_many if many else None, close, flush)

    def receiver(self, index: int) -> ReceivingEnd:
        return self._channels[index].receiver(0)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()


@dataclass(frozen=True)
class Peer:
    """How to make channels of one kind. `make(senders, receivers, size, wait)`."""

    name: str
    make: Callable[[int, int, int, str], Channel]
    module: str | None = None  # what must be installed
    fans_out: bool = False  # otherwise one channel per receiver
    stream_wait: str = "block"  # how a receiver waits in the streaming questions
    waits: tuple[str, ...] = ("block", "busy")
    largest: int = 1 << 30  # bytes of a message
    largest_shared: int = 1 << 30  # the same with several senders on one channel
    no_fan_in: str = ""  # why it cannot take messages of several senders
    batches: bool = False  # has a batch call of its own
    copies: int = 0  # of shmcast; 0 for the others
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    def missing(self) -> str | None:
        """Why this peer cannot run here, or None."""
        if self.module and importlib.util.find_spec(self.module) is None:
            return f"{self.module} is not installed"
        return None

    def refuses(self, senders: int, size: int) -> str | None:
        """Why this peer cannot answer a question."""
        if senders > 1 and self.no_fan_in:
            return self.no_fan_in
        limit = self.largest if senders == 1 else self.largest_shared
        return f"messages of at most {limit} bytes" if size > limit else None

    def channel(
        self, *, senders: int = 1, receivers: int = 1, size: int = 64, wait: str = "block"
    ) -> Channel:
        if receivers > 1 and not self.fans_out:
            return Fan([self.make(senders, 1, size, wait) for _ in range(receivers)])
        return self.make(senders, receivers, size, wait)
