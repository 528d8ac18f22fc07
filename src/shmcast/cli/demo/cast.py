"""The processes of the demo: started, told what to do, killed, never left behind."""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import time
from pathlib import Path

from shmcast.cli.demo.interrupts import uninterrupted
from shmcast.cli.demo.logs import ATTEMPT, DELIVERY, Outcome, read_rows
from shmcast.cli.demo.verdict import Got, Sent
from shmcast.cli.demo.worker import PLANT_BOXES, PLANT_SETS

_ANSWER_S = 30.0  # a loaded machine needs seconds to start ten Pythons


class StageAccident(Exception):
    """A process did what nobody told it to do."""


class Actor:
    """One process. In its own process group, so that Ctrl-C reaches the director alone."""

    def __init__(self, role: str, place: str, tag: int, folder: Path) -> None:
        self.name = f"{'sender' if role == 'send' else 'receiver'} {tag}"
        self.role, self.place, self.tag = role, place, tag
        self.log = folder / f"{role}-{tag}.log"
        self.was_killed = False
        self.ready_ns = 0
        self._errors = (folder / f"{role}-{tag}.err").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shmcast.cli.demo.worker", role, place, str(tag), str(self.log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, order: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{order}\n".encode())
            self.process.stdin.flush()

    def await_answer(self, wanted: str) -> None:
        """Waits for a line; one that never comes is an accident, not a hang."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], _ANSWER_S)
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

    # What it wrote down.

    def sent(self) -> Sent:
        rows = read_rows(self.log, ATTEMPT).tolist()
        boxes = {number: boxes for number, _, boxes, _ in rows if boxes}
        if boxes:  # of a killed sender, where its last message was going
            boxes[len(rows)] = PLANT_SETS[len(rows) % len(PLANT_SETS)]
        return Sent(
            self.tag,
            {n: stamp for n, outcome, _, stamp in rows if outcome == Outcome.ACKNOWLEDGED},
            {n for n, outcome, _, _ in rows if outcome != Outcome.ACKNOWLEDGED},
            boxes,
            self.was_killed,
        )

    def rejected(self) -> int:
        return int((read_rows(self.log, ATTEMPT)["outcome"] == Outcome.REJECTED).sum())

    def got(self) -> Got:
        rows = read_rows(self.log, DELIVERY)
        keys = list(zip(rows["tag"].tolist(), rows["number"].tolist(), strict=True))
        stamps = list(zip(rows["timestamp"].tolist(), rows["sender"].tolist(), strict=True))
        inner = self.place.partition("/")[2]
        bit = PLANT_BOXES.index(inner) if inner else -1
        stayed = not self.was_killed
        return Got(self.name, self.place, bit, self.ready_ns, stayed, keys, stamps)

    def delivery_times_ns(self) -> list[int]:
        return [int(at) for at in read_rows(self.log, DELIVERY)["at_ns"]]


class Cast:
    """All actors that ever were, the dead included: their logs count as well."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.actors: list[Actor] = []

    def engage(self, *wanted: tuple[str, str]) -> list[Actor]:
        """Starts them side by side, since a Python needs its time, and waits for all."""
        new = []
        for role, place in wanted:
            with uninterrupted():  # a process that nobody knows of would be left behind
                new.append(Actor(role, place, len(self.actors), self._folder))
                self.actors.append(new[-1])
        for actor in new:
            actor.await_answer("ready")
        return new

    def playing(self, role: str, place: str) -> list[Actor]:
        return [a for a in self.actors if a.role == role and a.place == place and not a.was_killed]

    def of(self, domain: str, role: str) -> list[Actor]:
        """Of one domain: its own senders and the members of its mailboxes."""
        return [a for a in self.actors if a.role == role and a.place.split("/")[0] == domain]

    def check(self) -> None:
        for actor in self.actors:
            actor.check()

    def finish(self) -> None:
        """Senders first; then receivers read what is left."""
        for role in ("send", "receive"):
            playing = [a for a in self.actors if a.role == role and not a.was_killed]
            for actor in playing:
                actor.tell("finish")
            for actor in playing:
                actor.await_answer("done")

    def end(self) -> None:
        for actor in self.actors:
            actor.end()
