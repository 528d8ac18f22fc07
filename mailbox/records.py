"""What senders and receivers hand out. Plain tuples with names, because they are made often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from shmcast.mailbox.core import CopyState


class Receipt(NamedTuple):
    """A send that is over."""

    timestamp: int  # ns
    sequence: int  # counts this sender's messages, from 0
    position: int  # in the sender's lane; for confirm()


class Message(NamedTuple):
    data: bytes
    timestamp: int  # ns; with `sender` it gives the one order
    sender: int
    sequence: int


class _Direct(tuple[Any, ...]):
    """Lends its heirs the constructor of tuples, which takes one iterable and is C.

    A NamedTuple hides it behind a Python function; called with a class in front, as
    ``tuple.__new__(Message, ...)``, it is a third slower than as the class's own.
    """

    __slots__ = ()
    __new__ = tuple.__new__


class MadeReceipt(_Direct, Receipt):  # two constructors; the first counts
    """A Receipt, made from one iterable: for the sender, which makes many."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Receipt, tuple(self)


class MadeMessage(_Direct, Message):
    """A Message, made from one iterable: for the receiver, which makes many."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, tuple(self)


MadeReceipt.__name__ = Receipt.__name__  # as they are printed
MadeMessage.__name__ = Message.__name__
make_receipt: Callable[[Iterable[Any]], Receipt] = cast(Any, MadeReceipt)
make_message: Callable[[Iterable[Any]], Message] = cast(Any, MadeMessage)


class SenderStats(NamedTuple):
    pid: int
    operations: int
    messages: int
    bytes: int
    rejected: int
    full: int
    late: int
    worst_ns: int


class ReceiverStats(NamedTuple):
    pid: int
    messages: int
    bytes: int
    rejected: int  # messages decided against
    resolved: int  # operations of dead or late senders that this receiver ended
    violations: int  # signs that somebody broke a bound that the protocol relies on
    sleeps: int
    worst_ns: int  # from timestamp to delivery
    depth: int  # messages waiting


class MailboxStats(NamedTuple):
    copies: list[CopyState]
    senders: list[SenderStats]
    receivers: list[ReceiverStats]
    send_bound_ns: int
    latency_bound_ns: int
