"""What senders and receivers hand out. Plain tuples with names, because they are made often."""

from __future__ import annotations

from typing import NamedTuple

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
