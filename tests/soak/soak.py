"""Senders and receivers under random kills and restarts, then a look at what everyone saw.

usage: python tests/soak/soak.py [--seconds N] [--seed N] [--protocol eager|crash|timing]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import shmcast
from shmcast.mailbox import faults

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.verdict import read_receiver, read_sender, violations

WORKER = Path(__file__).with_name("worker.py")
COPIES = 3
READY_DEADLINE_S = 60.0


@dataclass
class Worker:
    role: str
    token: str
    extra: str  # a receiver's mailbox, or a sender's mailboxes joined by "+"
    path: Path
    process: subprocess.Popen[bytes]


def wait_until(
    condition: Callable[[], bool], what: str, deadline_s: float = READY_DEADLINE_S
) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not in {deadline_s} s: {what}")
        time.sleep(0.002)


@dataclass
class Soak:
    """One run. `mailboxes` non-empty makes it a domain."""

    protocol: str = "eager"
    seconds: float = 5.0
    seed: int = 0
    padding: int = 48
    mailboxes: tuple[str, ...] = ()
    senders: int = 3
    receivers: int = 2
    stops: bool = True
    name: str = field(default_factory=lambda: f"soak-{uuid.uuid4().hex[:10]}")
    done: collections.Counter[str] = field(default_factory=collections.Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.folder = Path(tempfile.mkdtemp(prefix="soak-"))
        self.workers: list[Worker] = []
        self.all_workers: list[Worker] = []

    # ---- workers ----

    def start(self, role: str, extra: str = "") -> Worker:
        token = f"{role[0]}{len(self.all_workers)}"
        path = self.folder / f"{token}.log"
        path.touch()
        arguments = [role, self.name, token, str(path), str(self.padding), extra]
        process = subprocess.Popen([sys.executable, str(WORKER), *arguments])
        worker = Worker(role, token, extra, path, process)
        self.workers.append(worker)
        self.all_workers.append(worker)
        return worker

    def is_joined(self, worker: Worker) -> bool:
        if worker.process.poll() is not None:
            raise AssertionError(f"{worker.token} ended with {worker.process.returncode}")
        return "joined" in worker.path.read_text()[:16]

    def start_all(self) -> None:
        inner = list(self.mailboxes) or [""]
        self.witnesses = {box: self.start("receiver", box) for box in inner}
        for witness in self.witnesses.values():
            wait_until(lambda w=witness: self.is_joined(w), "a witness joins")  # type: ignore[misc]
        for i in range(self.receivers):
            self.start("receiver", inner[i % len(inner)])
        for _ in range(self.senders):
            self.start("sender", "+".join(self.mailboxes))
        for worker in self.workers:
            wait_until(lambda w=worker: self.is_joined(w), f"{worker.token} joins")  # type: ignore[misc]

    def victims(self) -> list[Worker]:
        spared = {w.token for w in self.witnesses.values()}
        return [w for w in self.workers if w.token not in spared]

    # ---- faults ----

    def kill_and_restart(self) -> None:
        worker = self.random.choice(self.victims())
        worker.process.kill()
        worker.process.wait()
        self.workers.remove(worker)
        self.done[f"{worker.role}s killed"] += 1
        self.start(worker.role, worker.extra)

    def leave_and_join(self) -> None:
        worker = self.random.choice(self.victims())
        wait_until(lambda: self.is_joined(worker), f"{worker.token} joins")
        worker.process.send_signal(signal.SIGTERM)
        if worker.process.wait(60) != 0:
            raise AssertionError(f"{worker.token} ended with {worker.process.returncode}")
        self.workers.remove(worker)
        self.done[f"{worker.role}s left"] += 1
        self.start(worker.role, worker.extra)

    def stop_for_a_while(self) -> None:
        worker = self.random.choice(self.victims())
        worker.process.send_signal(signal.SIGSTOP)
        self.done[f"{worker.role}s stopped"] += 1
        self.wait_until_some_moment(0.4)
        worker.process.send_signal(signal.SIGCONT)

    def kill_copy(self) -> None:
        intact = faults.intact_copies(self.box)
        if len(intact) < 2:
            self.replace()
            return
        how = self.random.choice(list(faults.Kill))
        with contextlib.suppress(Exception):  # its name may be gone already
            faults.kill_copy(self.box, self.random.choice(intact), how, seed=self.seed)
            self.done[f"copies: {how}"] += 1

    def replace(self) -> None:
        with contextlib.suppress(FileExistsError, shmcast.DeadlineMissed):
            self.done["copies replaced"] += self.box.replace(timeout=20)

    def wait_until_some_moment(self, most_s: float) -> None:
        """Not for anything to happen: faults come at random moments."""
        time.sleep(self.random.uniform(0.0, most_s))

    # ---- the run ----

    def run(self) -> list[str]:
        try:
            self.create()
            self.start_all()
            self.disturb()
            self.finish()
            return self.judge()
        finally:
            self.clean_up()

    def create(self) -> None:
        if self.mailboxes:
            domain = shmcast.Domain.create(self.name, copies=COPIES)
            for box in self.mailboxes:
                domain.create_mailbox(box, message_size=128, capacity=64)
            self.box: shmcast.Domain | shmcast.Mailbox = domain
            return
        bounds = None
        if self.protocol != "eager":
            bounds = shmcast.Bounds(
                copies=COPIES,
                write_ns=60_000_000,
                flag_ns=20_000_000,
                decide_ns=60_000_000 if self.protocol == "timing" else 200_000,
                read_ns=20_000_000,
                clear_ns=5_000_000,
                epsilon_ns=1_000_000 if self.protocol == "crash" else 100_000,
                poll_ns=2_000_000,
            )
        self.box = shmcast.Mailbox.create(
            self.name,
            copies=COPIES,
            message_size=128,
            capacity=64,
            protocol=self.protocol,
            bounds=bounds,
        )

    def disturb(self) -> None:
        faults_here = [self.kill_and_restart] * 4 + [self.leave_and_join]
        faults_here += [self.kill_copy] * 2 + [self.replace] * 2
        faults_here += [self.stop_for_a_while] if self.stops else []
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            self.random.choice(faults_here)()
            self.wait_until_some_moment(0.1)
            for witness in self.witnesses.values():
                if witness.process.poll() is not None:
                    raise AssertionError(f"{witness.token} ended: {witness.process.returncode}")

    def finish(self) -> None:
        """Everyone joins before it is asked to leave; senders first."""
        for role in ("sender", "receiver"):
            for worker in [w for w in self.workers if w.role == role]:
                wait_until(lambda w=worker: self.is_joined(w), f"{worker.token} joins")  # type: ignore[misc]
                worker.process.send_signal(signal.SIGTERM)
                if worker.process.wait(READY_DEADLINE_S) != 0:
                    raise AssertionError(f"{worker.token} ended: {worker.process.returncode}")

    def judge(self) -> list[str]:
        senders = [read_sender(w.path) for w in self.all_workers if w.role == "sender"]
        wrong = []
        delivered = 0
        for inner, witness in self.witnesses.items():
            logs = {
                w.token: read_receiver(w.path)
                for w in self.all_workers
                if w.role == "receiver" and w.extra == inner
            }
            delivered += sum(map(len, logs.values()))
            wrong += violations(senders, logs, witness.token, inner or "all")
        self.done["messages accepted"] = sum(len(log.accepted) for log in senders)
        self.done["messages refused"] = sum(len(log.refused) for log in senders)
        self.done["deliveries"] = delivered
        self.box.reap()
        if (left := self.held_places()) > 0:
            wrong.append(f"leak: {left} places are still held")
        return wrong

    def held_places(self) -> int:
        if isinstance(self.box, shmcast.Mailbox):
            stats = self.box.stats()
            return sum(1 for s in stats.senders if s.pid) + len(stats.receivers)
        return sum(1 for s in self.box.mailbox(self.mailboxes[0]).stats().senders if s.pid) + sum(
            len(self.box.mailbox(box).stats().receivers) for box in self.mailboxes
        )

    def clean_up(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.process.kill()
            worker.process.wait()
        if hasattr(self, "box"):
            self.box.close()
        with contextlib.suppress(FileNotFoundError):
            shmcast.Domain.remove(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        if left := sorted(path.name for path in Path("/dev/shm").glob(f"shmcast.{self.name}*")):
            raise AssertionError(f"segments left behind: {left}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--protocol", default="eager", choices=["eager", "crash", "timing"])
    parser.add_argument("--domain", action="store_true", help="two mailboxes in one domain")
    options = parser.parse_args()
    soak = Soak(
        protocol=options.protocol,
        seconds=options.seconds,
        seed=options.seed,
        mailboxes=("a", "b") if options.domain else (),
        stops=options.protocol == "eager",
    )
    wrong = soak.run()
    for what, count in sorted(soak.done.items()):
        print(f"{count:>10} {what}")
    for line in wrong[:20]:
        print(line)
    print(f"{len(wrong)} violations (protocol {soak.protocol}, seed {soak.seed})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
