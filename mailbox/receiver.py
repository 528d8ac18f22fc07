"""Receiving: one message, many, in place, from asyncio."""

from __future__ import annotations

import contextlib
import enum
import queue
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from shmcast._fast import ReceivingEnd, SeenSlot
from shmcast._native import lib
from shmcast.errors import LeftEarly, error_from
from shmcast.mailbox.core import (
    DEFAULT_TIMEOUT_S,
    Closing,
    Late,
    Overrun,
    address_of,
    array_over,
    check,
    in_slices,
    new,
    overruns_of,
)
from shmcast.mailbox.records import Batch, Message

if TYPE_CHECKING:
    import asyncio

    import numpy.typing as npt

    from shmcast.mailbox.domain import Segments

_BATCH = 64
_ASYNC_SLICE_S = 0.1  # how soon the helper thread notices that nobody waits any more


class Wait(enum.StrEnum):
    """How to wait for a message."""

    ADAPTIVE = "adaptive"  # spin for 50 µs, then sleep
    BUSY = "busy"  # spin: fastest, burns a core
    BLOCK = "block"  # sleep at once: for more processes than cores


_SPIN_NS = {Wait.ADAPTIVE: 50_000, Wait.BUSY: (1 << 64) - 1, Wait.BLOCK: 0}


def _free(receiver: Any, segments: Segments) -> None:
    """When nobody refers to it any more. The segments are named so that they go after it."""
    lib.sc_receiver_free(receiver)


class View(SeenSlot):
    """A message read where it lies: `data` is its memory, read-only, valid inside its block.

    `timestamp`, `sender` and `sequence` are as in `Message`. Leaving the block raises if what was
    read may be wrong: this receiver was evicted meanwhile, or the copy died.
    """

    __slots__ = ()

    def array(
        self, dtype: npt.DTypeLike = "uint8", shape: int | Sequence[int] = -1
    ) -> npt.NDArray[Any]:
        """The message as an array. Copy what is to outlive the block."""
        return array_over(self, dtype, shape)


class Receiver(ReceivingEnd, Closing):
    """A member of a mailbox: it gets every message that is sent after it has joined, in the one
    order, until it is closed.

    Threads may share it; they take turns. Iterating over it is endless, with `for` and with
    `async for`. Messages are fetched in advance. A sender waits for the slowest living receiver,
    so one that is no longer read should be closed.
    """

    def __init__(
        self,
        segments: Segments,
        box: int,
        message_size: int,
        timeout: float | None,
        *,
        wait: Wait,
        late: Late,
    ) -> None:
        self.name = segments.name
        self._segments = segments
        out = new("sc_receiver **")
        domain = segments.require()
        code = in_slices(
            timeout, (lib.SC_NO_LANE,), lambda end: int(lib.sc_receiver_open(domain, box, end, out))
        )
        check(code, self.name)
        self._receiver: Any = out[0]
        lib.sc_receiver_wait_style(self._receiver, _SPIN_NS[wait])
        self._bind(address_of(self._receiver), message_size, segments.waits)
        lib.sc_receiver_raise_late(self._receiver, late is Late.RAISE)
        self._waiter: _Waiter | None = None
        self._freed = weakref.finalize(self, _free, self._receiver, segments)
        self._freed.atexit = False  # daemon threads still run then: see close_at_exit
        segments.use(self)

    def _handle(self) -> Any:
        if self._receiver is None:
            raise ValueError(f"{self.name}: the receiver is closed")
        return self._receiver

    def _fail(self, code: int) -> NoReturn:
        raise error_from(code, self.name)

    def receive_many(self, max: int = _BATCH, *, timeout: float | None = None) -> Batch:
        """What is there: at least one message, at most `max`, at most 256, and no more than fit
        into 256 KiB together; TimeoutError if none comes in time."""
        if max < 1:
            raise ValueError(f"{self.name}: max must be at least 1, not {max}")
        return Batch(*self._receive_many(max, timeout))

    def view(self, *, timeout: float | None = None) -> View:
        """The next message without copying, as a block: ``with receiver.view() as message: …``.

        Senders wait for the slot while the block lasts. Leaving the block raises if what was read
        may be wrong, because its copy died or this receiver was evicted meanwhile.
        """
        return View(self, timeout)

    @property
    def handle(self) -> Any:
        """The C core's, for shmcast.mailbox.scheduled. ValueError once it is closed, or freed
        because the program ends."""
        if not self._freed.alive:
            raise ValueError(f"{self.name}: the receiver is gone")
        return self._handle()

    @property
    def depth(self) -> int:
        """Messages sent and not yet received here."""
        return self._fetched() + int(lib.sc_receiver_depth(self._handle()))

    def overruns(self) -> list[Overrun]:
        """Deliveries, decisions and other receivers that broke a bound since the last call; the
        latest 64 at most. From one thread at a time."""
        return overruns_of(lib.sc_receiver_overruns, self._handle(), self.name)

    def leave(self, *, timeout: float | None = None) -> list[Message]:
        """Leaves, closes, and returns what was sent before and not yet received. If that is not
        over in time, LeftEarly brings what had come."""
        check(lib.sc_receiver_leave(self._handle()), self.name)
        end = time.monotonic() + (DEFAULT_TIMEOUT_S if timeout is None else timeout)
        rest: list[Message] = []
        try:
            while True:
                rest += self.receive_many(timeout=max(0.0, end - time.monotonic()))
        except ValueError:  # closed: everything older than the exit time has been read
            return rest
        except TimeoutError:
            raise LeftEarly(f"{self.name}: not all of it came in time", rest) from None
        finally:
            self.close()

    def __iter__(self) -> Iterator[Message]:
        """Endless; ends when the receiver is closed."""
        while self._receiver is not None:
            try:
                yield self.receive()
            except TimeoutError:
                continue

    async def areceive(self, *, timeout: float | None = None) -> Message:
        """Like receive(), without blocking the event loop. Without a timeout it waits for ever.
        A task that is cancelled while it waits has taken no message."""
        import asyncio

        async with asyncio.timeout(timeout):
            while True:
                message = self._receive_at_once()
                if message is not None:
                    return message
                if self._waiter is None:
                    self._waiter = _Waiter(self)
                await self._waiter.ask()

    def _receive_at_once(self) -> Message | None:
        """In `crash` and `timing` a look may wait out bounds, so only the helper thread looks."""
        self._handle()
        if self._segments.waits:
            return self._take()
        with contextlib.suppress(TimeoutError):
            return self.receive(timeout=0)
        return None

    async def __aiter__(self) -> AsyncIterator[Message]:
        while self._receiver is not None:
            yield await self.areceive()

    def close(self) -> None:
        """Leaves at once; what it has not received is dropped."""
        receiver, self._receiver = self._receiver, None
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.stop()
        if receiver is not None:
            self._bind(0, 0, False)
            lib.sc_receiver_close(receiver)


class _Waiter:
    """A thread that waits on behalf of an event loop, only while somebody asks.

    It takes no message, so that none is lost when whoever asked has gone away meanwhile.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._asked: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="shmcast-areceive", daemon=True)
        self._thread.start()

    def ask(self) -> asyncio.Future[None]:
        """Done when there is something to receive, unless another took it."""
        import asyncio

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.put(future)
        return future

    def stop(self) -> None:
        self._stopping = True
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (future := self._asked.get()) is not None:
            error: Exception | None = None
            try:
                while not future.cancelled() and not self._stopping:
                    if self._receiver._await(_ASYNC_SLICE_S):
                        break
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                future.get_loop().call_soon_threadsafe(_answer, future, error)


def _answer(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
