"""Receiving: one message, many, in place, from asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shmcast._native import ffi, lib
from shmcast.errors import error_from
from shmcast.mailbox.core import (
    DEFAULT_DEADLINE,
    DEFAULT_TIMEOUT_S,
    Closing,
    Late,
    Overrun,
    SlotBuffers,
    check,
    deadline_in,
    new,
    overruns_of,
)
from shmcast.mailbox.records import Batch, Message, make_message

if TYPE_CHECKING:
    from shmcast.mailbox.domain import Segments

_receive_many = lib.sc_receive_many
_view = lib.sc_view
_view_release = lib.sc_view_release
_AT_ONCE = deadline_in(0)
_BATCH = 64  # messages that receive() fetches in advance
_BATCH_MAX = 256
_BUFFER_BYTES = 1 << 18
_ASYNC_SLICE_S = 0.1  # how soon the helper thread notices that nobody waits any more


class Wait(enum.StrEnum):
    """How to wait for a message."""

    ADAPTIVE = "adaptive"  # spin for 50 µs, then sleep
    BUSY = "busy"  # spin: fastest, burns a core
    BLOCK = "block"  # sleep at once: for more processes than cores


@lru_cache(maxsize=256)
def _splitter(size: int, count: int) -> Callable[[Any], tuple[bytes, ...]]:
    """Cuts a buffer into `count` payloads of one size, several times faster than slices do."""
    return Struct(f"{size}s" * count).unpack_from


_SPIN_NS = {Wait.ADAPTIVE: 50_000, Wait.BUSY: (1 << 64) - 1, Wait.BLOCK: 0}


def _free(receiver: Any, segments: Segments) -> None:
    """At the latest when the program ends. The segments are named so that they go after it."""
    lib.sc_receiver_free(receiver)


class View:
    """A message read where it lies. Valid inside its block only."""

    __slots__ = ("data", "sender", "sequence", "timestamp")

    def __init__(self, data: memoryview, timestamp: int, sender: int, sequence: int) -> None:
        self.data = data
        self.timestamp, self.sender, self.sequence = timestamp, sender, sequence

    def array(
        self, dtype: npt.DTypeLike = np.uint8, shape: int | Sequence[int] = -1
    ) -> npt.NDArray[Any]:
        flat = np.frombuffer(self.data, dtype=dtype)
        return flat if shape == -1 else flat.reshape(shape)


class _ViewBlock:
    __slots__ = ("_deadline", "_lent", "_receiver")

    def __init__(self, receiver: Receiver, deadline: int) -> None:
        self._receiver, self._deadline = receiver, deadline
        self._lent = False

    def __enter__(self) -> View:
        receiver = self._receiver
        while receiver._ready:
            with contextlib.suppress(IndexError):  # another thread was faster
                message = receiver._ready.popleft()
                return View(memoryview(message.data), *message[1:])
        address, info, words = receiver._view_out  # one at a time: the core refuses a second one
        code = _view(receiver._handle(), self._deadline, info, address)
        if code:
            raise error_from(code, receiver.name)
        self._lent = True
        timestamp, sequence, sender, size, _ = words.tolist()
        data = receiver._slots.of(address[0], size).toreadonly()
        return View(data, timestamp, sender, sequence)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises if what was read may be wrong: evicted meanwhile, or the copy died."""
        if self._lent:
            code = _view_release(self._receiver._handle())
            if code and kind is None:
                raise error_from(code, self._receiver.name)


