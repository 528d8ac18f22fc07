"""The C core as Python sees it: calls, deadlines, names of enumerations."""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple, Self

from shmcast._native import ffi, lib
from shmcast.errors import error_from

FOREVER = (1 << 64) - 1
_FROM_NOW = 1 << 63
DEFAULT_TIMEOUT_S = 10.0


class Protocol(enum.StrEnum):
    """How receivers agree on a message and its place.

    `eager`, the default, needs no assumption on time; `crash` and `timing` wait out bounds on each
    message, and are right while those hold for all, or for most receivers.
    """

    CRASH = "crash"
    TIMING = "timing"
    EAGER = "eager"


class Late(enum.StrEnum):
    """What an operation that took longer than its bound does, besides being counted and kept:
    nothing (`count`), or DeadlineMissed (`raise`), by send when it is done, by receive at the next
    call."""

    COUNT = "count"
    RAISE = "raise"


class Overrun(NamedTuple):
    """A bound that was broken, and by how much. `kind` says which: a send that was late or
    rejected, a delivery, a decision, or another receiver (then `timestamp` is its pid)."""

    time_ns: int  # when it was noticed
    timestamp: int  # of the message; of a late peer, its pid
    took_ns: int
    bound_ns: int
    kind: str


_OVERRUN_KINDS = (
    "",
    "send late",  # accepted after its bound
    "send rejected",
    "delivery late",
    "decision late",
    "peer late",
    "peer evicted",
)


def overruns_of(drain: Any, handle: Any, name: str) -> list[Overrun]:
    out = ffi.new("struct sc_overrun[64]")
    count = check(drain(handle, out, 64), name)
    return [
        Overrun(o.time_ns, o.timestamp, o.took_ns, o.bound_ns, _OVERRUN_KINDS[o.kind])
        for o in out[0:count]
    ]


PROTOCOL_CODES = {
    Protocol.CRASH: lib.SC_CRASH,
    Protocol.TIMING: lib.SC_TIMING,
    Protocol.EAGER: lib.SC_EAGER,
}


class CopyState(enum.Enum):
    """A copy that has failed once has failed for good: it is replaced by a new one."""

    INTACT = "intact"
    FAILED = "failed"


def deadline_in(timeout_s: float | None) -> int:
    """A deadline for the core: relative, so that the clock is read there, once."""
    if timeout_s is None:
        timeout_s = DEFAULT_TIMEOUT_S
    if not 0 <= timeout_s <= 1e9:
        raise ValueError(f"timeout must be between 0 and 1e9 seconds, not {timeout_s!r}")
    return _FROM_NOW | int(timeout_s * 1e9)


DEFAULT_DEADLINE = deadline_in(DEFAULT_TIMEOUT_S)


def check(code: int, what: str) -> int:
    if code < 0:
        raise error_from(code, what)
    return code


def new(ctype: str, *args: Any) -> Any:
    return ffi.new(ctype, *args)


def address_of(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


class Closing(ABC):
    """Leaving its block closes it."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SlotBuffers:
    """Slots as buffers, made once each. A buffer holds on to the segments, so that an array over a
    slot never points into memory that is gone."""

    _MOST = 1024  # a lane has fewer; a receiver of many lanes makes some of them again

    def __init__(self, segments: object) -> None:
        self._segments = segments
        self._known: dict[int, memoryview] = {}

    def of(self, address: Any, size: int) -> memoryview:
        number = address_of(address)
        known = self._known.get(number)
        if known is None or len(known) < size:
            segments = self._segments
            held = ffi.gc(address, lambda _: segments and None)
            if len(self._known) >= self._MOST:
                self._known.clear()
            known = self._known[number] = memoryview(ffi.buffer(held, size))
        return known[:size]


def name_bytes(name: str) -> bytes:
    """Names are checked by the core; only what cannot reach it is refused here."""
    if "\0" in name or not name.isascii():
        raise ValueError(f"{name!r}: use ASCII letters, digits, '_', '.' and '-'")
    if len(name) > lib.SC_NAME_MAX:
        raise ValueError(f"{name!r}: a name has at most {lib.SC_NAME_MAX} characters")
    return name.encode("ascii")


if "SHMCAST_CLOCK_FAULT" in os.environ:  # a drill: see clock_fault.py
    from shmcast.mailbox.clock_fault import skew_from_environment

    skew_from_environment()
