"""Sending: one message, many, to several mailboxes, in place, from asyncio."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, NoReturn, cast

from shmcast._fast import LentSlot, SendingEnd
from shmcast._native import ffi, lib
from shmcast.errors import Undecided, error_from
from shmcast.mailbox.core import (
    Closing,
    Late,
    Overrun,
    address_of,
    array_over,
    check,
    in_slices,
    name_bytes,
    new,
    overruns_of,
)
from shmcast.mailbox.records import Receipt

if TYPE_CHECKING:
    import numpy.typing as npt

    from shmcast.mailbox.domain import Segments

_receipt_words = Struct("3Q").unpack_from


def _free(sender: Any, segments: Segments) -> None:
    """When nobody refers to it any more. The segments are named so that they go after it."""
    lib.sc_sender_free(sender)


class Loan(LentSlot):
    """A slot of the first copy, lent to be written in place: `data` is its memory.

    Sent when its block ends, dropped on an exception; `receipt` is there when it is sent. What was
    made over the slot, an array or a slice of `data`, must be gone when the block ends, so that
    nobody writes into a message that is sent: else BufferError, and nothing is sent.
    """

    __slots__ = ()

    def array(
        self, dtype: npt.DTypeLike = "uint8", shape: int | Sequence[int] = -1
    ) -> npt.NDArray[Any]:
        """The slot as an array. It must be gone, `del array`, when the block ends."""
        return array_over(self, dtype, shape)


class Sender(SendingEnd, Closing):
    """A sender's place in a mailbox or a domain, until it is closed.

    Threads may share it; they take turns. Its messages are delivered in the order of its sends.
    """

    def __init__(
        self,
        segments: Segments,
        box: int | None,
        timeout: float | None,
        late: Late = Late.COUNT,
    ) -> None:
        self.name = segments.name
        self._segments = segments
        self._box = box
        out = new("sc_sender **")
        domain = segments.require()
        code = in_slices(
            timeout, (lib.SC_NO_LANE,), lambda end: int(lib.sc_sender_open(domain, end, out))
        )
        check(code, self.name)
        self._sender: Any = out[0]
        lib.sc_sender_raise_late(self._sender, late is Late.RAISE)
        self._boxes = 0 if box is None else 1 << box
        self._bind(address_of(self._sender), segments.waits)
        self._known: dict[str, int] = {}
        self._freed = weakref.finalize(self, _free, self._sender, segments)
        self._freed.atexit = False  # daemon threads still run then: see close_at_exit
        segments.use(self)

    @property
    def handle(self) -> Any:
        """The C core's, for shmcast.mailbox.scheduled."""
        return self._handle()

    @property
    def id(self) -> int:
        """Its number, as receivers see it in `Message.sender`."""
        return int(lib.sc_sender_id(self._handle()))

    def _handle(self) -> Any:
        if self._sender is None:
            raise ValueError(f"{self.name}: the sender is closed")
        return self._sender

    def _destinations(self, to: str | Iterable[str] | None) -> int:
        if to is None:
            if not self._boxes and self._box is not None:
                raise error_from(lib.SC_REMOVED, self.name)
            if not self._boxes:
                raise ValueError(f"{self.name} is a domain: say to which mailboxes, with to=[...]")
            return self._boxes
        names = [to] if isinstance(to, str) else to
        boxes = 0
        for name in names:
            if name not in self._known:
                code = lib.sc_mailbox_find(self._segments.require(), name_bytes(name))
                self._known[name] = check(code, f"{self.name}/{name}")
            boxes |= 1 << self._known[name]
        if not boxes:
            raise ValueError(f"{self.name}: to= names no mailbox")
        return boxes

    def _send_to(
        self,
        data: bytes | bytearray | memoryview | npt.NDArray[Any],
        *,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
    ) -> Receipt:
        """What send() leaves to Python: named mailboxes, arrays with gaps, a closed sender."""
        self._handle()
        whole = memoryview(cast(Any, data))  # numpy's stubs know no buffers before 3.12
        return self._send(
            self._destinations(to), whole if whole.c_contiguous else whole.tobytes(), timeout
        )

    def _fail(self, code: int) -> NoReturn:
        if code == lib.SC_REMOVED:
            self._known.clear()
            self._boxes = 0  # the place may be another mailbox's by now
        raise self._error(code)

    def _error(self, code: int) -> Exception:
        error = error_from(code, self.name)
        if isinstance(error, Undecided) and self._sender is not None:
            receipt = new("struct sc_receipt *")
            lib.sc_sender_undecided(self._sender, receipt)
            error.receipt = Receipt(*_receipt_words(ffi.buffer(receipt)))
        return error

    def send_many(
        self,
        messages: Sequence[bytes],
        *,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
    ) -> Receipt:
        """Sends them in one operation: all of them or none, in a row, with consecutive timestamps.

        In `crash` and `timing` a batch is sent one by one: an error may come after the first few.
        """
        boxes = self._boxes if to is None else 0
        return self._send_many(boxes or self._destinations(to), messages, timeout)

    def loan(self, size: int, *, timeout: float | None = None, to: str | None = None) -> Loan:
        """A slot to write into without copying, as a block: ``with sender.loan(n) as slot: …``.

        The message is sent when the block ends, and dropped if it raises. One loan at a time.
        """
        boxes = (self._boxes if to is None else 0) or self._destinations(to)
        if boxes & (boxes - 1):
            raise ValueError(f"{self.name}: a loan goes to one mailbox")
        return Loan(self, boxes.bit_length() - 1, size, timeout)

    def overruns(self) -> list[Overrun]:
        """Sends that broke their bound since the last call; the latest 64 at most."""
        return overruns_of(lib.sc_sender_overruns, self._handle(), self.name)

    def confirm(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        """In `crash` and `timing`, waits until the receivers have decided; raises Rejected. In any
        protocol it tells of a send that ended with Undecided, whose error holds the receipt."""
        words = new("struct sc_receipt *", tuple(receipt))
        box = -1 if self._box is None else self._box
        handle = self._handle()
        code = in_slices(
            timeout, (lib.SC_TIMEOUT,), lambda end: int(lib.sc_confirm(handle, box, words, end))
        )
        check(code, self.name)

    async def asend(
        self,
        data: bytes,
        *,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
    ) -> Receipt:
        """Like send(), without blocking the event loop: a send takes a microsecond unless the lane
        is full, or a copy is being replaced, and only then a thread waits. In `crash` and `timing`,
        which may have to wait out bounds, a thread always does."""
        if not self._segments.waits:
            receipt = self._send_at_once(data, to)
            if receipt is not None:
                return receipt
        import asyncio

        return await asyncio.to_thread(self.send, data, timeout=timeout, to=to)

    def _send_at_once(self, data: bytes, to: str | Iterable[str] | None) -> Receipt | None:
        """None if it would have to wait; that does not count as a full lane."""
        self._handle()
        boxes = (self._boxes if to is None else 0) or self._destinations(to)
        whole = memoryview(cast(Any, data))
        return self._try_send(boxes, whole if whole.c_contiguous else whole.tobytes())

    def close(self) -> None:
        """Gives the lane back. The memory goes with the last reference: a thread may be inside."""
        sender, self._sender = self._sender, None
        if sender is not None:
            self._bind(0, False)
            lib.sc_sender_close(sender)
