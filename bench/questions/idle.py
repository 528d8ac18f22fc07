"""How much CPU does a receiver use while nothing comes, by its way of waiting?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Measurement, Role, Scale, cpu, together
from bench.peers.base import Peer
from bench.peers.shmcast_mailbox import MailboxChannel

WAITS = ("adaptive", "block", "busy")
_SECONDS = 0.5
_SECONDS_TINY = 0.02


def _idle(wait: str, seconds: float) -> Measurement:
    channel = MailboxChannel(1, 1, 64, wait, 3)

    def act(together: Callable[[], None]) -> float:
        box = channel.open()
        receiver = box.receiver(wait=wait)
        used, start = time.process_time(), time.monotonic()
        with contextlib.suppress(TimeoutError):
            receiver.receive(timeout=seconds)
        share = (time.process_time() - used) / (time.monotonic() - start)
        box.close()
        return share

    try:
        [share] = together([Role(act, cpu(1))])
    finally:
        channel.close()
    return Measurement(100 * share, "% of a core", 0, 0)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    seconds = _SECONDS if scale.seconds else _SECONDS_TINY
    return [
        Case("idle", wait, "shmcast, 3 copies", 3, partial(_idle, wait, seconds)) for wait in WAITS
    ]
