"""Fixtures: names that nobody else uses, and the check that nothing is left behind; and what the
campaigns looked at, as a table at the end."""

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
from hypothesis import HealthCheck, settings

import shmcast
from helpers import SHM, Child, Traffic
from shmcast.mailbox import faults

# Children get Ctrl-C as at a terminal, also when the tests run in the background of a shell, which
# has its jobs ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast examples are made and run says something about the machine only.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

_numbers = itertools.count()
_PREFIX = f"t{os.getpid()}-"


def _segments() -> list[str]:
    return sorted(path.name for path in SHM.glob(f"shmcast.{_PREFIX}*"))


def pytest_collection_finish() -> None:
    """What lives as long as the session is not searched for garbage after every test."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file to each worker, but all that needs Spark to one: a second session costs more than it
    saves."""
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path: str = super()._split_scope(nodeid)
            return "spark" if path.startswith("tests/pipeline/") else path

    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the campaigns looked at: what a test prints is not shown if it passes."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    rows = sorted(value for r in reports for name, value in r.user_properties if name == "campaign")
    if not rows:
        return
    terminalreporter.section("campaigns")
    width = max(len(row[0]) for row in rows)
    heading = ("runs", "with faults", "faults", "virtual hours")
    terminalreporter.write_line(" " * width + "".join(f"  {word:>13}" for word in heading))
    rows.append(["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    for name, *counts, hours in rows:
        cells = "".join(f"  {count:>13,}" for count in counts)
        terminalreporter.write_line(f"{name:<{width}}{cells}  {hours:>13.3f}")


def _processes_of_this_test() -> list[psutil.Process]:
    """All but Spark's: one session serves every test and ends with the last one."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() != "java":
                found += [child, *child.children(recursive=True)]
    return found


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Set up first, so it looks last: no segment and no process of this test remains."""
    yield
    gc.collect()
    faults.skew_clock()
    children = _processes_of_this_test()
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

    def begin(code: str, *args: Any, **how: Any) -> Child:
        started.append(Child(code, *args, **how))
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
