"""``shmcast send`` and ``recv``: from and to the shell, line by line."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from shmcast.cli import complete
from shmcast.cli.output import complain, emit_json
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.receiver import Receiver
from shmcast.mailbox.records import Message
from shmcast.mailbox.sender import Sender

_SLICE_S = 0.2
Timeout = Annotated[float, typer.Option(help="Seconds to wait for room, or for a message.")]


def _lines(messages: list[str] | None) -> Iterator[bytes]:
    if messages:
        yield from (message.encode() for message in messages)
    else:
        for line in sys.stdin.buffer:
            yield line.removesuffix(b"\n")


def _send_all(sender: Sender, lines: Iterable[bytes], to: list[str] | None, timeout: float) -> int:
    sent = 0
    for line in lines:
        sender.send(line, to=to or None, timeout=timeout)
        sent += 1
    return sent


def send(
    name: Annotated[
        str,
        typer.Argument(
            help="A mailbox, domain/mailbox, or a domain with --to.", autocompletion=complete.names
        ),
    ],
    messages: Annotated[list[str] | None, typer.Argument(help="Default: lines of stdin.")] = None,
    to: Annotated[
        list[str] | None, typer.Option(help="Mailboxes of a domain: all of them, in one order.")
    ] = None,
    timeout: Timeout = 10.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say how many.")] = False,
) -> None:
    """Send each argument, or each line of stdin, as one message."""
    opened: Domain | Mailbox = Domain.open(name) if to else Mailbox.open(name)
    with opened, opened.sender() as sender:
        sent = _send_all(sender, _lines(messages), to, timeout)
    if verbose:
        complain(f"{name}: {sent} sent")


def _print(message: Message, json: bool) -> None:
    if json:
        data = message.data.decode("utf-8", "backslashreplace")
        emit_json({**message._asdict(), "data": data}, indent=None)
    else:
        sys.stdout.buffer.write(message.data + b"\n")
    sys.stdout.flush()


def _next(receiver: Receiver, timeout: float | None) -> Message:
    """Waits in slices: Ctrl-C is noticed only between two calls of the core."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left_s = end - time.monotonic()
        try:
            return receiver.receive(timeout=max(0.0, min(left_s, _SLICE_S)))
        except TimeoutError:
            if left_s <= _SLICE_S:
                raise


def recv(
    name: Annotated[
        str,
        typer.Argument(help="A mailbox, or domain/mailbox.", autocompletion=complete.names),
    ],
    count: Annotated[int, typer.Option("--count", "-n", help="Stop after so many; 0: never.")] = 0,
    timeout: Annotated[
        float | None, typer.Option(help="Give up when nothing came for so many seconds.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with timestamp and sender.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say when joined.")] = False,
) -> None:
    """Join a mailbox and print each message as one line."""
    with Mailbox.open(name) as box, box.receiver() as receiver:
        if verbose:
            complain(f"{name}: joined; whatever is sent from now on is received")
        received = 0
        while count == 0 or received < count:
            _print(_next(receiver, timeout), json)
            received += 1
