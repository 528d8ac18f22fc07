"""What an application holds of a cluster, whichever engine serves it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, Self


class Place(NamedTuple):
    """Where a message stands in the one order of all groups; compared as a tuple.

    `time` and `tie` are the engine's; the same message has the same place at every replica, and
    places strictly increase along the deliveries of each.
    """

    time: int
    tie: int


class Delivery(NamedTuple):  # a tuple, because they are made often
    """A message at a replica: the bytes of the client, its place in the one order of all groups,
    the groups that it went to, and the client (`sender`) whose `sequence`th multicast it is.

    `optimistic` ones are early: their place may still change, and the final one follows.
    """

    payload: bytes
    timestamp: Place
    groups: tuple[str, ...]
    sender: int  # the client that multicast it
    sequence: int  # counts that client's multicasts, from 1
    optimistic: bool = False  # early, and not final: its place may still change


class Ordered(NamedTuple):
    """A multicast is ordered: every replica of its groups delivers it, at this place."""

    timestamp: Place
    sequence: int


class State(Protocol):
    """What an application hands to its replica if it has a state that a replica which comes back
    must take over. Both are called between two deliveries, by the thread that takes them."""

    def snapshot(self) -> bytes:
        """All of it, for a replica that comes back."""
        ...

    def restore(self, snapshot: bytes) -> None:
        """Takes over another's, in place of the own one."""
        ...


class Node(Protocol):
    """This process as a replica."""

    name: str

    def deliveries(
        self, *, timeout: float | None = None, optimistic: bool = False
    ) -> Iterator[Delivery]:
        """Every message for this replica's group, in the one order. Ends when the node is closed;
        raises TimeoutError when nothing came for `timeout` seconds.

        With `optimistic`, the engine of that name hands out every message twice: early, in the
        order that is likely (`delivery.optimistic`), then in the order that is final. Other
        engines have nothing to add."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class Client(Protocol):
    """Sends messages to groups. Its multicasts are delivered in the order of its calls; threads may
    share it, they take turns. A client that comes back after its death is a new one."""

    def multicast(
        self, payload: bytes, groups: Iterable[str], *, timeout: float | None = None
    ) -> Ordered:
        """To all of these groups, or to none. Returns when the message is ordered: whatever dies
        now, every replica of the groups delivers it. After DeadlineMissed it may still be ordered,
        once at most; `retry()` asks again for the same message, and never makes a second one.
        NoQuorum says which group has lost its majority."""
        ...

    def retry(self, *, timeout: float | None = None) -> Ordered:
        """The multicast that was not answered in time, once more: the same message."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
