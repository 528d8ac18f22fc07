"""The one tree of errors. Each has one meaning, and its text names the next step.

Nothing is half-done after an error: a message is delivered by every receiver or by none.
"""

from __future__ import annotations


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


class MailboxFull(ShmcastError):
    """No room before the deadline. Nothing was written."""


class MessageTooLarge(ShmcastError, ValueError):
    """Longer than the mailbox's message size. Nothing was written."""


class PeerDead(ShmcastError):
    """A process that this operation needs is dead."""


class NotPermitted(ShmcastError, PermissionError):
    """The operating system or the mailbox's mode does not allow it."""


class Incompatible(ShmcastError):
    """Another layout version, byte order, architecture or boot."""


class Corrupt(ShmcastError):
    """Bytes that no shmcast process can have written."""
