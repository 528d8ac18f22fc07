"""The mailbox server: looking after mailboxes, in any process, in as many as you like.

Everything it does is idempotent and could be done by anyone; senders and receivers do most of it
themselves when something is in their way. A server does it without being in need.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import NamedTuple

from shmcast.errors import ShmcastError
from shmcast.mailbox.core import Closing, CopyState
from shmcast.mailbox.domain import Segments, open_handle

_DIRECTORY = Path("/dev/shm")
_NAME = re.compile(r"shmcast\.(?P<domain>[A-Za-z0-9][A-Za-z0-9_.-]*)\.(?P<serial>[0-9]{1,2})")


class Swept(NamedTuple):
    """What one sweep over one domain did."""

    name: str
    freed: int  # places of dead processes
    replaced: int  # copies
    error: str  # empty, or why it could not be done


def names() -> list[str]:
    """The domains and mailboxes that have a segment here, whoever owns them."""
    found = (_NAME.fullmatch(path.name) for path in _DIRECTORY.iterdir())
    return sorted({match["domain"] for match in found if match})


def sweep(name: str, *, replace: bool = True) -> Swept:
    """Frees what the dead held and replaces failed copies of one domain."""
    try:
        segments = Segments(name, open_handle(name, 0.2))
    except (ShmcastError, OSError) as error:
        return Swept(name, 0, 0, str(error))
    try:
        freed = segments.reap()
        failed = CopyState.FAILED in segments.copies()
        return Swept(name, freed, segments.replace(10.0) if replace and failed else 0, "")
    except (ShmcastError, OSError) as error:
        return Swept(name, 0, 0, str(error))
    finally:
        segments.close()


class Server(Closing):
    """Sweeps its domains every `period_s`, in a thread, until it is closed."""

    def __init__(self, *domains: str, period_s: float = 1.0, replace: bool = True) -> None:
        self._domains = domains
        self._period_s = period_s
        self._replace = replace
        self._stop = threading.Event()
        self.history: list[Swept] = []  # what was done lately, the last hundred
        self._thread = threading.Thread(target=self._work, name="shmcast-server", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(self._period_s):
            for name in self._domains or names():
                done = sweep(name, replace=self._replace)
                if done.freed or done.replaced or done.error:
                    self.history = [*self.history[-99:], done]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
