"""One process of the soak test: a sender or a receiver that logs what it did, line by line.

Lines are written with one system call each, so that a SIGKILL loses at most the last one.

  sender:    try N            about to send message N
             ok N TIMESTAMP   accepted
             no N REASON      not accepted: nobody may deliver it
  receiver:  joined / left
             got TOKEN N TIMESTAMP LANE
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque

import shmcast

_stopping = False


def _stop(*_: object) -> None:
    global _stopping  # noqa: PLW0603 - a signal handler has nowhere else to put it
    _stopping = True


class Log:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())


class Outcomes:
    """Logs what became of each message. In `timing` that is known only when the receivers have
    decided, so the last few are asked about later."""

    def __init__(self, tx: shmcast.Sender, log: Log, later: bool) -> None:
        self._tx, self._log, self._later = tx, log, later
        self._open: deque[tuple[int, shmcast.Receipt, str]] = deque()

    def sent(self, number: int, receipt: shmcast.Receipt, where: str) -> None:
        self._open.append((number, receipt, where))
        self.ask(keep=32 if self._later else 0)

    def ask(self, keep: int) -> None:
        while len(self._open) > keep:
            number, receipt, where = self._open.popleft()
            try:
                self._tx.confirm(receipt, timeout=20)
            except shmcast.Rejected as error:
                self._log(f"no {number} {type(error).__name__}")
            else:
                self._log(f"ok {number} {receipt.timestamp} {where}")


def send_until_stopped(name: str, token: str, log: Log, padding: int, targets: list[str]) -> None:
    domain = shmcast.Domain.open(name) if targets else None
    box = None if targets else shmcast.Mailbox.open(name)
    tx = domain.sender(timeout=10) if domain else box.sender(timeout=10)  # type: ignore[union-attr]
    outcomes = Outcomes(tx, log, later=box is not None and box.protocol == "timing")
    log("joined")
    n = 0
    while not _stopping:
        to = None if not targets else (targets, targets[:1], targets[1:])[n % 3]
        where = "all" if to is None else "+".join(to)
        count = 1 + n % 3
        messages = [f"{token} {n + i}".encode().ljust(padding) for i in range(count)]
        for i in range(count):
            log(f"try {n + i}")
        try:
            first = tx.send_many(messages, timeout=2, to=to)
        except (shmcast.Rejected, shmcast.MailboxFull) as error:
            # In the timed protocols a batch is sent one by one, and some may have gone out.
            for i in range(count if box is None or box.protocol == "eager" else 0):
                log(f"no {n + i} {type(error).__name__}")
        else:
            for i in range(count):
                outcomes.sent(n + i, first._replace(position=first.position + i), where)
        n += count
    outcomes.ask(keep=0)
    tx.close()
    log("left")


def receive_until_stopped(name: str, log: Log, inner: str) -> None:
    box = shmcast.Mailbox.open(f"{name}/{inner}" if inner else name)
    rx = box.receiver(timeout=10)
    log("joined")
    while not _stopping:
        try:
            messages = rx.receive_many(timeout=0.05)
        except TimeoutError:
            continue
        for m in messages:
            token, number = m.data.split()
            log(f"got {token.decode()} {int(number)} {m.timestamp} {m.sender & 255}")
    for m in rx.leave():
        token, number = m.data.split()
        log(f"got {token.decode()} {int(number)} {m.timestamp} {m.sender & 255}")
    log("left")


def main() -> None:
    signal.signal(signal.SIGTERM, _stop)
    role, name, token, path, padding, extra = sys.argv[1:7]
    log = Log(path)
    if role == "sender":
        send_until_stopped(name, token, log, int(padding), extra.split("+") if extra else [])
    else:
        receive_until_stopped(name, log, extra)


if __name__ == "__main__":
    main()
