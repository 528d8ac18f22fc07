"""This process as a replica: the event loop in a thread of its own, deliveries for the application.

The loop must go on while the application computes, or the others would take this replica for dead.
What is delivered waits in a queue. A long queue closes the door to new requests here (clients are
told Busy, and ask again until their deadlines); one that is longer than `QUEUE_MAX`, or holds more
than `QUEUE_BYTES_MAX`, ends this life: it could only be served by forgetting how much memory there
is.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Self

from shmcast.errors import DeadlineMissed, Incompatible
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.run.api import Delivery, State
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.handover import Item, Restore, Take
from shmcast.multicast.run.life import OwnLife
from shmcast.multicast.run.loop import Loop, ticks_now
from shmcast.multicast.run.recording import recorder

QUEUE_LONG = 10_000
QUEUE_MAX = 1_000_000
QUEUE_BYTES_LONG = 64 << 20  # of payloads
QUEUE_BYTES_MAX = 512 << 20
CLOSE_TIMEOUT_S = 10.0
LEAVE_TICKS = 5_000_000  # after which it ends without an answer


def _bytes_of(item: Item) -> int:
    return len(item.payload) if isinstance(item, Delivery) else 0


class Node:
    def __init__(
        self, config: ClusterConfig, name: str, state: State | None = None, *, keep: bool = True
    ) -> None:
        """With `keep` False deliveries are not kept for anybody."""
        self._state = state
        self.config, self.name = config, name
        self._replica = config.replica(name)
        self._keep = keep
        self._queue: deque[Item] = deque()
        self._put_bytes = 0  # ever; each of the two belongs to one thread
        self._taken_bytes = 0
        self._changed = threading.Condition()
        self._waiting = False
        self._closing = False
        self._error: BaseException | None = None
        self._life = OwnLife(config, self._replica.proc)
        try:
            self._loop = self._begin()
        except BaseException:
            self._life.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"node-{name}", daemon=True)
        self._thread.start()

    def _begin(self) -> Loop:
        config, incarnation = self.config, self._life.incarnation
        if incarnation and not lookup(config.engine).tolerates.restarts:
            raise Incompatible(
                f"{self.name} has lived before, and {config.engine} knows no way back: stop the "
                "whole cluster (shmcast down) and start it anew, or use wbcast"
            )
        self.trace = recorder(config, self._replica.proc, incarnation, self.name)
        sink = self._put if self._keep else self._pass
        return Loop(
            config,
            self._replica,
            self._life,
            sink=sink,
            accepting=self._keeps_up,
            trace=self.trace,
        )

    @property
    def incarnation(self) -> int:
        return self._life.incarnation

    # In the loop's thread ----------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.begin()
            while not self._closing:
                self._loop.turn()
                if self._waiting and self._queue:
                    self._wake()
            self._loop.leave(ticks_now() + LEAVE_TICKS)
        except BaseException as error:
            self._error = error
        finally:
            self._loop.close()
            self._life.close(orderly=self._error is None)
            if self.trace is not None:
                self.trace.close(orderly=self._error is None)
            self._wake()

    def _pass(self, item: Item) -> None:
        """Nobody takes deliveries: only what is between replicas is done, at once."""
        if not isinstance(item, Delivery):
            self._act(item)

    def _put(self, item: Item) -> None:
        if len(self._queue) >= QUEUE_MAX or self._waiting_bytes > QUEUE_BYTES_MAX:
            raise DeadlineMissed(
                f"{self.name}: {len(self._queue)} deliveries of {self._waiting_bytes} bytes wait "
                "for the application: take them faster, or start fewer clients; start this replica "
                "again"
            )
        self._put_bytes += _bytes_of(item)
        self._queue.append(item)

    @property
    def _waiting_bytes(self) -> int:
        return self._put_bytes - self._taken_bytes

    def _keeps_up(self) -> bool:
        return len(self._queue) < QUEUE_LONG and self._waiting_bytes < QUEUE_BYTES_LONG

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # In the application's thread ---------------------------------------------------------

    def deliveries(
        self, *, timeout: float | None = None, optimistic: bool = False
    ) -> Iterator[Delivery]:
        queue = self._queue
        while True:
            try:
                item = queue.popleft()
            except IndexError:
                if not self._await(timeout):
                    return
                continue
            self._taken_bytes += _bytes_of(item)
            if isinstance(item, Delivery):
                if optimistic or not item.optimistic:
                    yield item
            else:
                self._act(item)

    def _act(self, item: Take | Restore) -> None:
        """Between two deliveries: a replica comes back, this one or another."""
        state = self._state
        if isinstance(item, Restore):
            if state is not None:
                state.restore(item.state)
            return
        self._loop.handover.take(item, state)

    def _await(self, timeout: float | None) -> bool:
        """False: the node is closed. Looks again now and then: nobody waits without an end."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._waiting = True
            try:
                while not self._queue:
                    if not self._thread.is_alive() or self._error is not None:
                        return self._ended()
                    left = 0.05 if end is None else min(0.05, end - time.monotonic())
                    if left <= 0:
                        raise TimeoutError(f"{self.name}: nothing came within {timeout} s")
                    self._changed.wait(left)
            finally:
                self._waiting = False
        return True

    def _ended(self) -> bool:
        if self._error is not None:
            raise self._error
        return False

    def stop(self) -> None:
        """Ends it soon, in order. May be called from anywhere, a signal handler too."""
        self._closing = True

    def close(self) -> None:
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
