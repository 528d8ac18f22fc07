"""How long does a message of 64 bytes take there and back, two processes, one at a time?

Blocking on two cores and on one; busy; and shmcast's default, which spins briefly and then sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bench.harness import Case, Measurement, Role, Scale, cpu, now, together
from bench.peers.base import Channel, Peer

SIZE = 64
_WARM_UP = 200
# case → how to wait, on how many cores
CASES = {
    "blocking, two cores": ("block", 2),
    "blocking, one core": ("block", 1),
    "busy": ("busy", 2),
    "adaptive": ("adaptive", 2),
}


def _asking(there: Channel, back: Channel, count: int) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> tuple[Any, bool]:
        out, into = there.sender(0), back.receiver(0)
        send, receive = out.send, into.receive
        data = b"q" * SIZE
        samples = np.zeros(count, dtype=np.uint32)
        together()
        for _ in range(_WARM_UP):
            send(data)
            receive()
        answer: Any = None
        for i in range(count):
            start = now()
            send(data)
            answer = receive()
            samples[i] = now() - start
        right = into.payload(answer) == data
        out.flush()
        together()
        out.close()
        into.close()
        return samples, right

    return act


def _answering(there: Channel, back: Channel, count: int) -> Callable[..., Any]:
    def act(together: Callable[[], None]) -> int:
        into, out = there.receiver(0), back.sender(0)
        send, receive = out.send, into.receive
        data = b"q" * SIZE
        together()
        answered = 0
        for _ in range(_WARM_UP + count):
            receive()
            send(data)
            answered += 1
        out.flush()
        together()
        out.close()
        into.close()
        return answered - _WARM_UP

    return act


def round_trip(peer: Peer, wait: str, cores: int, count: int) -> Measurement:
    there = peer.channel(size=SIZE, wait=wait)
    try:
        back = peer.channel(size=SIZE, wait=wait)
        try:
            (samples, right), answered = together(
                [
                    Role(_asking(there, back, count), cpu(0)),
                    Role(_answering(there, back, count), cpu(cores - 1)),
                ]
            )
        finally:
            back.close()
    finally:
        there.close()
    if not right:
        raise RuntimeError(f"{peer.name}: the answer is not what was sent")
    return Measurement(float(np.median(samples)), "ns", count, answered, samples)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    return [
        Case(
            "round trip",
            name,
            peer.name,
            peer.copies,
            partial(round_trip, peer, wait, cores, scale.round_trips),
        )
        for name, (wait, cores) in CASES.items()
        for peer in peers
        if wait in peer.waits
    ]
