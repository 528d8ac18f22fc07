"""What the tests of the command line share."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from shmcast.cli.main import app
from shmcast.mailbox.mailbox import Mailbox

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[bytes]"]


def _wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> Any:
    """The only place where a test sleeps."""
    end = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < end, f"waited {timeout_s} s in vain: {what}"
        time.sleep(0.005)
    return answer


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return _wait_until


@pytest.fixture
def run() -> Run:
    """The program in this process."""

    def invoke(*args: str, **options: Any) -> Any:
        return CliRunner().invoke(app, list(args), **options)

    return invoke


@pytest.fixture
def start() -> Iterator[Start]:
    """The program as a process of its own; ended with the test."""
    yield from _starter()


@pytest.fixture(scope="module")
def start_once() -> Iterator[Start]:
    """The same; ended with the file."""
    yield from _starter()


def _starter() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def launch(*args: str, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from shmcast.cli.main import main; main()", *args]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            command, env={**os.environ, "TERM": "xterm"}, **{**pipes, **options}
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def name() -> Iterator[str]:
    """A name that nothing has; whatever the test leaves under it is removed."""
    chosen = f"test-{uuid.uuid4().hex[:8]}"
    yield chosen
    with contextlib.suppress(FileNotFoundError):
        Mailbox.remove(chosen)


@pytest.fixture
def box(name: str) -> Iterator[Mailbox]:
    with Mailbox.create(name, copies=3, message_size=256, capacity=64) as opened:
        yield opened
