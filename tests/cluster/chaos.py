"""A cluster of real processes under fire: kill, stop, continue, truncate; then the verdict.

    python tests/cluster/chaos.py --engine wbcast --seconds 20 --seed 7

Clients ask in a closed loop and log what was acknowledged; the replicas' application logs what it
is handed. The verdict compares these logs (verdict.py) and, if the run is recorded, asks the
checkers of multicast/checks about the trace. A seed gives the same plan of faults, not the same
run: the processes are real.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from cluster.verdict import Acked, Life, Seen, violations
from helpers import Child, segments_of, wait_until
from shmcast.cli.cluster import status_of
from shmcast.mailbox.survey import segments
from shmcast.multicast.run.config import load
from shmcast.multicast.run.supervisor import stop as stop_cluster

FAULTS = ("kill", "stop", "truncate")
BACK_S = 60.0  # for a replica to come back and to deliver again, on a busy machine

APP = """
import os
LOGS = {logs!r}

def log(node):
    path = f"{{LOGS}}/{{node.name}}.{{os.getpid()}}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for d in node.deliveries():
        place = f"{{d.timestamp.time}} {{d.timestamp.tie}}"
        line = f"{{place}} {{d.payload.decode()}} {{'+'.join(d.groups)}}\\n"
        os.write(fd, line.encode())
"""

# args: cluster.toml, log, client's number, seed, groups, pause in s between requests
CLIENT = """
import random
path, log, number, seed, groups, pause = args
rng = random.Random(seed)
out = open(log, "ab", 0)
client = shmcast.Cluster.load(path).client()
say("ready")
n = 0
while not told():
    n += 1
    dest = sorted(rng.sample(groups, rng.randint(1, len(groups))))
    asked, tries, end = time.monotonic(), 0, time.monotonic() + 90
    ask = lambda: client.multicast(f"{number}:{n}".encode(), dest, timeout=2.0)
    while True:
        try:
            done = ask()
            break
        except (shmcast.ShmcastError, TimeoutError):
            tries += 1
            if time.monotonic() > end:
                raise
            ask = lambda: client.retry(timeout=2.0)
    took = time.monotonic() - asked
    place = f"{done.timestamp.time} {done.timestamp.tie}"
    out.write(f"{place} {number}:{n} {'+'.join(dest)} {took:.6f} {tries}\\n".encode())
    time.sleep(pause)
