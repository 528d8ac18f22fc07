"""What do numpy frames of 1 MiB cost?

Streamed: copied in and out by every peer that can; and in place at both ends, shmcast with one
copy and without checksum against iceoryx2, each slot filled with a frame or only touched. Sent:
one send against as many plain memcpy's into shared memory as there are copies.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bench.harness import Case, Measurement, Role, Scale, cpu, now, together
from bench.peers.base import BATCH, Channel, Peer
from bench.peers.iceoryx import IceoryxChannel
from bench.peers.shmcast_mailbox import MailboxChannel
from bench.questions.streaming import Load, stream

SIZE = 1 << 20
_WARM_UP = 32  # four times around the ring
_SLOTS = 8


def _frame() -> np.ndarray:
    return np.arange(SIZE // 4, dtype=np.float32)


def _write(target: np.ndarray, frame: np.ndarray, number: int, *, fill: bool) -> None:
    if fill:
        target[:] = frame
    target[0] = number


def _iceoryx_put(channel: IceoryxChannel) -> Callable[..., None]:
    node, publisher, _ = channel.publisher()

    def put(frame: np.ndarray, number: int, fill: bool, kept: Any = node) -> None:
        sample = publisher.loan_slice_uninit(SIZE)
        array = np.frombuffer(sample.payload().as_memory_view(), dtype=np.float32)
        _write(array, frame, number, fill=fill)
        sample.assume_init().send()

    return put


def _iceoryx_take(channel: IceoryxChannel) -> Callable[[], float]:
    node, subscriber, _ = channel.subscriber()

    def take(kept: Any = node) -> float:
        while (sample := subscriber.receive()) is None:
            pass
        first = float(np.frombuffer(sample.payload().as_memory_view(), dtype=np.float32)[0])
        sample.delete()
        return first

    return take


def _shmcast_put(channel: MailboxChannel) -> Callable[..., None]:
    sender = channel.open().sender()

    def put(frame: np.ndarray, number: int, fill: bool) -> None:
        with sender.loan(SIZE) as slot:
            _write(slot.array(np.float32), frame, number, fill=fill)

    return put


def _shmcast_take(channel: MailboxChannel) -> Callable[[], float]:
    receiver = channel.open().receiver()

    def take() -> float:
        with receiver.view() as seen:
            return float(seen.array(np.float32)[0])

    return take


def _in_place(
    make: Callable[[], Channel],
    open_put: Callable[[Any], Callable[..., None]],
    open_take: Callable[[Any], Callable[[], float]],
    fill: bool,
    count: int,
) -> Measurement:
    channel = make()

    def sending(together: Callable[[], None]) -> int:
        put, frame = open_put(channel), _frame()
        together()
        for i in range(_WARM_UP):
            put(frame, i, fill)
        together()
        start = now()
        for i in range(count):
            put(frame, i, fill)
        together()
        return start

    def receiving(together: Callable[[], None]) -> tuple[int, int]:
        take = open_take(channel)
        together()
        for _ in range(_WARM_UP):
            take()
        together()
        right = sum(take() == i for i in range(count))
        stop = now()
        together()
        return stop, right

    try:
        start, (stop, right) = together([Role(sending, cpu(0)), Role(receiving, cpu(1))])
    finally:
        channel.close()
    return Measurement(count / ((stop - start) / 1e9), "messages/s", count, right)


def _send_alone(copies: int, checksum: bool, count: int) -> Measurement:
    """Time of send() itself; a receiver in the same process makes room, untimed."""
    channel = MailboxChannel(1, 1, SIZE, "busy", copies, checksum=checksum)

    def act(together: Callable[[], None]) -> tuple[Any, int]:
        box = channel.open()
        sender, receiver = box.sender(), box.receiver(wait="busy")
        frame = _frame()
        samples, arrived = np.zeros(count, dtype=np.uint32), 0
        for i in range(-_WARM_UP, count):
            start = now()
            sender.send(frame)
            took = now() - start
            with receiver.view() as seen:
                arrived += i >= 0 and len(seen.data) == SIZE
            if i >= 0:
                samples[i] = took
        box.close()
        return samples, arrived

    try:
        [(samples, arrived)] = together([Role(act, cpu(0))])
    finally:
        channel.close()
    return Measurement(float(np.median(samples)), "ns", count, arrived, samples)


def _memcpys(copies: int, count: int) -> Measurement:
    """The same bytes into as many shared rings, and nothing else."""

    def act(together: Callable[[], None]) -> Any:
        frame = _frame()
        rings = [
            np.frombuffer(mmap.mmap(-1, SIZE * _SLOTS), dtype=np.float32).reshape(_SLOTS, -1)
            for _ in range(copies)
        ]
        samples = np.zeros(count, dtype=np.uint32)
        for i in range(-_WARM_UP, count):
            start = now()
            for ring in rings:
                ring[i % _SLOTS] = frame
            if i >= 0:
                samples[i] = now() - start
        return samples

    [samples] = together([Role(act, cpu(0))])
    return Measurement(float(np.median(samples)), "ns", count, count, samples)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    question = "frames 1 MiB"
    load = Load(size=SIZE, chunk=BATCH, seconds=scale.seconds)
    found = [
        Case(question, "copied at both ends", peer.name, peer.copies, partial(stream, peer, load))
        for peer in peers
    ]
    names = {peer.name for peer in peers}
    for fill in (True, False):
        case = f"in place, {'filled' if fill else 'touched'}"
        make = partial(MailboxChannel, 1, 1, SIZE, "adaptive", 1, checksum=False)
        ours = partial(_in_place, make, _shmcast_put, _shmcast_take, fill, scale.frames)
        found.append(Case(question, case, "shmcast, 1 copy", 1, ours))
        if "iceoryx2" in names:
            make_theirs = partial(IceoryxChannel, 1, 1, SIZE, "busy")
            run = partial(_in_place, make_theirs, _iceoryx_put, _iceoryx_take, fill, scale.frames)
            found.append(Case(question, case, "iceoryx2", 0, run))
    for copies in (1, 3):
        case = f"one send, {copies} {'copy' if copies == 1 else 'copies'}"
        found.append(Case(question, case, "memcpy", 0, partial(_memcpys, copies, scale.frames)))
        for checksum in (True, False):
            name = "shmcast" if checksum else "shmcast without checksum"
            run = partial(_send_alone, copies, checksum, scale.frames)
            found.append(Case(question, case, name, copies, run))
    return found