class Receiver(Closing):
    """One member of a mailbox's group. Threads may share it; they take turns."""

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
        code = lib.sc_receiver_open(segments.require(), box, deadline_in(timeout), out)
        check(code, self.name)
        self._receiver: Any = out[0]
        lib.sc_receiver_wait_style(self._receiver, _SPIN_NS[wait])
        lib.sc_receiver_raise_late(self._receiver, late is Late.RAISE)
        size = max(message_size, _BUFFER_BYTES)
        self._buffer = new("unsigned char[]", size)
        self._bytes = ffi.buffer(self._buffer, size)
        self._size = size
        self._infos = new(f"struct sc_message[{_BATCH_MAX}]")
        self._info_bytes = ffi.buffer(self._infos)
        self._words = memoryview(self._info_bytes).cast("Q")
        self._first = self._words[: Batch.WORDS].tolist
        self._slots = SlotBuffers(segments)
        info = new("struct sc_message *")
        self._view_out = (new("const void **"), info, memoryview(ffi.buffer(info)).cast("Q"))
        self._ready: deque[Message] = deque()  # fetched, not yet handed out; at most _BATCH
        self._turn = threading.Lock()  # of whoever fetches
        self._waiter: _Waiter | None = None
        self._freed = weakref.finalize(self, _free, self._receiver, segments)
        segments.use(self)

    def _handle(self) -> Any:
        if self._receiver is None:
            raise ValueError(f"{self.name}: the receiver is closed")
        return self._receiver

    def _fetch(self, deadline: int, most: int) -> Batch:
        """The caller has the turn."""
        count = _receive_many(
            self._receiver or self._handle(), self._buffer, self._size, deadline, self._infos, most
        )
        if count <= 0:
            raise error_from(count, self.name)
        return self._unpack(count)

    def _unpack(self, count: int) -> Batch:
        payloads = self._payloads(self._words[3 : count * Batch.WORDS : Batch.WORDS].tolist())
        return Batch(payloads, self._info_bytes[: count * Batch.WORDS * 8])

    def _payloads(self, sizes: list[int]) -> Sequence[bytes]:
        """The core packs them one behind the other."""
        count, size = len(sizes), sizes[0]
        data = self._bytes
        if count == 1:
            return (data[:size],)
        if sizes.count(size) == count:
            return _splitter(size, count)(data)
        ends = list(accumulate(sizes))
        return [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def _take_turn(self, timeout: float | None) -> int:
        """One thread at a time fetches: they share the buffer, and the order of what is left.

        Returns when the operation has to be over: the wait for the turn is a part of it.
        """
        wait = DEFAULT_TIMEOUT_S if timeout is None else min(timeout, threading.TIMEOUT_MAX)
        end = time.monotonic_ns() + int(wait * 1e9)
        if not (self._turn.acquire(timeout=wait) if wait > 0 else self._turn.acquire(False)):
            raise error_from(lib.SC_TIMEOUT, self.name)
        return end

    def receive(self, *, timeout: float | None = None) -> Message:
        """The next message in the one order; TimeoutError if none comes in time."""
        ready = self._ready
        if ready:
            try:
                return ready.popleft()
            except IndexError:
                pass  # another thread was faster
        deadline = DEFAULT_DEADLINE if timeout is None else deadline_in(timeout)
        if not self._turn.acquire(False):
            deadline = self._take_turn(timeout)
        try:
            return self._take_one(deadline)
        finally:
            self._turn.release()

    def _take_one(self, deadline: int) -> Message:
        ready = self._ready
        while ready:  # another thread fetched while this one waited for its turn
            with contextlib.suppress(IndexError):
                return ready.popleft()
        count = _receive_many(
            self._receiver or self._handle(),
            self._buffer,
            self._size,
            deadline,
            self._infos,
            _BATCH,
        )
        if count == 1:  # the usual case when messages are answered one by one
            timestamp, sequence, sender, size, _ = self._first()
            return make_message((self._bytes[:size], timestamp, sender, sequence))
        if count <= 0:
            raise error_from(count, self.name)
        messages = self._unpack(count).messages()
        ready.extend(messages[1:])
        return messages[0]

    def receive_many(self, max: int = _BATCH, *, timeout: float | None = None) -> Batch:
        """What is there: at least one, at most `max` and at most 256."""
        if max < 1:
            raise ValueError(f"{self.name}: max must be at least 1, not {max}")
        deadline = DEFAULT_DEADLINE if timeout is None else deadline_in(timeout)
        if not self._turn.acquire(False):
            deadline = self._take_turn(timeout)
        try:
            return self._take_many(max, deadline)
        finally:
            self._turn.release()

    def _take_many(self, most: int, deadline: int) -> Batch:
        ready = self._ready
        taken: list[Message] = []
        while ready and len(taken) < most:
            with contextlib.suppress(IndexError):  # another thread's receive() was faster
                taken.append(ready.popleft())
        if taken:
            return Batch.of(taken)
        return self._fetch(deadline, most if most < _BATCH_MAX else _BATCH_MAX)

    def view(self, *, timeout: float | None = None) -> _ViewBlock:
        """The next message without copying. Senders wait for the slot while the block lasts."""
        deadline = DEFAULT_DEADLINE if timeout is None else deadline_in(timeout)
        return _ViewBlock(self, deadline)

    @property
    def handle(self) -> Any:
        """The C core's, for shmcast.mailbox.scheduled."""
        return self._handle()

    @property
    def depth(self) -> int:
        """Messages sent and not yet received here."""
        return len(self._ready) + int(lib.sc_receiver_depth(self._handle()))

    def overruns(self) -> list[Overrun]:
        """Deliveries, decisions and other receivers that broke a bound since the last call; the
        latest 64 at most. From one thread at a time."""
        return overruns_of(lib.sc_receiver_overruns, self._handle(), self.name)

    def leave(self, *, timeout: float | None = None) -> list[Message]:
        """Leaves the group, after reading what was sent before."""
        check(lib.sc_receiver_leave(self._handle()), self.name)
        deadline = self._take_turn(timeout)
        try:
            rest = list(self._ready)
            self._ready.clear()
            while True:
                rest += self._fetch(deadline, _BATCH)
        except ValueError:  # closed: everything older than the exit time has been read
            pass
        finally:
            self._turn.release()
        self.close()
        return rest

    def __iter__(self) -> Iterator[Message]:
        """Endless; ends when the receiver is closed."""
        while self._receiver is not None:
            try:
                yield self.receive()
            except TimeoutError:
                continue

    async def areceive(self, *, timeout: float | None = None) -> Message:
        """Like receive(), without blocking the event loop."""
        try:
            return self.receive(timeout=0)
        except TimeoutError:
            pass
        if self._waiter is None:
            self._waiter = _Waiter(self)
        waiting = self._waiter.ask()
        try:
            return await asyncio.wait_for(waiting, timeout)
        except TimeoutError:
            raise error_from(lib.SC_TIMEOUT, self.name) from None

    async def __aiter__(self) -> AsyncIterator[Message]:
        while self._receiver is not None:
            yield await self.areceive()

    def close(self) -> None:
        receiver, self._receiver = self._receiver, None
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.stop()
        if receiver is not None:
            lib.sc_receiver_close(receiver)


class _Waiter:
    """A thread that waits on behalf of an event loop, only while somebody asks."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._asked: queue.SimpleQueue[asyncio.Future[Message] | None] = queue.SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="shmcast-areceive", daemon=True)
        self._thread.start()

    def ask(self) -> asyncio.Future[Message]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._asked.put(future)
        return future

    def stop(self) -> None:
        self._stopping = True
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (future := self._asked.get()) is not None:
            while not future.cancelled() and not self._stopping:
                try:
                    message = self._receiver.receive(timeout=_ASYNC_SLICE_S)
                except TimeoutError:
                    continue
                except Exception as error:
                    future.get_loop().call_soon_threadsafe(_fail, future, error)
                    break
                future.get_loop().call_soon_threadsafe(self._hand_over, future, message)
                break

    def _hand_over(self, future: asyncio.Future[Message], message: Message) -> None:
        if future.done():  # cancelled meanwhile: the message is the next one's
            self._receiver._ready.appendleft(message)
        else:
            future.set_result(message)


def _fail(future: asyncio.Future[Message], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
