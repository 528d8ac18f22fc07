"""Ordered, fault-tolerant messaging between processes in shared memory, with time bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shmcast.errors import (
    ConfigError,
    CopyFailed,
    Corrupt,
    DeadlineMissed,
    Incompatible,
    LeftEarly,
    MailboxFull,
    MailboxLost,
    MessageTooLarge,
    NoQuorum,
    NotPermitted,
    PeerDead,
    Rejected,
    ShmcastError,
    Undecided,
)
from shmcast.mailbox.core import CopyState, Late, Overrun, Protocol
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver, View, Wait
from shmcast.mailbox.records import Batch, Message, Receipt
from shmcast.mailbox.sender import Loan, Sender
from shmcast.realtime.bounds import Bounds

if TYPE_CHECKING:
    from shmcast.multicast.run.cluster import Cluster

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Bounds",
    "Cluster",
    "ConfigError",
    "CopyFailed",
    "CopyState",
    "Corrupt",
    "DeadlineMissed",
    "Domain",
    "Incompatible",
    "Late",
    "LeftEarly",
    "Loan",
    "Mailbox",
    "MailboxFull",
    "MailboxLost",
    "Message",
    "MessageTooLarge",
    "NoQuorum",
    "NotPermitted",
    "Overrun",
    "PeerDead",
    "Protocol",
    "Receipt",
    "Receiver",
    "Rejected",
    "Sender",
    "ShmcastError",
    "Undecided",
    "View",
    "Wait",
]


def __getattr__(name: str) -> object:
    """`Cluster` brings in every protocol: only who asks for it pays."""
    if name == "Cluster":
        from shmcast.multicast.run.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
