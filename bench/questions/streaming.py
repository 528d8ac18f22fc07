"""The measurement behind every streaming question: some senders, some receivers, no pause.

From the first send to the last receipt, by one clock. Every receiver gets every message; the rate
counts each message once. Before it a warm-up goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.harness import Measurement, Role, Totals, cpu, now, together
from bench.peers.base import BATCH, Channel, Peer

_WARM_UP_CHUNKS = 2


@dataclass(frozen=True)
class Load:
    senders: int = 1
    receivers: int = 1
    size: int = 64
    send_batched: bool = False
    receive_batched: bool = False
    chunk: int = 1024  # messages between two looks at the clock; a multiple of BATCH
    seconds: float = 0.1


def payloads(size: int) -> list[bytes]:
    """BATCH different messages of one size."""
    return [bytes([i]) * size for i in range(BATCH)]


def sending(channel: Channel, load: Load, index: int, totals: Totals) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> tuple[int, int]:
        end = channel.sender(index)
        batch = payloads(load.size)
        send, send_many = end.send, end.send_many
        rounds = load.chunk // BATCH

        def chunk_single() -> None:
            for _ in range(rounds):
                for data in batch:
                    send(data)

        def chunk_batched() -> None:
            assert send_many is not None
            for _ in range(rounds):
                send_many(batch)

        chunk = chunk_batched if load.send_batched else chunk_single
        together()
        for _ in range(_WARM_UP_CHUNKS):
            chunk()
        together()
        sent, start = 0, now()
        until = start + int(load.seconds * 1e9)
        while now() < until:
            chunk()
            sent += load.chunk
        totals.announce(index, sent + load.chunk)
        chunk()
        sent += load.chunk
        end.flush()
        together()
        end.close()
        return start, sent

    return act


def receiving(channel: Channel, load: Load, index: int, totals: Totals) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> tuple[int, int, bool]:
        end = channel.receiver(index)
        receive, receive_many = end.receive, end.receive_many
        last: Any = None

        def chunk_single(seen: int) -> int:
            nonlocal last
            for _ in range(load.chunk):
                last = receive()
            return seen + load.chunk

        def chunk_batched(seen: int) -> int:
            nonlocal last
            assert receive_many is not None
            batch = receive_many()
            last = batch[-1]
            return seen + len(batch)

        chunk = chunk_batched if load.receive_batched else chunk_single
        together()
        seen, warm = 0, _WARM_UP_CHUNKS * load.chunk * load.senders
        while seen < warm:
            seen = chunk(seen)
        together()
        seen = 0
        while seen != totals.all():
            seen = chunk(seen)
        stop = now()
        right = end.payload(last) == payloads(load.size)[-1]
        together()
        end.close()
        return stop, seen, right

    return act


def stream(peer: Peer, load: Load, wait: str | None = None) -> Measurement:
    """One run. A peer that cannot do it says so, and its row shows that."""
    if reason := peer.refuses(load.senders, load.size):
        raise RuntimeError(f"not measured: {reason}")
    channel = peer.channel(
        senders=load.senders,
        receivers=load.receivers,
        size=load.size,
        wait=wait or peer.stream_wait,
    )
    totals = Totals(load.senders)
    # One to many: the one has its core to itself, as the many share the other, and vice versa.
    many_first = load.senders > 1
    try:
        answers = together(
            [
                *(
                    Role(sending(channel, load, i, totals), cpu(int(many_first)))
                    for i in range(load.senders)
                ),
                *(
                    Role(receiving(channel, load, i, totals), cpu(int(not many_first)))
                    for i in range(load.receivers)
                ),
            ]
        )
    finally:
        channel.close()
    senders, receivers = answers[: load.senders], answers[load.senders :]
    start = min(start for start, _ in senders)
    stop = max(stop for stop, _, _ in receivers)
    sent = sum(sent for _, sent in senders)
    arrived = min(seen for _, seen, _ in receivers)
    if not all(right for _, _, right in receivers):
        raise RuntimeError(f"{peer.name}: the last message is not the one that was sent")
    return Measurement(sent / ((stop - start) / 1e9), "messages/s", sent, arrived)
