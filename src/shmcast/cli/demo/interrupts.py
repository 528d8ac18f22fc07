"""Ctrl-C and its relatives: they end the demo, but never between starting a process and knowing
of it, nor in the middle of cleaning up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

_KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = [signal.signal(kind, handler) for kind in _KINDS]
    try:
        yield
    finally:
        for kind, old in zip(_KINDS, before, strict=True):
            signal.signal(kind, old)


def ending_alike() -> contextlib.AbstractContextManager[None]:
    """SIGTERM and SIGHUP clean up as Ctrl-C does."""
    return _handled_by(_give_up)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What comes meanwhile is raised afterwards."""
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    if came:
        raise KeyboardInterrupt
