"""The cluster of the demo: two groups of three replicas under a supervisor, all real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from shmcast.cli.demo.cast import StageAccident
from shmcast.cli.demo.interrupts import uninterrupted
from shmcast.cli.demo.worker import GROUPS
from shmcast.mailbox.faults import kill_process
from shmcast.multicast.run.config import LOCAL, ClusterConfig, Replica, load
from shmcast.multicast.run.life import Life, PeerLife
from shmcast.multicast.run.supervisor import GRACE_S, stop

ENGINE = "wbcast"
_REPLICAS = ("a", "b", "c")
_END_S = 2 * GRACE_S


@dataclass(frozen=True, slots=True)
class Standing:
    """One group at one moment."""

    group: str
    alive: dict[str, bool]  # by replica
    leader: str  # empty while there is none


def write_file(path: Path, name: str) -> None:
    members = ", ".join(f'"{short}"' for short in _REPLICAS)
    groups = "\n".join(f"{group} = [{members}]" for group in GROUPS)
    path.write_text(
        f'[cluster]\nname = "{name}"\nengine = "{ENGINE}"\n'
        'app = "shmcast.cli.demo.replica:write_down"\n\n'
        f"[groups]\n{groups}\n"
    )


class Troupe:
    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / "cluster.toml"
        write_file(self.file, name)
        self.config: ClusterConfig = load(self.file)
        self._lives = {replica.name: PeerLife(self.config, replica.proc)
                       for replica in self.config.replicas}  # fmt: skip
        self._words = (folder / "cluster.err").open("w+b")
        self._supervisor: subprocess.Popen[bytes] | None = None
        self.killed: dict[tuple[str, int], int] = {}  # (replica, life): when

    def start(self) -> None:
        with uninterrupted():
            command = [str(self.file), str(os.getpid())]
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "shmcast.cli.demo.supervise", *command],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def check(self) -> None:
        if self._supervisor is not None and self._supervisor.poll() is not None:
            self._words.seek(0)
            last = self._words.read().decode(errors="replace").strip().splitlines()[-1:]
            raise StageAccident(f"the cluster's supervisor ended by itself. {' '.join(last)}")

    # What its replicas show of themselves, in shared memory.

    def life(self, name: str) -> Life | None:
        """The present life of a replica; None if it is dead."""
        peer = self._lives[name]
        life = peer.read()
        if life is None or not life.has_begun or peer.is_dead(life):
            return None
        return life

    def standing(self, group: str) -> Standing:
        members = [r for r in self.config.replicas if r.group == group]
        lives = {r.name: self.life(r.name) for r in members}
        known = [life for life in lives.values() if life is not None and life.leader >= 0]
        newest = max(known, key=lambda life: life.epoch, default=None)
        leader = "" if newest is None else self.config.replicas[newest.leader].name
        alive = {name: life is not None for name, life in lives.items()}
        return Standing(group, alive, leader if alive.get(leader) else "")

    def is_complete(self) -> bool:
        """Everybody lives, and every group has a leader."""
        standings = [self.standing(group) for group in GROUPS]
        return all(s.leader and all(s.alive.values()) for s in standings)

    def alive(self) -> int:
        return sum(self.life(replica.name) is not None for replica in self.config.replicas)

    def members(self, group: str) -> list[Replica]:
        return [replica for replica in self.config.replicas if replica.group == group]

    def kill(self, name: str) -> None:
        life = self.life(name)
        if life is None:
            raise StageAccident(f"{name} was dead before it was killed")
        self.killed[name, life.incarnation] = time.monotonic_ns()
        kill_process(life.pid)

    def end(self) -> None:
        """In order if it goes; whatever is left of it is removed."""
        if self._supervisor is not None:
            with contextlib.suppress(ProcessLookupError):
                self._supervisor.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(_END_S)
            if self._supervisor.poll() is None:
                self._supervisor.kill()
                self._supervisor.wait()
            self._supervisor = None
            stop(self.config, LOCAL)
        for peer in self._lives.values():
            peer.close()
        self._words.close()
