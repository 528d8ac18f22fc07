"""iceoryx2: publish and subscribe with slices of bytes; to block, an event beside them."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd, unique_name

_SLOTS = 64
_FRAME_SLOTS = 8


class IceoryxChannel(Channel):
    def __init__(self, senders: int, receivers: int, size: int, wait: str) -> None:
        self._senders, self._receivers = senders, receivers
        self._size, self._wait = size, wait
        self._slots = _SLOTS if size < 1 << 18 else _FRAME_SLOTS
        self._name = unique_name()

    def _services(self) -> tuple[Any, Any, Any]:
        import iceoryx2 as iox

        iox.set_log_level(iox.LogLevel.Error)
        node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        name = iox.ServiceName.new(self._name)
        service = (
            node.service_builder(name)
            .publish_subscribe(iox.Slice[ctypes.c_uint8])
            .max_publishers(self._senders)
            .max_subscribers(self._receivers)
            .subscriber_max_buffer_size(self._slots)
            .enable_safe_overflow(False)
            .open_or_create()
        )
        event = node.service_builder(name).event().open_or_create()
        return node, service, event

    def publisher(self) -> tuple[Any, Any, Any]:
        import iceoryx2 as iox

        node, service, event = self._services()
        publisher = (
            service.publisher_builder()
            .initial_max_slice_len(self._size)
            .backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        return node, publisher, event

    def subscriber(self) -> tuple[Any, Any, Any]:
        node, service, event = self._services()
        return node, service.subscriber_builder().create(), event

    def sender(self, index: int) -> SendingEnd:
        node, publisher, event = self.publisher()
        kept = [node]  # services die with their node
        loan, move = publisher.loan_slice_uninit, ctypes.memmove
        notifier = event.notifier_builder().create() if self._wait == "block" else None

        def send(data: Any) -> None:
            size = len(data)
            sample = loan(size)
            move(sample.payload_ptr, data, size)
            sample.assume_init().send()

        def send_and_ring(data: Any) -> None:
            send(data)
            notifier.notify()

        def close() -> None:
            publisher.delete()
            if notifier is not None:
                notifier.delete()
            kept.clear()

        return SendingEnd(send if notifier is None else send_and_ring, close=close)

    def receiver(self, index: int) -> ReceivingEnd:
        node, subscriber, event = self.subscriber()
        kept = [node]
        take, copy = subscriber.receive, ctypes.string_at
        listener = event.listener_builder().create() if self._wait == "block" else None

        def busy() -> bytes:
            while (sample := take()) is None:
                pass
            payload = sample.payload()
            data = copy(payload.as_ptr(), payload.len())
            sample.delete()
            return data

        def yielding() -> bytes:
            while (sample := take()) is None:
                os.sched_yield()
            payload = sample.payload()
            data = copy(payload.as_ptr(), payload.len())
            sample.delete()
            return data

        def blocking() -> bytes:
            while (sample := take()) is None:
                listener.blocking_wait()
            payload = sample.payload()
            data = copy(payload.as_ptr(), payload.len())
            sample.delete()
            return data

        def close() -> None:
            subscriber.delete()
            if listener is not None:
                listener.delete()
            kept.clear()

        wait = {"busy": busy, "yield": yielding, "block": blocking}[self._wait]
        return ReceivingEnd(wait, close=close)


PEERS = [
    Peer(
        "iceoryx2",
        IceoryxChannel,
        module="iceoryx2",
        fans_out=True,
        no_fan_in="three publishers that retry until delivered hung in every try",
        stream_wait="yield",  # busy receivers that share a core would starve each other
    )
]
