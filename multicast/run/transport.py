"""How frames travel between the processes of a cluster. A frame is bytes; wire.py says of what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from shmcast.multicast.protocols.core import ProcessId

CLIENTS_FROM = 1 << 20  # the numbers of clients begin here; below are processes


class Frame(NamedTuple):
    sender: ProcessId
    data: bytes


class Transport(Protocol):
    """FIFO and free of losses and doubles between one life of a process and one of another."""

    def send(self, to: ProcessId, data: bytes) -> bool:
        """False: no room; nothing was sent. A process that does not live takes everything."""
        ...

    def receive(self, timeout_ns: int) -> Sequence[Frame]:
        """All that has come, up to a batch; waits for the first one, no longer than this."""
        ...

    def close(self) -> None: ...
