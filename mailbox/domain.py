"""Domains: the segments, and the mailboxes that share them and one order."""

from __future__ import annotations

import atexit
import contextlib
import grp
import sys
import weakref
from collections.abc import Iterator
from typing import Any, Self

from shmcast._native import ffi, lib
from shmcast.mailbox.core import (
    PROTOCOL_CODES,
    Closing,
    CopyState,
    Late,
    Protocol,
    check,
    deadline_in,
    in_slices,
    name_bytes,
    new,
)
from shmcast.mailbox.records import SenderStats
from shmcast.mailbox.sender import Sender
from shmcast.realtime.bounds import Bounds
from shmcast.realtime.histogram import Histogram

DEFAULT_SENDERS = 8
DEFAULT_RECEIVERS = 16
_BOUND_FIELDS = (
    "send_ns",
    "receive_ns",
    "decide_ns",
    "epsilon_ns",
    "poll_ns",
    "expiry_ns",
    "hold_ns",
    "calibration",
)


def _group_id(group: str | int | None) -> int:
    if group is None:
        return -1
    return group if isinstance(group, int) else grp.getgrnam(group).gr_gid


def create_handle(
    name: str,
    *,
    copies: int,
    senders: int,
    mailboxes: int,
    protocol: Protocol,
    bounds: Bounds,
    mode: int,
    group: str | int | None,
) -> Any:
    """A new domain that has no name yet: it vanishes unless it is published."""
    if not 1 <= copies <= lib.SC_COPIES_MAX:
        raise ValueError(f"{name}: copies must be 1 to {lib.SC_COPIES_MAX}, not {copies}")
    if not 1 <= senders <= lib.SC_SENDERS_MAX:
        raise ValueError(f"{name}: senders must be 1 to {lib.SC_SENDERS_MAX}, not {senders}")
    if bounds.copies != copies:
        raise ValueError(f"{name}: the bounds are for {bounds.copies} copies, not for {copies}")
    params = new("struct sc_domain_params *")
    params.copies, params.senders, params.mailboxes = copies, senders, mailboxes
    params.protocol, params.mode = PROTOCOL_CODES[protocol], mode
    params.group_id = _group_id(group)
    for field in _BOUND_FIELDS:
        value = getattr(bounds, field)
        setattr(params.bounds, field, value(protocol) if callable(value) else value)
    out = new("sc_domain **")
    check(lib.sc_domain_create(name_bytes(name), params, out), name)
    return out[0]


def open_handle(name: str, timeout: float | None) -> Any:
    out = new("sc_domain **")
    encoded = name_bytes(name)
    code = in_slices(
        timeout, (lib.SC_TIMEOUT,), lambda deadline: int(lib.sc_domain_open(encoded, deadline, out))
    )
    check(code, name)
    return out[0]


def create_box(
    handle: Any,
    name: str,
    *,
    message_size: int,
    capacity: int,
    receivers: int,
    checksum: bool,
    evict: bool,
) -> int:
    if not 0 <= message_size <= 1 << 30:
        raise ValueError(f"{name}: message_size must be 0 to 1 GiB, not {message_size}")
    if not 1 <= receivers <= lib.SC_RECEIVERS_MAX:
        raise ValueError(f"{name}: receivers must be 1 to {lib.SC_RECEIVERS_MAX}, not {receivers}")
    if not 1 <= capacity <= 1 << 20:
        raise ValueError(f"{name}: capacity must be 1 to {1 << 20}, not {capacity}")
    params = new("struct sc_mailbox_params *")
    params.message_bytes, params.receivers = message_size, receivers
    params.capacity = max(2, 1 << (capacity - 1).bit_length())  # rounded up to a power of two
    params.checksum, params.evict = checksum, evict
    code = lib.sc_mailbox_create(handle, name_bytes(name), params)
    return check(code, name)


_open: weakref.WeakSet[Segments] = weakref.WeakSet()


