"""Mailbox operations as tasks of a schedule: they run in its C thread, out of Python's reach."""

from __future__ import annotations

from typing import Any

from shmcast._native import ffi, lib
from shmcast.mailbox.core import Protocol, check, new
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver
from shmcast.mailbox.records import Message
from shmcast.mailbox.sender import Sender
from shmcast.realtime.scheduler import Native


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


def decisions(receiver: Receiver, box: Mailbox) -> Native:
    """One round of decisions of a `timing` receiver, to be released at least every p. From now on
    nobody else decides for it."""
    if box.protocol is not Protocol.TIMING:
        raise ValueError(f"{box.name}: only `timing` decides in rounds, not {box.protocol}")
    check(lib.sc_receiver_decide_by_schedule(receiver.handle), receiver.name)
    return Native(ffi.addressof(lib, "sc_rt_decide"), receiver.handle, receiver)
