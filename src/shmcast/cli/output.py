"""How every command speaks: tables or JSON on stdout, errors as one line, exit codes."""

from __future__ import annotations

import contextlib
import enum
import errno
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from shmcast.errors import (
    CopyFailed,
    Corrupt,
    DeadlineMissed,
    Incompatible,
    MailboxFull,
    MailboxLost,
    NotPermitted,
    PeerDead,
    Rejected,
    ShmcastError,
)

NS_PER_MS = 1_000_000
_LOOK_S = 0.1


class Code(enum.IntEnum):
    """What the program's exit says. Scripts rely on these numbers."""

    OK = 0
    FAILED_VERDICT = 1
    USAGE = 2
    NOT_THERE = 3
    NOT_PERMITTED = 4
    LOST = 5  # all copies gone, damaged, or of another version
    NOT_IN_TIME = 6  # nothing came, no room, or a bound was broken
    REJECTED = 7
    NO_SPACE = 8
    EXISTS = 9


# The first that fits counts, so subclasses stand before their bases.
_CODES: list[tuple[type[BaseException], Code]] = [
    (NotPermitted, Code.NOT_PERMITTED),
    (PermissionError, Code.NOT_PERMITTED),
    (Rejected, Code.REJECTED),
    (MailboxFull, Code.NOT_IN_TIME),
    (DeadlineMissed, Code.NOT_IN_TIME),
    (TimeoutError, Code.NOT_IN_TIME),
    (MailboxLost, Code.LOST),
    (CopyFailed, Code.LOST),
    (Corrupt, Code.LOST),
    (Incompatible, Code.LOST),
    (PeerDead, Code.NOT_THERE),
    (FileNotFoundError, Code.NOT_THERE),
    (ProcessLookupError, Code.NOT_THERE),
    (FileExistsError, Code.EXISTS),
    (ValueError, Code.USAGE),
]


def exit_code(error: BaseException) -> Code:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return Code.NO_SPACE
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.FAILED_VERDICT)


def text_of(error: BaseException) -> str:
    """The message without Python's ``[Errno 28]`` in front of it."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error) or type(error).__name__


def complain(text: str) -> None:
    typer.echo(f"shmcast: {text}", err=True)


@contextlib.contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """For imports of what only some installations have."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise FileNotFoundError(
            f"{what} needs {error.name}, which is not installed: pip install 'shmcast[{extra}]'"
        ) from None


@contextlib.contextmanager
def busy(
    text: str, *, after_s: float = 1.0, out: Console | None = None
) -> Iterator[Callable[[], None]]:
    """Says on a terminal's stderr what goes on, if it takes longer than a moment. What is given
    ends it before the block does."""
    out = console(stderr=True) if out is None else out
    if not can_draw(out):
        yield lambda: None
        return
    status = out.status(text)
    turn, over = threading.Lock(), threading.Event()

    def start() -> None:
        with turn:
            if not over.is_set():
                status.start()

    def stop() -> None:
        with turn:
            if not over.is_set():
                over.set()
                status.stop()

    timer = threading.Timer(after_s, start)
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        stop()


@contextlib.contextmanager
def progress(
    text: str,
    total: int,
    *,
    look: Callable[[], int] | None = None,
    after_s: float = 1.0,
    out: Console | None = None,
) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's stderr, if it takes longer than a moment: gone at the end, nothing
    elsewhere. What is given is told how much is done; with `look` it asks for that by itself.

    It draws when it is told and at no other time: a measurement is not disturbed in between.
    """
    out = console(stderr=True) if out is None else out
    if not can_draw(out):
        yield lambda done: None
        return
    from rich.progress import (  # late: most commands never draw one
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(
        *columns, console=out, auto_refresh=False, transient=True, redirect_stdout=False,
        redirect_stderr=False,
    )  # fmt: skip
    task, began = bar.add_task(text, total=total), time.monotonic()

    def step(done: int) -> None:
        bar.update(task, completed=min(done, total))
        if time.monotonic() - began >= after_s:
            bar.start()  # does nothing the second time
            bar.refresh()

    over = threading.Event()

    def keep_looking(asked: Callable[[], int]) -> None:
        while not over.wait(_LOOK_S):
            step(asked())

    looking = threading.Thread(target=keep_looking, args=(look,), daemon=True) if look else None
    if looking:
        looking.start()
    try:
        yield step
    finally:
        over.set()
        if looking:
            looking.join()
        bar.stop()


class Family(TyperGroup):
    """A group of commands whose errors are one line each, with the next step in it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `shmcast recv … | head`: the reader has what it wanted
            sys.stderr.close()
            raise typer.Exit(Code.OK) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except (ShmcastError, OSError, ValueError) as error:
            complain(text_of(error))
            raise typer.Exit(exit_code(error)) from None


def console(*, stderr: bool = False) -> Console:
    """A console of this moment: tests and pipes change what stdout is."""
    return Console(stderr=stderr, highlight=False, soft_wrap=not sys.stdout.isatty())


def can_draw(out: Console) -> bool:
    """Whether a picture can be drawn over an earlier one there."""
    return out.is_terminal and not out.is_dumb_terminal


def emit_json(value: Any, *, indent: int | None = 2) -> None:
    typer.echo(json.dumps(value, indent=indent))


def millis(ns: float) -> str:
    """Times as people read them; three figures are enough."""
    if ns >= 1000 * NS_PER_MS:
        return f"{ns / 1e9:.2f} s"
    if ns >= NS_PER_MS:
        return f"{ns / NS_PER_MS:.3g} ms"
    return f"{ns / 1000:.0f} µs"


def mebi(size_bytes: float) -> str:
    if size_bytes >= 1 << 30:
        return f"{size_bytes / (1 << 30):.1f} GiB"
    if size_bytes >= 1 << 20:
        return f"{size_bytes / (1 << 20):.1f} MiB"
    return f"{size_bytes / 1024:.0f} KiB"