@atexit.register
def close_at_exit() -> None:
    """Gives back every place. Nothing is freed: a daemon thread may be inside a call, or come
    into one, until the process has ended."""
    for segments in list(_open):
        with contextlib.suppress(Exception):
            segments.close()


class Segments:
    """The segments of one domain, mapped.

    Closing ends its senders and receivers. The memory itself stays mapped until nobody refers to
    this object any more, because another thread may be inside a call, or hold an array over a
    slot.
    """

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self.is_open = True
        self._users: weakref.WeakSet[Any] = weakref.WeakSet()
        # Do sends and receives wait out bounds, even when nothing keeps them?
        self.waits = self._protocol() != lib.SC_EAGER
        _open.add(self)

    def _protocol(self) -> int:
        params = new("struct sc_domain_params *")
        check(lib.sc_domain_params(self.handle, params), self.name)
        return int(params.protocol)

    def use(self, user: Any) -> None:
        self._users.add(user)

    def close(self) -> None:
        self.is_open = False
        for user in list(self._users):
            user.close()

    def require(self) -> Any:
        if not self.is_open:
            raise ValueError(f"{self.name}: the handle is closed")
        return self.handle

    def __del__(self) -> None:
        if not sys.is_finalizing():  # see close_at_exit
            lib.sc_domain_close(self.handle)

    # What concerns all copies.

    @property
    def params(self) -> Any:
        params = new("struct sc_domain_params *")
        check(lib.sc_domain_params(self.require(), params), self.name)
        return params

    def copies(self) -> list[CopyState]:
        """One state per copy wanted; failed copies that were replaced are no longer listed."""
        infos = new("struct sc_copy_info[48]")
        count = check(lib.sc_domain_copies(self.require(), infos, 48), self.name)
        states = [CopyState.INTACT if infos[i].intact else CopyState.FAILED for i in range(count)]
        while len(states) > self.params.copies:
            states.remove(CopyState.FAILED)
        return states

    def serials(self) -> dict[int, CopyState]:
        """Every segment this domain ever had, by number."""
        infos = new("struct sc_copy_info[48]")
        count = check(lib.sc_domain_copies(self.require(), infos, 48), self.name)
        return {
            infos[i].serial: CopyState.INTACT if infos[i].intact else CopyState.FAILED
            for i in range(count)
        }

    def replace(self, timeout: float | None) -> int:
        """Replaces every failed copy; returns how many."""
        replaced = 0
        while check(lib.sc_domain_replace(self.require(), deadline_in(timeout)), self.name):
            replaced += 1
        return replaced

    def reap(self) -> int:
        return check(lib.sc_domain_reap(self.require()), self.name)

    def _histogram(self, lane: int, worst_ns: int) -> Histogram:
        words = new(f"uint64_t[{lib.SC_HISTOGRAM_WORDS}]")
        check(lib.sc_domain_sender_histogram(self.require(), lane, words), self.name)
        return Histogram(tuple(words), worst_ns)

    def sender_stats(self) -> list[SenderStats]:
        out = new("struct sc_sender_stats *")
        found = []
        for lane in range(self.params.senders):
            check(lib.sc_domain_sender_stats(self.require(), lane, out), self.name)
            if out.held or out.operations:
                pid = out.pid if out.held else 0
                found.append(
                    SenderStats(
                        pid,
                        out.operations,
                        out.messages,
                        out.bytes,
                        out.rejected,
                        out.full,
                        out.late,
                        out.worst_ns,
                        self._histogram(lane, out.worst_ns),
                    )
                )
        return found


