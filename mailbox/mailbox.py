"""One mailbox: create, open, remove; its senders, receivers, copies and figures."""

from __future__ import annotations

from typing import Self

from shmcast._native import lib
from shmcast.mailbox.core import (
    PROTOCOL_CODES,
    Closing,
    CopyState,
    Late,
    Protocol,
    check,
    name_bytes,
    new,
)
from shmcast.mailbox.domain import (
    DEFAULT_RECEIVERS,
    DEFAULT_SENDERS,
    Domain,
    Segments,
    create_box,
    create_handle,
    open_handle,
)
from shmcast.mailbox.receiver import Receiver, Wait
from shmcast.mailbox.records import MailboxStats, ReceiverStats
from shmcast.mailbox.sender import Sender
from shmcast.realtime.bounds import Bounds
from shmcast.realtime.histogram import Histogram

_PROTOCOLS = {code: protocol for protocol, code in PROTOCOL_CODES.items()}


class Mailbox(Closing):
    """Ordered messages from many senders to many receivers, through shared memory.

    It lies in several segments, its copies, and survives the loss of all but one. Every receiver
    gets every message that is sent after it has joined, and all get them in the same order. Made
    with `create`, used from other processes with `open`, gone with `remove`; closing a handle
    leaves the mailbox as it is. A handle belongs to the process that opened it: open again after
    a fork.
    """

    def __init__(self, segments: Segments, name: str, box: int) -> None:
        self._segments = segments
        self._box = box
        self.name = name
        params = new("struct sc_mailbox_params *")
        check(lib.sc_mailbox_params(segments.require(), box, params), name)
        self.message_size: int = params.message_bytes
        self.capacity: int = params.capacity
        self.protocol = _PROTOCOLS[segments.params.protocol]

    @classmethod
    def create(
        cls,
        name: str,
        *,
        copies: int = 3,
        message_size: int = 4096,
        capacity: int = 256,
        protocol: str = "eager",
        senders: int = DEFAULT_SENDERS,
        receivers: int = DEFAULT_RECEIVERS,
        bounds: Bounds | None = None,
        mode: int = 0o600,
        group: str | int | None = None,
        checksum: bool = True,
        evict: bool = False,
    ) -> Self:
        """Makes a mailbox by itself; FileExistsError if there is one of that name.

        Memory is allocated whole, now: about copies · senders · capacity · message_size bytes.
        `capacity` is in messages per sender, rounded up to a power of two; `senders` (8) and
        `receivers` (16) are places, free again when their holder has closed or died. `mode`
        (0o600: the owner alone) and `group` say who may use it. Without `checksum` damaged
        payloads are not noticed. With `evict` a receiver that holds up the senders longer than its
        bound loses its place.
        """
        chosen = Protocol(protocol)
        if bounds is None:
            bounds = Bounds.default(
                copies=max(copies, 1), message_bytes=max(message_size, 0), protocol=chosen
            )
        handle = create_handle(
            name,
            copies=copies,
            senders=senders,
            mailboxes=1,
            protocol=chosen,
            bounds=bounds,
            mode=mode,
            group=group,
        )
        segments = Segments(name, handle)
        try:
            box = create_box(
                handle,
                name,
                message_size=message_size,
                capacity=capacity,
                receivers=receivers,
                checksum=checksum,
                evict=evict,
            )
            check(lib.sc_domain_publish(handle), name)
            return cls(segments, name, box)
        except BaseException:
            segments.close()
            raise

    @classmethod
    def open(cls, name: str, *, timeout: float | None = 1.0) -> Self:
        """One that exists: by itself, or ``"domain/mailbox"``. FileNotFoundError if there is none
        within `timeout` seconds."""
        domain, _, inner = name.partition("/")
        segments = Segments(domain, open_handle(domain, timeout))
        try:
            if not inner and segments.params.mailboxes != 1:
                raise ValueError(f"{name} is a domain: open 'domain/mailbox', or use Domain.open")
            inner = inner or domain
            box = check(lib.sc_mailbox_find(segments.require(), name_bytes(inner)), name)
            return cls(segments, inner, box)
        except BaseException:
            segments.close()
            raise

    @staticmethod
    def remove(name: str) -> None:
        """Takes the mailbox away. Members that still use it get MailboxLost at their next step."""
        domain, _, inner = name.partition("/")
        if not inner:
            check(lib.sc_domain_remove(name_bytes(name)), name)
            return
        with Domain.open(domain) as opened:
            opened.remove_mailbox(inner)

    def sender(self, *, timeout: float | None = 1.0, late: Late | str = Late.COUNT) -> Sender:
        """Takes a sender's place, waiting for a free one for `timeout` seconds at most."""
        return Sender(self._segments, self._box, timeout, Late(late))

    def receiver(
        self,
        *,
        timeout: float | None = 1.0,
        wait: Wait | str = Wait.ADAPTIVE,
        late: Late | str = Late.COUNT,
    ) -> Receiver:
        """Joins. Whatever is sent after this returns is received; there is no history.

        `wait` says how to wait for messages, `late` what to do about broken bounds.
        """
        size = self.message_size
        return Receiver(self._segments, self._box, size, timeout, wait=Wait(wait), late=Late(late))

    @property
    def index(self) -> int:
        """Its number in its domain."""
        return self._box

    @property
    def copies(self) -> list[CopyState]:
        """The state of each copy. A failed one stays failed until `replace` makes a new one."""
        return self._segments.copies()

    def replace(self, timeout: float | None = 10.0) -> int:
        """Makes a new copy for every failed one, while traffic goes on; returns how many."""
        return self._segments.replace(timeout)

    def reap(self) -> int:
        """Frees what dead processes held; returns how many places."""
        return self._segments.reap()

    def stats(self) -> MailboxStats:
        """Counters, worst times and bounds, read from shared memory; costs the writers nothing."""
        params = self._segments.params  # owns the memory that `bounds` lies in
        bounds = params.bounds
        timing = self.protocol is Protocol.TIMING
        latency = bounds.expiry_ns if timing else bounds.send_ns
        return MailboxStats(
            copies=self.copies,
            senders=self._segments.sender_stats(),
            receivers=self._receiver_stats(),
            send_bound_ns=bounds.send_ns,
            latency_bound_ns=latency + bounds.epsilon_ns,
            receive_bound_ns=bounds.receive_ns,
            calibration=bounds.calibration,
            poll_ns=bounds.poll_ns,
        )

    def _histogram(self, slot: int, worst_ns: int) -> Histogram:
        words = new(f"uint64_t[{lib.SC_HISTOGRAM_WORDS}]")
        handle = self._segments.require()
        check(lib.sc_mailbox_receiver_histogram(handle, self._box, slot, words), self.name)
        return Histogram(tuple(words), worst_ns)

    def _receiver_stats(self) -> list[ReceiverStats]:
        handle = self._segments.require()
        params = new("struct sc_mailbox_params *")
        check(lib.sc_mailbox_params(handle, self._box, params), self.name)
        out = new("struct sc_receiver_stats *")
        found = []
        for slot in range(params.receivers):
            check(lib.sc_mailbox_receiver_stats(handle, self._box, slot, out), self.name)
            if out.held:
                found.append(
                    ReceiverStats(
                        out.pid,
                        out.messages,
                        out.bytes,
                        out.rejected,
                        out.resolved,
                        out.violations,
                        out.sleeps,
                        out.worst_ns,
                        out.depth,
                        out.late,
                        out.late_rounds,
                        out.late_peers,
                        out.evicted,
                        out.silent_ns,
                        self._histogram(slot, out.worst_ns),
                    )
                )
        return found

    @property
    def segments(self) -> Segments:
        """The copies themselves, for shmcast.mailbox.faults."""
        return self._segments

    def close(self) -> None:
        """Ends this handle, its senders and its receivers. The mailbox stays: see `remove`."""
        self._segments.close()
