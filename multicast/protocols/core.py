"""The one shape of a protocol: `handle(event, now) -> effects`.

A protocol is a pure object. It has no clock, socket, thread or randomness: what it knows came in
an event, what it wants done goes out as effects, in order. So the same object runs in the
simulator, in interleaving tests, over shared memory and over the network.

Rules a protocol relies on, and a driver keeps:

- Handlers are indivisible; effects happen in list order; a crash may fall between any two of
  them, and between two receivers of one `Send`.
- `now` is this process's *local* clock, in ticks. It never enters a protocol any other way.
- A message to oneself arrives at once and never gets lost.
- What arrives at one local tick is handled before a timer due at that tick.

Rules a driver relies on, and a protocol keeps:

- A message is immutable once sent: all its receivers share one object, nobody copies it.
- The same events give the same effects, in the same order: never iterate over a set of strings.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

ProcessId: TypeAlias = int
GroupId: TypeAlias = int
LocalTime: TypeAlias = int  # ticks of one process's clock
TimerName: TypeAlias = Hashable


class MessageId(NamedTuple):
    """Names an application message for ever: a retry carries the id of the first attempt."""

    sender: ProcessId
    seq: int  # counts the sender's multicasts, from 1


class Timestamp(NamedTuple):
    """Ordered lexicographically, as in paper 000 §III."""

    time: int
    group: GroupId


BOTTOM = Timestamp(-1, -1)  # below every timestamp that a protocol can assign


@dataclass(frozen=True, slots=True)
class Message:
    """An application message. A broadcast is a multicast to the one group of all processes."""

    id: MessageId
    dest: tuple[GroupId, ...]
    payload: object = None


class Wire:
    """Base of the messages that processes send each other.

    `about` names the application messages that this one helps to order: genuineness is counted
    with it. `label` is what counters and diagrams call it.
    """

    __slots__ = ()
    label: ClassVar[str] = "Wire"

    def __init_subclass__(cls) -> None:
        if "label" not in cls.__dict__:  # an envelope shows the label of what it holds
            cls.label = cls.__name__

    def about(self) -> tuple[MessageId, ...]:
        return ()


# Events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """The first event of a process's first life."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The first event of a later life. Memory is lost; `saved` is what the last `Save` kept."""

    incarnation: int
    saved: object = None


@dataclass(slots=True)
class Receive:
    """One `Receive` is shared by all receivers of a `Send`; never change it."""

    message: Wire
    sender: ProcessId


@dataclass(frozen=True, slots=True)
class Multicast:
    """The application, or the layer above, wants `message` ordered and delivered."""

    message: Message


@dataclass(frozen=True, slots=True)
class Request:
    """Any other call of the application or of the layer above: join, leave, propose a value."""

    what: object


@dataclass(frozen=True, slots=True)
class Timer:
    name: TimerName


@dataclass(frozen=True, slots=True)
class Suspect:
    """The failure detector thinks that `process` has crashed. It may be wrong."""

    process: ProcessId


@dataclass(frozen=True, slots=True)
class Trust:
    """The failure detector takes its suspicion back, or `process` has restarted."""

    process: ProcessId


@dataclass(frozen=True, slots=True)
class Nominate:
    """Leader selection (Ω) names `leader` for `group`. Until the first one arrives, the leader of
    a group is its first member: no events are spent on saying so."""

    group: GroupId
    leader: ProcessId


@dataclass(frozen=True, slots=True)
class Delivered:
    """The module `by` below delivered `message`; see stack.py."""

    message: Message
    ts: Timestamp | None
    by: str


@dataclass(frozen=True, slots=True)
class Replied:
    """The module `by` below answered a `Request`; see stack.py."""

    what: object
    by: str


Event: TypeAlias = (
    Start
    | Restart
    | Receive
    | Multicast
    | Request
    | Timer
    | Suspect
    | Trust
    | Nominate
    | Delivered
    | Replied
)

# Effects --------------------------------------------------------------------------------------

APPLICATION = ""  # the layer that a user sees
OPTIMISTIC = "optimistic"  # deliveries that a later conservative delivery may contradict


@dataclass(slots=True)
class Send:
    """To each receiver in turn; a crash may leave the rest out."""

    message: Wire
    to: tuple[ProcessId, ...]


@dataclass(slots=True)
class Deliver:
    """Hands `message` to the application or to the layer above. `ts` is its place in the global
    order, if the protocol has one."""

    message: Message
    ts: Timestamp | None = None
    layer: str = APPLICATION


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fires once when the local clock reaches `at`. Setting a name again moves it."""

    name: TimerName
    at: LocalTime


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: TimerName


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a `Request`: join done, value decided, or an error the application must see."""

    what: object


@dataclass(frozen=True, slots=True)
class Save:
    """Keeps `value` where it outlives this process; replaces the one before."""

    value: object


@dataclass(frozen=True, slots=True)
class Record:
    """Puts a trace event on record: what a checker must know and no other effect shows.

    "crash" and "restart" together end one life and begin the next without a loss of memory: a
    process that knows that it has missed something goes on as a new participant.
    """

    kind: str
    message: Message | None = None
    layer: str = APPLICATION
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Hands `event` (Multicast or Request) to the module `of` below; see stack.py."""

    of: str
    event: Multicast | Request


Effect: TypeAlias = Send | Deliver | SetTimer | CancelTimer | Reply | Save | Record | Ask


class Machine(Protocol):
    """What every protocol is."""

    def handle(self, event: Event, now: LocalTime) -> list[Effect]: ...
