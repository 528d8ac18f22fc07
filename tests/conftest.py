"""Fixtures: names that nobody else uses, and the check that nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

import shmcast
from helpers import SHM, Child, Traffic
from shmcast.mailbox import faults

# Children get Ctrl-C as at a terminal, also when the tests run in the background of a shell, which
# has its jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = itertools.count()
_PREFIX = f"t{os.getpid()}-"


def _segments() -> list[str]:
    return sorted(path.name for path in SHM.glob(f"shmcast.{_PREFIX}*"))


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Set up first, so it looks last: no segment and no process of this test remains."""
    yield
    gc.collect()
    faults.skew_clock()
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=10)
    left = _segments()
    for name in left:
        (SHM / name).unlink(missing_ok=True)
    assert not left, f"segments left behind: {left}"
    assert not children, f"processes left behind: {children}"


@pytest.fixture
def new_name(nothing_left_behind: None) -> Iterator[Callable[[], str]]:
    """Gives names; whatever they stand for at the end is removed."""
    given: list[str] = []

    def give() -> str:
        given.append(f"{_PREFIX}{next(_numbers)}")
        return given[-1]

    yield give
    for name in given:
        with contextlib.suppress(FileNotFoundError):
            shmcast.Mailbox.remove(name)


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    return new_name()


@pytest.fixture
def start(nothing_left_behind: None) -> Iterator[Callable[..., Child]]:
    """Starts children: start(code, *args). They are ended with the test."""
    started: list[Child] = []

    def begin(code: str, *args: Any, prelude: bool = True) -> Child:
        started.append(Child(code, *args, prelude=prelude))
        return started[-1]

    yield begin
    for child in started:
        child.kill()
        child.ended()


@pytest.fixture
def traffic(nothing_left_behind: None) -> Iterator[Callable[..., Traffic]]:
    """Starts traffic: traffic(name, senders=2, receivers=2)."""
    started: list[Traffic] = []

    def begin(*args: Any, **options: Any) -> Traffic:
        started.append(Traffic(*args, **options))
        return started[-1]

    yield begin
    for one in started:
        for child in one.children:
            child.kill()
            child.ended()


@pytest.fixture(params=["eager", "crash", "timing"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)
