"""What senders and receivers hand out. Plain tuples with names, because they are made often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, overload

from shmcast._fast import connect, messages_of
from shmcast._native import ffi, lib
from shmcast.mailbox.core import CopyState, address_of
from shmcast.realtime.histogram import EMPTY, Histogram

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Receipt(NamedTuple):
    """A send that is over: its place in the one order.

    `timestamp` is in ns; `sequence` counts this sender's messages from 0; `position` is where it
    lies in the sender's ring, for `Sender.confirm`.
    """

    timestamp: int  # ns
    sequence: int  # counts this sender's messages, from 0
    position: int  # in the sender's lane; for confirm()


class Message(NamedTuple):
    """What a receiver gets. `timestamp` (ns) and `sender` together are its place in the one order;
    `sequence` counts that sender's messages from 0."""

    data: bytes
    timestamp: int  # ns; with `sender` it gives the one order
    sender: int
    sequence: int


_INFO = Struct("5Q")  # struct sc_message: timestamp, sequence, sender, bytes, offset


class Batch(Sequence[Message]):
    """Messages that came together: a sequence of `Message`. `payloads` is a tuple of their bytes,
    ready; the rest is unpacked when asked for."""

    __slots__ = ("_words", "payloads")
    WORDS = _INFO.size // 8

    def __init__(self, payloads: tuple[bytes, ...], words: bytes) -> None:
        self.payloads = payloads
        self._words = words

    @property
    def timestamps(self) -> npt.NDArray[np.uint64]:
        """Of all messages, in ns, as an array."""
        import numpy as np  # late: a fifth of a second that most processes do not need

        return np.frombuffer(self._words, dtype=np.uint64)[0 :: self.WORDS]

    def messages(self) -> list[Message]:
        """All of them at once."""
        return messages_of(self.payloads, self._words)

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages())

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return self.messages()[index]
        at = range(len(self.payloads))[index]
        timestamp, sequence, sender, _, _ = _INFO.unpack_from(self._words, at * _INFO.size)
        return Message(self.payloads[at], timestamp, sender, sequence)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.messages() == list(other)

    def __hash__(self) -> int:
        return hash((self.payloads, self._words))

    def __repr__(self) -> str:
        return f"Batch({self.messages()!r})"


class SenderStats(NamedTuple):
    """One sender's place: what was sent from it, by all its holders; `pid` is 0 if nobody holds it.

    `rejected` were decided against, `full` found no room in time, `late` took longer than their
    bound; `worst_ns` and `histogram` are completion times.
    """

    pid: int
    operations: int
    messages: int
    bytes: int
    rejected: int
    full: int
    late: int  # accepted after their bound
    worst_ns: int
    histogram: Histogram = EMPTY  # of completion times, all owners of the place together


class ReceiverStats(NamedTuple):
    """One receiver: what it got, how far behind it is (`depth`), and how late it was. Times are
    from a message's timestamp to its delivery; `late` counts those beyond their bound."""

    pid: int
    messages: int
    bytes: int
    rejected: int  # messages decided against
    resolved: int  # operations of dead or late senders that this receiver ended
    violations: int  # signs that somebody broke a bound that the protocol relies on
    sleeps: int
    worst_ns: int  # from timestamp to delivery
    depth: int  # messages waiting
    late: int = 0  # deliveries after their bound
    late_rounds: int = 0  # `timing`: messages that it was too late to vote on
    late_peers: int = 0  # `timing`: others that it found silent beyond their bound
    evicted: int = 0  # of those, how many it evicted
    silent_ns: int = 0  # `timing`: since its last round of decisions
    histogram: Histogram = EMPTY  # from timestamp to delivery


class MailboxStats(NamedTuple):
    """Figures of a mailbox, and the bounds to compare them with.

    A send should take `send_bound_ns` at most. A message can be had `latency_bound_ns` after its
    timestamp; a delivery is late when its receiver was at it for longer than `receive_bound_ns`
    since then, or since it was called, whichever came later. The senders are the domain's.
    """

    copies: list[CopyState]
    senders: list[SenderStats]
    receivers: list[ReceiverStats]
    send_bound_ns: int
    latency_bound_ns: int
    receive_bound_ns: int = 0  # Δr
    calibration: int = 0  # which measurement the bounds came from; 0: none
    poll_ns: int = 0  # p: a `timing` receiver has to look at least so often

    @property
    def send_slack_ns(self) -> int:
        """How much the slowest send so far had left of its bound; negative if it was late."""
        return self.send_bound_ns - max((s.worst_ns for s in self.senders), default=0)

    @property
    def delivery_slack_ns(self) -> int:
        """The same of the slowest delivery, to the receivers that are there."""
        bound = self.latency_bound_ns + self.receive_bound_ns
        return bound - max((r.worst_ns for r in self.receivers), default=0)


def _function(name: str) -> int:
    return address_of(ffi.addressof(lib, name))


# In the order of connect() in csrc/python/fast.c.
_CORE = (
    "sc_send_many",
    "sc_receive_many",
    "sc_confirm",
    "sc_now",
    "sc_loan",
    "sc_loan_send",
    "sc_loan_drop",
    "sc_view",
    "sc_view_release",
)
connect(tuple(_function(name) for name in _CORE), Receipt, Message)