class Domain(Closing):
    """Several mailboxes in the same segments: one order, and sends to several of them at once.

    A send to several mailboxes is all or nothing, with one timestamp. Receivers of any of them
    agree on the order of all messages that they have in common.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments

    @classmethod
    def create(
        cls,
        name: str,
        *,
        copies: int = 3,
        senders: int = DEFAULT_SENDERS,
        bounds: Bounds | None = None,
        mode: int = 0o600,
        group: str | int | None = None,
    ) -> Self:
        """Makes a domain without mailboxes, always with the protocol `eager`. `senders` are shared
        by all its mailboxes."""
        if bounds is None:
            bounds = Bounds.default(copies=copies, message_bytes=1 << 20, protocol="eager")
        handle = create_handle(
            name,
            copies=copies,
            senders=senders,
            mailboxes=lib.SC_MAILBOXES_MAX,
            protocol=Protocol.EAGER,
            bounds=bounds,
            mode=mode,
            group=group,
        )
        segments = Segments(name, handle)
        try:
            check(lib.sc_domain_publish(handle), name)
        except BaseException:
            segments.close()
            raise
        return cls(segments)

    @classmethod
    def open(cls, name: str, *, timeout: float | None = 1.0) -> Self:
        """One that exists; FileNotFoundError if there is none within `timeout` seconds."""
        return cls(Segments(name, open_handle(name, timeout)))

    @staticmethod
    def remove(name: str) -> None:
        """Takes it away with all its mailboxes. Members get MailboxLost at their next step."""
        check(lib.sc_domain_remove(name_bytes(name)), name)

    @property
    def name(self) -> str:
        """As given to `create`."""
        return self._segments.name

    @property
    def copies(self) -> list[CopyState]:
        """The state of each copy; all mailboxes of a domain lie in the same ones."""
        return self._segments.copies()

    def create_mailbox(
        self,
        name: str,
        *,
        message_size: int = 4096,
        capacity: int = 256,
        receivers: int = DEFAULT_RECEIVERS,
        checksum: bool = True,
        evict: bool = False,
    ) -> Any:
        """A new Mailbox in this domain; its arguments are those of `Mailbox.create`."""
        from shmcast.mailbox.mailbox import Mailbox

        box = create_box(
            self._segments.require(),
            name,
            message_size=message_size,
            capacity=capacity,
            receivers=receivers,
            checksum=checksum,
            evict=evict,
        )
        return Mailbox(self._segments, name, box)

    def mailbox(self, name: str) -> Any:
        """The Mailbox of that name; FileNotFoundError if there is none."""
        from shmcast.mailbox.mailbox import Mailbox

        box = check(
            lib.sc_mailbox_find(self._segments.require(), name_bytes(name)), f"{self.name}/{name}"
        )
        return Mailbox(self._segments, name, box)

    def remove_mailbox(self, name: str) -> None:
        """Takes one mailbox away. Its members get MailboxLost; its place may be used again."""
        what = f"{self.name}/{name}"
        box = check(lib.sc_mailbox_find(self._segments.require(), name_bytes(name)), what)
        check(lib.sc_mailbox_remove(self._segments.require(), box), what)

    def mailboxes(self) -> list[str]:
        """Their names."""
        return list(self._names())

    def _names(self) -> Iterator[str]:
        out = new(f"char[{lib.SC_NAME_MAX + 4}]")
        for box in range(self._segments.params.mailboxes):
            code = lib.sc_mailbox_name(self._segments.require(), box, out, lib.SC_NAME_MAX + 4)
            if code == 0:
                yield ffi.string(out).decode("ascii")
            elif code != lib.SC_MISSING:
                check(code, self.name)

    def sender(self, *, timeout: float | None = 1.0, late: Late | str = Late.COUNT) -> Sender:
        """Takes a sender's place. Say with each send to which mailboxes, with `to=`."""
        return Sender(self._segments, None, timeout, Late(late))

    def replace(self, timeout: float | None = 10.0) -> int:
        """Makes a new copy for every failed one, while traffic goes on; returns how many."""
        return self._segments.replace(timeout)

    def reap(self) -> int:
        """Frees what dead processes held; returns how many places."""
        return self._segments.reap()

    def close(self) -> None:
        """Ends this handle, and the senders and receivers made from it. The domain stays."""
        self._segments.close()
