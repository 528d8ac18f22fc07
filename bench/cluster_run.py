"""Clusters of real processes for the benches `cluster_*.py`: replicas, and clients in closed loops.

A client is a process's thread with its own `Client`; up to `PROCESSES_MAX` processes, the clients
beyond share them. With `delay_ms` every frame waits that long in the inbox it came to, a client's
too: the link of the run, δ. Everything is put under one name, and is gone when the block ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from shmcast.multicast.run import client as clients_of
from shmcast.multicast.run import config as configs
from shmcast.multicast.run import leftovers, peers
from shmcast.multicast.run.child import die_with
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.inbox import Inbox
from shmcast.multicast.run.transport import Frame

PROCESSES_MAX = 4
PAYLOAD = b"20 bytes of payload."
PATIENCE_S = 60.0
_SAMPLES_MAX = 20_000  # of each process


class DelayedInbox(Inbox):
    """Frames are handed out δ after they came; their order stays."""

    delay_ns = 0

    def receive(self, timeout_ns: int) -> list[Frame]:
        if not self.delay_ns:
            return super().receive(timeout_ns)
        held: deque[tuple[int, Frame]] = self.__dict__.setdefault("held", deque())
        now = time.monotonic_ns()
        end = now + timeout_ns
        while True:
            until = min(end, held[0][0]) if held else end
            came = super().receive(max(0, until - now))
            now = time.monotonic_ns()
            held.extend((now + self.delay_ns, frame) for frame in came)
            if held and held[0][0] <= now:
                found = []
                while held and held[0][0] <= now:
                    found.append(held.popleft()[1])
                return found
            if now >= end:
                return []


def delay(ms: float) -> None:
    """Of this process's inboxes, from now on."""
    DelayedInbox.delay_ns = int(ms * 1e6)
    for module in (peers, clients_of):
        module.Inbox = DelayedInbox  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Load:
    """What clients in closed loops saw."""

    clients: int
    seconds: float
    count: int
    samples_us: Sequence[float]  # sorted
    cpu_us: tuple[float, float] = (0.0, 0.0)  # of one multicast: all replicas, all clients

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    def at(self, share: float) -> float:
        return self.samples_us[min(len(self.samples_us) - 1, int(len(self.samples_us) * share))]

    def row(self) -> dict[str, float]:
        return {
            "clients": self.clients,
            "per_second": round(self.per_second, 1),
            "p50_us": round(self.at(0.5), 1),
            "p99_us": round(self.at(0.99), 1),
            "max_us": round(self.samples_us[-1], 1),
            "cpu_us_replicas": round(self.cpu_us[0], 1),
            "cpu_us_clients": round(self.cpu_us[1], 1),
        }


