"""What processes of Dynamic Atomic Broadcast send each other: one `Flush` per slot, which carries
the slot's messages, its mark ⊥, and control messages that bypass the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from shmcast.multicast.protocols.core import Message, MessageId, ProcessId, Wire

Life = tuple[ProcessId, int]  # a process and its incarnation


@dataclass(frozen=True, slots=True)
class JoinNotice:
    who: Life
    slot: int


@dataclass(frozen=True, slots=True)
class Part:
    """First Round: I saw this life end with slot `value`, and take part in the agreement."""

    about: Life
    value: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Help:
    """The same from one that joins too late to take part, or that saw the life leave."""

    about: Life
    value: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """Consensus."""

    about: Life
    r: int
    value: int
    early: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Answers a message that was sent again: the agreement is over."""

    about: Life
    value: int
    again: bool = False


Ballot: TypeAlias = Part | Help | Round | Outcome
Control: TypeAlias = JoinNotice | Ballot


@dataclass(frozen=True, slots=True)
class Flush(Wire):
    incarnation: int
    slot: int
    data: tuple[Message, ...] = ()
    control: tuple[Control, ...] = ()
    mark: bool = True  # ⊥: the slot is complete. False: a joiner's control messages only
    leaves: bool = False  # the sender's last messages are those before this mark

    def about(self) -> tuple[MessageId, ...]:
        return tuple(m.id for m in self.data)


# The service ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """`incarnation` is larger than any that this process used before."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class Leave:
    pass


@dataclass(frozen=True, slots=True)
class JoinOK:
    incarnation: int


@dataclass(frozen=True, slots=True)
class LeaveOK:
    incarnation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Not a member, or above the burst that was agreed on."""

    message: MessageId
    why: str


@dataclass(frozen=True, slots=True)
class Expelled:
    """Others think that this process failed: it must join again."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """The network broke its promise; the order may have gaps from here on."""

    why: str
