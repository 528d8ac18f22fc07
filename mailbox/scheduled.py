"""Mailbox operations as tasks of a schedule: they run in its C thread, out of Python's reach."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from shmcast._native import ffi, lib
from shmcast.mailbox.core import Protocol, check, new
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver
from shmcast.mailbox.records import Message
from shmcast.mailbox.sender import Sender
from shmcast.realtime.scheduler import Native, Platform, platform_for_core, refused

_ORDINARY = Platform(kernel="other", lock_memory=False)


class Outbox:
    """Sends, at every release, what was put last; nothing before the first put."""

    def __init__(self, sender: Sender, box: Mailbox) -> None:
        out = new("sc_rt_outbox **")
        handle, size = sender.handle, box.message_size
        check(lib.sc_rt_outbox_open(handle, box.index, size, out), sender.name)
        self._sender = sender
        self._outbox = ffi.gc(out[0], lib.sc_rt_outbox_free)

    def put(self, data: bytes) -> None:
        """From one thread at a time. Never waits for the task."""
        check(lib.sc_rt_outbox_put(self._outbox, data, len(data)), self._sender.name)

    @property
    def sent(self) -> int:
        return int(lib.sc_rt_outbox_sent(self._outbox))

    @property
    def native(self) -> Native:
        return Native(ffi.addressof(lib, "sc_rt_send"), self._outbox, self)


class Inbox:
    """Receives, at every release, what has come; take() hands it out. When it is full, messages
    stay in the mailbox."""

    def __init__(self, receiver: Receiver, box: Mailbox, *, slots: int = 256) -> None:
        out = new("sc_rt_inbox **")
        self._size = box.message_size
        check(lib.sc_rt_inbox_open(receiver.handle, self._size, slots, out), receiver.name)
        self._receiver = receiver
        self._inbox = ffi.gc(out[0], lib.sc_rt_inbox_free)
        self._buffer = new("unsigned char[]", max(1, self._size))
        self._info = new("struct sc_message *")

    def take(self) -> Message | None:
        """The next message, or None if none has been received yet. From one thread at a time."""
        info: Any = self._info
        code = lib.sc_rt_inbox_take(self._inbox, self._buffer, self._size, info)
        if code == lib.SC_TIMEOUT:
            return None
        check(code, self._receiver.name)
        data = bytes(ffi.buffer(self._buffer, info.bytes))
        return Message(data, info.timestamp, info.sender, info.sequence)

    @property
    def native(self) -> Native:
        return Native(ffi.addressof(lib, "sc_rt_receive"), self._inbox, self)


_threads: weakref.WeakKeyDictionary[Receiver, weakref.finalize[Any, Receiver]] = (
    weakref.WeakKeyDictionary()
)


def _check_timing(box: Mailbox) -> None:
    if box.protocol is not Protocol.TIMING:
        raise ValueError(f"{box.name}: only `timing` decides in rounds, not {box.protocol}")


def decide_with(receiver: Receiver, box: Mailbox, platform: Platform) -> list[str]:
    """Gives the thread that decides for a `timing` receiver a scheduling class, a core, locked
    memory and exact timers; by itself it has none of them. Returns what the kernel refused."""
    _check_timing(box)
    _end_thread(receiver)
    p, out = platform_for_core(platform), new("sc_rt_decider **")
    check(lib.sc_rt_decider_open(receiver.handle, p, out), receiver.name)
    _threads[receiver] = weakref.finalize(receiver, lib.sc_rt_decider_free, out[0])
    return refused(platform, p)


def _end_thread(receiver: Receiver) -> None:
    if (end := _threads.pop(receiver, None)) is not None:
        end()


def decisions(receiver: Receiver, box: Mailbox, *, after: Platform = _ORDINARY) -> Native:
    """One round of decisions of a `timing` receiver, to be released at least every p. While the
    schedule runs nobody else decides for it; then a thread with what `after` asks for."""
    _check_timing(box)

    def begin() -> None:
        _end_thread(receiver)
        check(lib.sc_receiver_decide_by_schedule(receiver.handle), receiver.name)

    def end() -> None:
        with contextlib.suppress(ValueError):  # it is closed: nobody has to decide any more
            if receiver.handle:
                decide_with(receiver, box, after)

    return Native(
        ffi.addressof(lib, "sc_rt_decide"),
        receiver.handle,
        receiver,
        begin,
        end,
        box.stats().poll_ns,
    )
