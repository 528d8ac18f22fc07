"""The one tree of errors. Each has one meaning, and its text names the next step.

Nothing is half-done after an error: a message is delivered by every receiver or by none. After
Undecided it is not known yet which, after any other error of a send it is by none. Only a batch of
`crash` or `timing` is sent message by message: the first few may have been sent.
"""

from __future__ import annotations

import errno
import os
from typing import Any


class ShmcastError(Exception):
    """Root of all errors raised by shmcast."""


class CopyFailed(ShmcastError):
    """One copy of a mailbox is lost. Survived inside; raised only by operations on one copy."""


class MailboxLost(ShmcastError):
    """No copy is left, or the mailbox was removed."""


class Rejected(ShmcastError):
    """The message was decided against. No receiver delivered it, and none will."""


class DeadlineMissed(ShmcastError):
    """A time bound was broken: the outcome is still decided, and the text says which."""


class Undecided(DeadlineMissed):
    """Sent, but not decided when the time was over. It is decided alike for everyone: `receipt` is
    what Sender.confirm takes to tell."""

    receipt: Any = None  # a shmcast.Receipt


class LeftEarly(ShmcastError, TimeoutError):
    """leave() ended before everything older was received; the receiver is closed. `messages` holds
    what had been received."""

    def __init__(self, text: str, messages: list[Any]) -> None:
        super().__init__(text)
        self.messages = messages


class MailboxFull(ShmcastError):
    """No room before the deadline. Nothing was written."""


class MessageTooLarge(ShmcastError, ValueError):
    """Longer than the mailbox's message size. Nothing was written."""


class PeerDead(ShmcastError):
    """A process that this operation needs is dead."""


class NoQuorum(ShmcastError):
    """Too few replicas of a group are alive: it orders nothing until a majority is back."""


class NotPermitted(ShmcastError, PermissionError):
    """The operating system or the mailbox's mode does not allow it."""


class Incompatible(ShmcastError):
    """Another layout version, byte order, architecture or boot."""


class Corrupt(ShmcastError):
    """Bytes that no shmcast process can have written."""


class ConfigError(ShmcastError, ValueError):
    """A cluster.toml that says something wrong: its line, and what to write instead."""


# What the C core returns (enum sc_error in csrc/api.h), what it means, and what to do next.
_MEANINGS: dict[int, tuple[type[Exception], str]] = {
    -1001: (
        MailboxLost,
        "every copy is lost: create it again (a copy that fails should be replaced while another "
        "is intact, see Mailbox.replace)",
    ),
    -1002: (Rejected, "the message was decided against; nobody delivered it: send it again"),
    -1003: (
        DeadlineMissed,
        "this member broke its time bound and was evicted: open a new sender or receiver",
    ),
    -1004: (MailboxFull, "no room before the deadline; nothing was written: wait, or receive more"),
    -1005: (MessageTooLarge, "larger than message_size; nothing was written"),
    -1006: (PeerDead, "the process at the other end is dead"),
    -1007: (
        Incompatible,
        "written by another layout version, byte order or boot: remove it and create it again",
    ),
    -1008: (Corrupt, "not a shmcast segment, or damaged: remove it and create it again"),
    -1009: (CopyFailed, "the copy that held this data failed; the others go on: try again"),
    -1010: (ValueError, "the handle is closed"),
    -1011: (
        RuntimeError,
        "the handle belongs to the parent process: open the mailbox again after fork",
    ),
    -1012: (TimeoutError, "nothing came before the deadline"),
    -1013: (FileExistsError, "it exists already: open it, or remove it first"),
    -1014: (FileNotFoundError, "it does not exist: create it first"),
    -1015: (ValueError, "a parameter is out of range"),
    -1016: (
        OSError,
        "/dev/shm is full: free some (shmcast ls, shmcast rm) or ask for fewer or smaller slots",
    ),
    -1017: (
        MailboxFull,
        "every place is taken by a living process: close one, or create it with more",
    ),
    -1018: (MailboxLost, "it was removed: create it again"),
    -1020: (
        CopyFailed,
        "it has had 48 segments, as many as it can; the intact ones go on: create it anew in time",
    ),
    -1021: (
        DeadlineMissed,
        "done, but later than its bound; nothing is lost, go on: see overruns() and stats()",
    ),
    -1022: (
        NotPermitted,
        "a new copy must belong to the mailbox's owner: let the owner, or root, replace it",
    ),
    -1023: (
        Undecided,
        "sent, but not decided yet: ask Sender.confirm(error.receipt), and do not send it again",
    ),
    -1019: (DeadlineMissed, "a copy was being replaced for longer than the deadline: try again"),
}


def error_from(code: int, what: str) -> Exception:
    """The exception for a negative result of the core. `what` names the object concerned."""
    if code in _MEANINGS:
        kind, text = _MEANINGS[code]
        if kind is OSError:
            return OSError(errno.ENOSPC, f"{what}: {text}")
        return kind(f"{what}: {text}")
    if -code in (errno.EACCES, errno.EPERM):
        return NotPermitted(-code, f"{what}: no permission; create it with mode= and group=")
    return OSError(-code, f"{what}: {os.strerror(-code)}")