class Running:
    """A cluster of this host under load. `extra` are lines of cluster.toml's [cluster]."""

    def __init__(
        self,
        engine: str,
        *,
        groups: int = 2,
        replicas: int = 3,
        delay_ms: float = 0.0,
        extra: Sequence[str] = (),
        options: Sequence[str] = (),
        tag: str = "",
    ) -> None:
        self.delay_ms = delay_ms
        self._directory = tempfile.TemporaryDirectory(prefix="shmcast-bench-")
        self.directory = Path(self._directory.name)
        self.file = self.directory / "cluster.toml"
        members = ", ".join(f'"{chr(97 + n)}"' for n in range(replicas))
        lines = [
            f'[cluster]\nname = "bench{os.getpid()}{tag}-{engine}"\nengine = "{engine}"',
            *extra,
            "[groups]",
            *(f"g{n + 1} = [{members}]" for n in range(groups)),
            "[options]",
            *options,
        ]
        self.file.write_text("\n".join(lines) + "\n")
        self.config = configs.load(self.file)
        self.groups = [group.name for group in self.config.groups]
        self.replicas: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Running:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the block ends, too
        try:
            for replica in self.config.replicas:
                self.start(replica.name)
            with Cluster(self.config).client() as client:
                client.multicast(b"first", self.groups, timeout=PATIENCE_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.replicas.values():
            process.send_signal(signal.SIGTERM)
        for process in self.replicas.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        leftovers.remove_segments(self.config)
        leftovers.forget_lives(self.config)
        self._directory.cleanup()

    def start(self, name: str) -> None:
        self.replicas[name] = _program("--replica", self.file, name, self.delay_ms)

    def kill(self, name: str) -> None:
        self.replicas[name].kill()
        self.replicas[name].wait()

    def memory_bytes(self) -> dict[str, int]:
        """What each replica has to itself: no shared segments."""
        return {
            name: psutil.Process(process.pid).memory_full_info().uss
            for name, process in self.replicas.items()
        }

    def load(
        self, clients: int, seconds: float, groups: Sequence[str] = (), *, processes: int = 0
    ) -> Load:
        [found] = self.loads([(clients, tuple(groups or self.groups))], seconds, processes)
        return found

    def loads(
        self, parts: Sequence[tuple[int, Sequence[str]]], seconds: float, processes: int = 0
    ) -> list[Load]:
        """Several kinds of clients at once: how many, and to which groups."""
        asking = [
            [
                _program("--client", self.file, threads, seconds, "+".join(groups), self.delay_ms)
                for threads in spread(clients, processes or PROCESSES_MAX)
            ]
            for clients, groups in parts
        ]
        everyone = [process for part in asking for process in part]
        for process in everyone:
            assert process.stdout and process.stdout.readline() == "ready\n"
        used_s = self.cpu_s()
        for process in everyone:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        heard = [[json.loads(process.stdout.readline()) for process in part] for part in asking]
        used_s = self.cpu_s() - used_s
        total = sum(one[0] for part in heard for one in part)
        found = []
        for (clients, _), said in zip(parts, heard, strict=True):
            samples = sorted(sample for _, _, some in said for sample in some)
            count = sum(one for one, _, _ in said)
            cpu_us = (used_s * 1e6 / total, sum(cpu for _, cpu, _ in said) * 1e6 / count)
            in_us = [sample / 1e3 for sample in samples]
            found.append(Load(clients, seconds, count, in_us, cpu_us))
        for process in everyone:
            process.communicate()
        return found

    def cpu_s(self) -> float:
        """That the living replicas have used."""
        times = [
            psutil.Process(process.pid).cpu_times()
            for process in self.replicas.values()
            if process.poll() is None
        ]
        return float(sum(time.user + time.system for time in times))


def spread(clients: int, processes_max: int) -> list[int]:
    processes = min(clients, processes_max)
    return [clients // processes + (n < clients % processes) for n in range(processes)]


def _program(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, args)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 (it asks the kernel, nothing else)
    )


def be_replica(path: str, name: str, delay_ms: float) -> None:
    delay(delay_ms)
    with Cluster(configs.load(path)).node(name) as node:
        signal.signal(signal.SIGTERM, lambda *_: node.stop())  # type: ignore[attr-defined]
        for _ in node.deliveries():
            pass


def be_clients(path: str, threads: int, seconds: float, groups: str, delay_ms: float) -> None:
    delay(delay_ms)
    cluster = Cluster(configs.load(path))
    dest = tuple(groups.split("+"))
    took: list[list[int]] = [[] for _ in range(threads)]
    counts = [0] * threads
    own = [cluster.client() for _ in took]
    for client in own:
        client.multicast(PAYLOAD, dest, timeout=PATIENCE_S)
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic_ns() + int(seconds * 1e9)

    def loop(number: int) -> None:
        client, samples = own[number], took[number]
        now = time.monotonic_ns()
        while now < until:
            client.multicast(PAYLOAD, dest, timeout=PATIENCE_S)
            before, now = now, time.monotonic_ns()
            if counts[number] & 7 == 0 or counts[number] < _SAMPLES_MAX:
                samples.append(now - before)
            counts[number] += 1

    used_s = time.process_time()
    workers = [threading.Thread(target=loop, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    used_s = time.process_time() - used_s
    every = sorted(sample for samples in took for sample in samples)
    kept = every[:: max(1, len(every) // _SAMPLES_MAX)]
    if every and kept[-1] != every[-1]:
        kept.append(every[-1])
    print(json.dumps([sum(counts), used_s, kept]), flush=True)
    for client in own:
        client.close()


def machine() -> str:
    return (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}, Linux "
        f"{platform.release()}, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f} when it ended"
    )


def write(out: Path | None, text: str, figures: dict[str, Any]) -> None:
    """To the terminal; with `out`, out.md and out.json as well."""
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".md").write_text(text)
        out.with_suffix(".json").write_text(json.dumps({"machine": machine(), **figures}) + "\n")


def table(head: Sequence[str], rows: Iterator[Sequence[object]] | list[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


if __name__ == "__main__":
    if sys.argv[1] == "--replica":
        be_replica(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1] == "--client":
        be_clients(
            sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5], float(sys.argv[6])
        )
