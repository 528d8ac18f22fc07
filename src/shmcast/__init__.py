"""Ordered, fault-tolerant messaging between processes in shared memory, with time bounds."""

from __future__ import annotations

from shmcast.errors import (
    CopyFailed,
    Corrupt,
    DeadlineMissed,
    Incompatible,
    MailboxFull,
    MailboxLost,
    MessageTooLarge,
    NotPermitted,
    PeerDead,
    Rejected,
    ShmcastError,
)
from shmcast.mailbox.core import CopyState, Late, Overrun, Protocol
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver, View, Wait
from shmcast.mailbox.records import Batch, Message, Receipt
from shmcast.mailbox.sender import Loan, Sender
from shmcast.realtime.bounds import Bounds

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Bounds",
    "CopyFailed",
    "CopyState",
    "Corrupt",
    "DeadlineMissed",
    "Domain",
    "Incompatible",
    "Late",
    "Loan",
    "Mailbox",
    "MailboxFull",
    "MailboxLost",
    "Message",
    "MessageTooLarge",
    "NotPermitted",
    "Overrun",
    "PeerDead",
    "Protocol",
    "Receipt",
    "Receiver",
    "Rejected",
    "Sender",
    "ShmcastError",
    "View",
    "Wait",
]
