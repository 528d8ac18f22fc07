"""The processes of the demo: started, told what to do, killed, never left behind."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmcast.cli.demo.interrupts import uninterrupted
from shmcast.cli.demo.logs import DELIVERY, STEP, Log, What
from shmcast.cli.demo.worker import BOXES
from shmcast.mailbox.faults import kill_process

_TICK_S = 0.1
_ANSWER_S = 60.0  # a loaded machine needs seconds to start fifteen Pythons
SENDERS_FROM = 100  # as processes of a record; below them are those that deliver


class StageAccident(Exception):
    """A process did what nobody told it to do."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one process is to do. One that is killed may be followed by another life of itself."""

    role: str  # send, receive, ask
    place: str
    number: int  # of the process, in the record
    name: str
    life: int = 0


class Actor:
    """One process. In its own process group, so that Ctrl-C reaches the director alone."""

    def __init__(self, part: Part, folder: Path) -> None:
        self.part = part
        self.killed_ns = 0
        self.ready_ns = 0
        stem = f"{part.role}-{part.number}-{part.life}"
        self.log = Log(folder / f"{stem}.log", DELIVERY if part.role == "receive" else STEP)
        self._errors = (folder / f"{stem}.err").open("w+b")
        command = [part.role, part.place, str(part.number), str(self.log.path)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shmcast.cli.demo.worker", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            process_group=0,
        )

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def was_killed(self) -> bool:
        return self.killed_ns > 0

    @property
    def box(self) -> str:
        """The mailbox of a receiver."""
        return self.part.place.partition("/")[2]

    def kill(self) -> None:
        self.killed_ns = time.monotonic_ns()
        kill_process(self.pid)

    def tell(self, order: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{order}\n".encode())
            self.process.stdin.flush()

    def await_answer(self, wanted: str, tick: Callable[[], None] = lambda: None) -> None:
        """Waits for a line; one that never comes is an accident, not a hang. `tick` is called
        meanwhile."""
        assert self.process.stdout is not None
        end = time.monotonic() + _ANSWER_S
        readable: list[Any] = []
        while not readable and time.monotonic() < end:
            readable, _, _ = select.select([self.process.stdout], [], [], _TICK_S)
            tick()
        answer = self.process.stdout.readline().decode().strip() if readable else "nothing"
        if answer != wanted:
            raise StageAccident(
                f"{self.name}: {wanted!r} expected, got {answer!r}. {self.last_words()}"
            )
        self.ready_ns = self.ready_ns or time.monotonic_ns()

    def check(self) -> None:
        if not self.was_killed and self.process.poll() is not None:
            code = self.process.returncode
            raise StageAccident(f"{self.name} ended by itself, code {code}. {self.last_words()}")

    def is_sending(self) -> bool:
        """By its own log: it called send, and the call has not returned."""
        return any(self.log.last()["what"] == What.BEGUN)

    def last_words(self) -> str:
        self._errors.flush()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def end(self) -> None:
        """Also when it is stopped, or dead already."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._errors.close()


class Cast:
    """All actors that ever were, the dead included: their logs count as well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.actors: list[Actor] = []

    def engage(self, parts: Sequence[Part], tick: Callable[[], None]) -> list[Actor]:
        """Starts them side by side, since a Python needs its time, and waits for all; `tick` is
        called meanwhile."""
        new = []
        for part in parts:
            with uninterrupted():  # a process that nobody knows of would be left behind
                new.append(Actor(part, self._folder))
                self.actors.append(new[-1])
        for actor in new:
            actor.await_answer("ready", tick)
        return new

    def of(self, role: str) -> list[Actor]:
        return [a for a in self.actors if a.part.role == role]

    def playing(self, role: str, box: str = "") -> list[Actor]:
        return [a for a in self.of(role) if not a.was_killed and (not box or a.box == box)]

    def check(self) -> None:
        for actor in self.actors:
            actor.check()

    def finish(self, *roles: str) -> None:
        playing = [actor for role in roles for actor in self.playing(role)]
        for actor in playing:
            actor.tell("finish")
        for actor in playing:
            actor.await_answer("done")

    def end(self) -> None:
        for actor in self.actors:
            actor.end()


def opening_parts(domain: str, cluster: Path) -> tuple[list[Part], list[Part]]:
    """Receivers, then senders and clients. Two of each; receivers two in each mailbox."""
    receivers = [
        Part("receive", f"{domain}/{box}", 2 * bit + n, f"{box}.{n + 1}")
        for bit, box in enumerate(BOXES)
        for n in (0, 1)
    ]
    senders = [Part("send", domain, SENDERS_FROM + n, f"sender.{n + 1}") for n in (0, 1)]
    clients = [Part("ask", str(cluster), SENDERS_FROM + n, f"client.{n + 1}") for n in (0, 1)]
    return receivers, senders + clients
