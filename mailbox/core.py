"""The C core as Python sees it: calls, deadlines, names of enumerations."""

from __future__ import annotations

import enum
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from shmcast._native import ffi, lib
from shmcast.errors import error_from

if TYPE_CHECKING:
    import numpy.typing as npt

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


SLICE_S = 0.1


def in_slices(timeout_s: float | None, again: tuple[int, ...], call: Callable[[int], int]) -> int:
    """Waits a slice at a time, as long as the core answers with one of `again`: between two slices
    Ctrl-C is noticed."""
    deadline_in(timeout_s)  # refuses what is no timeout
    end = time.monotonic() + (DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s)
    while True:
        left = max(0.0, end - time.monotonic())
        code = call(deadline_in(min(left, SLICE_S)))
        if code not in again or left <= SLICE_S:
            return code


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


def array_over(buffer: Any, dtype: npt.DTypeLike, shape: int | Sequence[int]) -> npt.NDArray[Any]:
    """Typed loosely, because numpy's stubs know no buffers before Python 3.12."""
    import numpy as np  # late, as in records.py

    flat: npt.NDArray[Any] = np.frombuffer(buffer, dtype=dtype)
    return flat if shape == -1 else flat.reshape(shape)


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
