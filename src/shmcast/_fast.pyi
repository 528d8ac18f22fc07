"""csrc/python: the calls that must be fast."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from shmcast.mailbox.records import Message, Receipt

class SendingEnd:
    _boxes: int
    def _bind(self, handle: int, waits: bool, /) -> None: ...
    def send(
        self,
        data: bytes | bytearray | memoryview | npt.NDArray[Any],
        *,
        timeout: float | None = None,
        to: str | Iterable[str] | None = None,
    ) -> Receipt:
        """`Sender.send`. Returns when every receiver will get the message, or raises and none will.

        `to` names one or several mailboxes of a domain. Without a timeout it gives up after ten
        seconds. Raises MailboxFull (no room in time), Rejected (this process was too slow, and the
        receivers decided against it), MessageTooLarge, MailboxLost. In `crash` and `timing` its
        word holds while everyone keeps the bounds; `confirm` waits for the receivers' decision.
        """

    def _send(self, boxes: int, data: bytes | memoryview, timeout: float | None, /) -> Receipt: ...
    def _try_send(self, boxes: int, data: bytes | memoryview, /) -> Receipt | None: ...
    def _send_many(
        self, boxes: int, messages: Sequence[bytes], timeout: float | None, /
    ) -> Receipt: ...

class ReceivingEnd:
    def _bind(self, handle: int, message_bytes_max: int, waits: bool, /) -> None: ...
    def receive(self, *, timeout: float | None = None) -> Message:
        """`Receiver.receive`: the next message in the one order. TimeoutError if none comes in
        time; without a timeout it gives up after ten seconds. MailboxLost when no copy is left."""

    def _receive_many(
        self, most: int, timeout: float | None, /
    ) -> tuple[tuple[bytes, ...], bytes]: ...
    def _await(self, timeout: float, /) -> bool: ...
    def _take(self) -> Message | None: ...
    def _fetched(self) -> int: ...

class LentSlot:
    def __new__(cls, sender: SendingEnd, box: int, size: int, timeout: float | None, /) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def data(self) -> memoryview: ...
    @property
    def receipt(self) -> Receipt | None: ...

class SeenSlot:
    timestamp: int
    sender: int
    sequence: int
    def __new__(cls, receiver: ReceivingEnd, timeout: float | None, /) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def data(self) -> memoryview: ...

def messages_of(payloads: tuple[bytes, ...], words: bytes, /) -> list[Message]: ...
def connect(
    functions: tuple[int, ...], receipt: type[Receipt], message: type[Message], /
) -> None: ...
