"""The keeper: the process that receives for a streaming query, and outlives it for a while.

A receiver consumes, and one that died is no member any more: had the query itself received, its
death would lose what it had taken and what was sent until its restart. So a process of its own
joins, and puts the rows into the query's spool. When the query is gone it goes on, but never at the
senders' cost: it leaves after `linger` seconds, or as soon as the spool is full.

While a query is there, a full spool makes the keeper an ordinary slow receiver: the senders wait.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import pyarrow as pa

from shmcast.errors import ShmcastError
from shmcast.pipeline.intake import Intake
from shmcast.pipeline.spool import Spool

SEGMENT_ROWS = 1 << 16
SEGMENT_BYTES = 16 << 20
SEAL_S = 0.02  # how long a row waits at most before the query can see it
_PROBE_S = 0.1
_START_S = 60.0  # a Python process on a busy machine


@dataclass(frozen=True, slots=True)
class Orders:
    path: str
    names: list[str]
    bytes_max: int
    linger_s: float


class _Stop(Exception):
    """Asked to leave."""


class Keeper:
    def __init__(self, spool: Spool, intake: Intake, orders: Orders) -> None:
        self._spool, self._intake, self._orders = spool, intake, orders
        self._next = spool.end()
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._oldest_s = 0.0
        self._probed_s = self._attended_s = time.monotonic()

    def _seal(self) -> None:
        if self._batches:
            self._next = self._spool.write(self._next, self._batches).end
            self._batches, self._rows, self._bytes = [], 0, 0

    def _add(self, batches: list[pa.RecordBatch]) -> None:
        if not self._batches:
            self._oldest_s = time.monotonic()
        self._batches += batches
        self._rows += sum(len(batch) for batch in batches)
        self._bytes += sum(batch.nbytes for batch in batches)

    def _seal_if_due(self) -> None:
        full = self._rows >= SEGMENT_ROWS or self._bytes >= SEGMENT_BYTES
        if full or (self._batches and time.monotonic() - self._oldest_s >= SEAL_S):
            self._seal()

    def _alone_s(self) -> float:
        """For how long no query has been there."""
        now = time.monotonic()
        if now - self._probed_s >= _PROBE_S:
            self._probed_s = now
            if not self._spool.query_lock.is_free:
                self._attended_s = now
        return self._probed_s - self._attended_s

    def _is_full(self) -> bool:
        return sum(s.size_bytes for s in self._spool.segments()) >= self._orders.bytes_max

    def step(self) -> bool:
        """Takes what there is. False: time to leave."""
        alone_s = self._alone_s()
        if alone_s > self._orders.linger_s:
            return False
        if not self._batches and self._is_full():
            time.sleep(SEAL_S)
            return not alone_s
        taken = self._intake.take(SEAL_S / 4)
        if taken:
            self._add(taken)
        self._seal_if_due()
        if not taken and not self._batches:
            (self._spool.path / "idle").touch()
        return True

    def run(self) -> None:
        try:
            while self.step():
                pass
        finally:
            self._seal()


def _on_signal(number: int, frame: FrameType | None) -> None:
    raise _Stop


def keep(orders: Orders) -> None:
    """The whole life of a keeper. Says on stdout when it has joined, or why it could not."""
    spool = Spool(Path(orders.path))
    if not spool.keeper_lock.take(0):
        raise RuntimeError(f"{orders.path}: a keeper is at work already")
    error_file = spool.path / "keeper.error"
    error_file.unlink(missing_ok=True)
    spool.clean()
    with Intake(orders.names) as intake:
        state = spool.join(orders.names)
        print(json.dumps({"joined": state.joined}), flush=True)
        try:
            with contextlib.suppress(_Stop):
                Keeper(spool, intake, orders).run()
        except (ShmcastError, OSError) as error:
            error_file.write_text(str(error))


def start(orders: Orders) -> None:
    """Starts a keeper that does not end with its parent; returns when it has joined."""
    child = subprocess.Popen(
        [sys.executable, "-m", "shmcast.pipeline.keeper", json.dumps(asdict(orders))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdout
    line = _first_line(child, _START_S)
    child.stdout.close()
    said = json.loads(line) if line else {"error": "it ended without a word"}
    if "error" in said:
        child.wait(10)
        raise RuntimeError(f"cannot receive from {', '.join(orders.names)}: {said['error']}")


def _first_line(child: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    assert child.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        if not selector.select(timeout_s):
            child.kill()
            child.wait(10)
            return json.dumps({"error": f"no answer within {timeout_s:.0f} s"}).encode()
    return child.stdout.readline()


def main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, _on_signal)
    signal.signal(signal.SIGINT, _on_signal)
    try:
        keep(Orders(**json.loads(arguments[0])))
    except (ShmcastError, OSError, ValueError, RuntimeError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
