"""Is the cost linear in the number of copies, and flat in the number of connected processes?

Idle members: half of them hold a sender and send nothing, half hold a receiver and read nothing
(the mailbox has room for every message of the run, so they hold nobody up).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bench.harness import Case, Measurement, Role, Scale, cpu, now, together
from bench.peers.base import Channel, Peer
from bench.peers.shmcast_mailbox import MailboxChannel, shmcast_peer
from bench.questions.roundtrip import SIZE, round_trip
from bench.questions.streaming import Load, stream

COPIES = (1, 2, 3, 4, 5)
PROCESSES = (2, 32)
_WARM_UP = 200
_ROUND_TRIPS_MAX = 3000
_SLOTS = 4096


def _idle(channel: Channel, index: int) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> int:
        end = channel.receiver(index) if index % 2 else channel.sender(index)
        together()
        together()
        end.close()
        return 0

    return act


def _asking(there: Channel, back: Channel, count: int) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> Any:
        send, receive = there.sender(0).send, back.receiver(0).receive
        data = b"q" * SIZE
        samples = np.zeros(count, dtype=np.uint32)
        together()
        for i in range(-_WARM_UP, count):
            start = now()
            send(data)
            receive()
            if i >= 0:
                samples[i] = now() - start
        together()
        return samples

    return act


def _answering(there: Channel, back: Channel, count: int) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> int:
        send, receive = back.sender(0).send, there.receiver(0).receive
        data = b"q" * SIZE
        together()
        for _ in range(_WARM_UP + count):
            receive()
            send(data)
        together()
        return count

    return act


def _beside(processes: int, count: int) -> Measurement:
    """A round trip of two processes while the others are connected to the same two mailboxes."""
    count = min(count, _ROUND_TRIPS_MAX)
    there = MailboxChannel(40, 40, SIZE, "busy", 3, capacity=_SLOTS)
    try:
        back = MailboxChannel(40, 40, SIZE, "busy", 3, capacity=_SLOTS)
        try:
            idle = [Role(_idle((there, back)[i % 4 // 2], i), None) for i in range(processes - 2)]
            samples, answered, *_ = together(
                [
                    Role(_asking(there, back, count), cpu(0)),
                    Role(_answering(there, back, count), cpu(1)),
                    *idle,
                ]
            )
        finally:
            back.close()
    finally:
        there.close()
    return Measurement(float(np.median(samples)), "ns", count, answered, samples)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    found = []
    for copies in COPIES:
        peer = shmcast_peer(copies)
        trip = partial(round_trip, peer, "busy", 2, scale.round_trips)
        found.append(Case("copies", "round trip, busy", peer.name, copies, trip))
        for batched, case in ((False, "stream, single"), (True, "stream, batched by 64")):
            load = Load(
                send_batched=batched,
                receive_batched=batched,
                chunk=256 if not scale.seconds else 1024,
                seconds=scale.seconds,
            )
            found.append(Case("copies", case, peer.name, copies, partial(stream, peer, load)))
    for processes in PROCESSES:
        run = partial(_beside, processes, scale.round_trips)
        found.append(
            Case("connected processes", f"{processes} processes", "shmcast, 3 copies", 3, run)
        )
    return found
