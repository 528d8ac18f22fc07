"""A cluster of real processes for a test: started, killed, started again, recorded and judged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers import wait_until
from shmcast.multicast.checks.table import check
from shmcast.multicast.run.client import Client
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.inbox import inbox_name, remove_inbox
from shmcast.multicast.run.life import PeerLife, path_of
from shmcast.multicast.traces.reader import read_run
from shmcast.multicast.traces.run_info import RunInfo

CALM = "suspect_ms = 600"  # a loaded machine must not look like a dead one


def stands_still(pid: int) -> bool:
    states = [
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return all(state in "tT" for state in states)


class Replicas:
    def __init__(
        self,
        directory: Path,
        name: str,
        engine: str,
        *,
        groups: int,
        size: int,
        app: str = "",
        more: str = "",
        options: str = "",
    ) -> None:
        self.file = directory / "cluster.toml"
        self.trace = directory / "trace"
        members = ", ".join(f'"{chr(97 + i)}"' for i in range(size))
        lines = [f'[cluster]\nname = "{name}"\nengine = "{engine}"\ntrace = "trace"']
        lines += [f'app = "{app}"' if app else "", more, "[groups]"]
        lines += [f"g{g + 1} = [{members}]" for g in range(groups)]
        self.file.write_text("\n".join([*lines, "[options]", CALM, options, ""]))
        self.cluster = Cluster.load(self.file)
        self.config = self.cluster.config
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "shmcast.multicast.run.replica", str(self.file), name]
        self.processes[name] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def start_all(self) -> None:
        for replica in self.config.replicas:
            self.start(replica.name)

    def client(self) -> Client:
        return Client(self.config)

    def leader(self, group: int) -> str:
        """As the group's members show it now."""
        shown = [PeerLife(self.config, p).read() for p in self.config.topology.groups[group]]
        begun = [life for life in shown if life is not None and life.has_begun]
        newest = max(begun, key=lambda life: (life.epoch, -life.leader))
        return self.config.replicas[newest.leader].name

    def wait_for_life(self, name: str, incarnation: int) -> None:
        peer = PeerLife(self.config, self.config.replica(name).proc)

        def lives() -> bool:
            life = peer.read()
            return life is not None and life.incarnation == incarnation and life.has_begun

        wait_until(lives, f"{name} lives, in life {incarnation}")
        peer.close()

    def signal(self, name: str, number: signal.Signals) -> None:
        pid = self.processes[name].pid
        os.kill(pid, number)
        if number == signal.SIGSTOP:  # its threads stop one by one, when each of them is looked at
            wait_until(lambda: stands_still(pid), f"{name} stopped")

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def stop_all(self) -> list[int]:
        """In order; exit codes."""
        for process in self.processes.values():
            process.terminate()
        return [process.wait(timeout=60) for process in self.processes.values()]

    def clean(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()
        for replica in self.config.replicas:
            for incarnation in range(8):
                remove_inbox(inbox_name(self.config.name, replica.proc, incarnation))
            path_of(self.config, replica.proc).unlink(missing_ok=True)

    def verdicts(self) -> dict[str, str]:
        """What the record of the run shows of every promise: the violated ones, in words."""
        found = check(read_run(self.trace), RunInfo.read(self.trace).promises)
        return {name: verdict.reason for name, verdict in found.items() if verdict.violated}

    def delivered(self, name: str, incarnation: int | None = None) -> list[tuple[int, int]]:
        """In all its lives, or in one."""
        proc = self.config.replica(name).proc
        return [
            e.msg
            for e in read_run(self.trace).events
            if e.kind == "deliver" and e.proc == proc and e.msg
            if incarnation is None or e.incarnation == incarnation
        ]

    def wait_for_delivery(self, names: list[str], message: tuple[int, int]) -> None:
        wait_until(
            lambda: all(message in self.delivered(name) for name in names),
            f"{names} deliver {message}",
        )


@contextmanager
def replicas(
    directory: Path,
    name: str,
    engine: str = "wbcast",
    *,
    groups: int = 2,
    size: int = 3,
    app: str = "",
    more: str = "",
    options: str = "",
) -> Iterator[Replicas]:
    """`name` must differ from test to test: tests run beside each other on one host. `more`: lines
    of [cluster]; `options`: of [options]."""
    found = Replicas(
        directory,
        f"{name}-{os.getpid()}",
        engine,
        groups=groups,
        size=size,
        app=app,
        more=more,
        options=options,
    )
    try:
        yield found
    finally:
        found.clean()