client.close()
say(n)
"""


@dataclass
class Chaos:
    directory: Path
    name: str
    engine: str = "wbcast"
    groups: int = 2
    replicas: int = 3
    clients: int = 3
    seed: int = 1
    pause_s: float = 0.002
    recorded: bool = False
    options: str = ""
    events: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        (self.directory / "chaos_app.py").write_text(APP.format(logs=str(self.logs)))
        letters = ", ".join(f'"{chr(ord("a") + i)}"' for i in range(self.replicas))
        self.group_names = [f"g{i + 1}" for i in range(self.groups)]
        lines = [
            "[cluster]",
            f'name = "{self.name}"',
            f'engine = "{self.engine}"',
            'app = "chaos_app:log"',
            'trace = "run"' if self.recorded else "",
            "[groups]",
            *(f"{group} = [{letters}]" for group in self.group_names),
            "[options]" if self.options else "",
            self.options,
        ]
        self.file = self.directory / "cluster.toml"
        self.file.write_text("\n".join(lines) + "\n")
        self.config = load(self.file)
        self.supervisor: subprocess.Popen[bytes] | None = None
        self.asking: list[Child] = []
        self.started = 0

    # Life cycle ---------------------------------------------------------------------------

    def __enter__(self) -> Chaos:
        self.output = (self.directory / "output").open("wb")
        command = [sys.executable, "-m", "shmcast.cli", "up", str(self.file)]
        self.supervisor = subprocess.Popen(command, stdout=self.output, stderr=self.output)
        try:
            wait_until(lambda: len(self.pids()) == len(self.config.replicas), "all replicas start")
            for _ in range(self.clients):
                self.add_client()
            wait_until(lambda: all(map(self._log_of_client, range(self.clients))), "first answers")
        except BaseException as error:
            error.add_note(self.state())
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self.asking:
            child.kill()
            child.ended()
        stop_cluster(self.config, "local")
        if self.supervisor is not None:
            self.supervisor.kill()
            self.supervisor.wait()
        self.output.close()
        for name in segments():
            if name.startswith(f"{self.name}."):
                for path in segments_of(name):
                    path.unlink(missing_ok=True)

    def state(self) -> str:
        """For a failure's text: what everybody said, and who is where."""
        output = (self.directory / "output").read_text()[-4000:]
        found = "\n".join(f"{one}" for one in self.status().values())
        clients = "\n".join(child.errors for child in self.asking)
        return f"{output}\n{found}\n{clients}"

    def add_client(self) -> None:
        number = self.started
        self.started += 1
        log = str(self.logs / f"client.{number}")
        seed = self.rng.randrange(1 << 30)
        child = Child(CLIENT, str(self.file), log, number, seed, self.group_names, self.pause_s)
        assert child.heard() == "ready"
        self.asking.append(child)

    # What is there ------------------------------------------------------------------------

    def status(self) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in status_of(self.config, "local")["replicas"]}

    def pids(self) -> dict[str, int]:
        return {name: one["pid"] for name, one in self.status().items() if one["pid"]}

    def delivered(self, name: str, pid: int) -> int:
        """Bytes of its application's log: grows with every delivery."""
        with contextlib.suppress(FileNotFoundError):
            return (self.logs / f"{name}.{pid}").stat().st_size
        return 0

    def _log_of_client(self, number: int) -> list[str]:
        try:
            return _lines(self.logs / f"client.{number}")
        except FileNotFoundError:
            return []

    # Faults -------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        self._fault("kill", name, lambda pid: os.kill(pid, signal.SIGKILL), ends=True)

    def restart(self, name: str) -> None:
        """In order, as for an update."""
        self._fault("restart", name, lambda pid: os.kill(pid, signal.SIGTERM), ends=True)

    def stop(self, name: str, for_s: float, *, ends: bool = False) -> None:
        def act(pid: int) -> None:
            os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + for_s
            wait_until(lambda: time.monotonic() > end, "the stop is over")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        self._fault(f"stop {for_s:.2f} s", name, act, ends=ends)

    def truncate(self, name: str) -> None:
        """Cuts off a segment that this replica needs: its inbox, or a copy of the domain."""
        proc = self.config.replica(name).proc
        found = [
            path
            for domain in segments()
            if domain == self.name or domain.startswith(f"{self.name}.p{proc}.")
            for path in segments_of(domain)
        ]
        if found:
            path = self.rng.choice(found)
            inbox = f".p{proc}." in path.name  # whose owner ends; a copy of a domain is replaced
            self._fault(f"truncate {path.name}", name, lambda pid: os.truncate(path, 0), ends=inbox)

    def _fault(
        self, what: str, name: str, act: Callable[[int], None], *, ends: bool = False
    ) -> None:
        """Comes back when the replica delivers again; `ends`: as another process."""
        pid = self.pids().get(name)
        if pid is None:
            return
        before = self.delivered(name, pid)
        self.events.append(f"{what}: {name}")
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            act(pid)

        def is_back() -> bool:
            now = self.pids().get(name)
            if now == pid:
                return not ends and self.delivered(name, now) > before
            return now is not None and self.delivered(name, now) > 0

        try:
            wait_until(is_back, f"{name} delivers again after {what}", BACK_S)
        except AssertionError as error:
            self.trouble.append(str(error))

    def random_fault(self) -> None:
        name = self.rng.choice(sorted(self.config._by_name))
        match self.rng.choice(FAULTS):
            case "kill":
                self.kill(name)
            case "stop":
                self.stop(name, self.rng.uniform(0.02, 1.0))
            case _:
                self.truncate(name)
        if self.rng.random() < 0.2 and len(self.asking) > 1:
            victim = self.asking.pop(self.rng.randrange(len(self.asking)))
            self.events.append("kill: a client")
            victim.kill()
            victim.ended()
            self.add_client()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.trouble:
            self.random_fault()

    # The end ------------------------------------------------------------------------------

    def finish(self) -> list[str]:
        """Ends the traffic; what was broken. Every client must come to its end by itself."""
        for child in self.asking:
            child.tell("stop")
        for child in self.asking:
            try:
                child.heard(120)
                child.ended()
            except AssertionError as error:
                self.trouble.append(f"a client hangs: {error}")
        self.asking.clear()
        acked = self.acked()
        try:
            wait_until(lambda: self._all_there(acked), "everybody delivers what was acknowledged")
        except AssertionError as error:
            self.trouble.append(str(error))
        last = {name: f"{name}.{pid}" for name, pid in self.pids().items()}
        stop_cluster(self.config, "local")
        found = [*self.trouble, *violations(acked, self.lives(set(last.values())))]
        return found + (self.check_trace() if self.recorded else [])

    def acked(self) -> list[list[Acked]]:
        return [
            [
                Acked(_key(key), frozenset(groups.split("+")), (int(at), int(tie)))
                for at, tie, key, groups, *_ in map(str.split, self._log_of_client(number))
            ]
            for number in range(self.started)
        ]

    def waits_s(self) -> list[float]:
        """From request to acknowledgement, of every message of every client."""
        return [
            float(line.split()[4]) for n in range(self.started) for line in self._log_of_client(n)
        ]

    def _all_there(self, acked: Sequence[Sequence[Acked]]) -> bool:
        newest = {
            group: max((a.place for one in acked for a in one if group in a.groups), default=None)
            for group in self.group_names
        }
        pids = self.pids()
        if len(pids) < len(self.config.replicas):
            return False
        for name, pid in pids.items():
            wanted = newest[name.partition(".")[0]]
            with contextlib.suppress(FileNotFoundError):
                lines = _lines(self.logs / f"{name}.{pid}")
                at = tuple(map(int, lines[-1].split()[:2])) if lines else (-1, -1)
                if wanted is None or at >= wanted:
                    continue
            return False
        return True

    def lives(self, surviving: set[str]) -> list[Life]:
        found = []
        for path in sorted(self.logs.iterdir()):
            group, _, rest = path.name.partition(".")
            if group == "client":
                continue
            seen = [
                Seen((int(at), int(tie)), _key(key), frozenset(groups.split("+")))
                for at, tie, key, groups in map(str.split, _lines(path))
            ]
            name = f"{group}.{rest.partition('.')[0]}"
            found.append(Life(name, group, seen, survived=path.name in surviving))
        return found

    def check_trace(self) -> list[str]:
        from shmcast.multicast.checks.table import check
        from shmcast.multicast.traces.reader import read_record

        assert self.config.trace is not None
        record = read_record(self.config.trace)
        verdicts = check(record.trace, record.info.promises)
        return [f"trace: {name}: {v.reason}" for name, v in verdicts.items() if v.violated]


def _lines(path: Path) -> list[str]:
    """Whole lines only: the last one may have been cut off by a kill."""
    whole, _, _ = path.read_text().rpartition("\n")
    return whole.split("\n") if whole else []


def _key(text: str) -> tuple[int, int]:
    client, _, n = text.partition(":")
    return int(client), int(n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="wbcast")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--recorded", action="store_true")
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="shmcast-chaos-"))
    name = f"chaos-{uuid.uuid4().hex[:6]}"
    try:
        chaos = Chaos(directory, name, given.engine, clients=given.clients, seed=given.seed,
                      recorded=given.recorded)  # fmt: skip
        with chaos:
            chaos.run(given.seconds)
            found = chaos.finish()
        count = sum(map(len, chaos.acked()))
        print(f"{given.engine}: seed {given.seed}, {len(chaos.events)} faults, {count} messages "
              f"acknowledged, longest wait {max(chaos.waits_s(), default=0):.3f} s")  # fmt: skip
        for one in found:
            print(f"  BROKEN {one}")
        return 1 if found else 0
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
