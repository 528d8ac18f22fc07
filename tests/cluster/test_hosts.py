"""A wbcast cluster over three hosts: links cut and healed, a host's replica killed; runs judged."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cluster.namespaces import Network, why_not
from cluster.replicas import CALM, Replicas
from helpers import wait_until
from shmcast.errors import DeadlineMissed
from shmcast.multicast.run import keys
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.inbox import inbox_name, remove_inbox
from shmcast.multicast.run.life import path_of
from shmcast.multicast.run.replica import EXIT_AGAIN

HOSTS = 3


class Hosts(Replicas):
    """Replica g1.a on host h0, g1.b on h1, g1.c on h2, and so for each group."""

    def __init__(
        self, directory: Path, name: str, network: Network | None, *, groups: int = 1
    ) -> None:
        self.network = network
        self.file = directory / "cluster.toml"
        self.trace = directory / "trace"
        if network is None:
            addresses = [f"127.0.0.{i + 2}" for i in range(HOSTS)]
        else:
            addresses = network.addresses
        lines = [
            f'[cluster]\nname = "{name}"\nengine = "wbcast"\ntrace = "trace"\nkeys = "keys"',
            "[groups]",
            *(f'g{n + 1} = ["a@h0", "b@h1", "c@h2"]' for n in range(groups)),
            "[hosts]",
            *(
                f'h{i} = {{ address = "{address}", port = {free_port(network, address, groups)} }}'
                for i, address in enumerate(addresses)
            ),
            "[options]",
            CALM,
            "",
        ]
        self.file.write_text("\n".join(lines))
        for i in range(HOSTS):
            keys.make(directory / "keys", f"h{i}")
        self.cluster = Cluster.load(self.file)
        self.config = self.cluster.config
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "shmcast.multicast.run.replica", str(self.file), name]
        if self.network is not None:
            host = int(self.config.replica(name).host[1:])
            command = ["ip", "netns", "exec", self.network.hosts[host], *command]
        self.processes[name] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def free_port(network: Network | None, address: str, count: int) -> int:
    """The first of so many in a row."""
    if network is not None:
        return 7000
    while True:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError, OverflowError):
            first = held.enter_context(socket.create_server((address, 0)))
            port: int = first.getsockname()[1]
            for more in range(1, count):
                held.enter_context(socket.create_server((address, port + more)))
            return port


@pytest.fixture
def network() -> Iterator[Network]:
    if why_not():
        pytest.skip(why_not())
    made = Network(HOSTS)
    try:
        yield made
    finally:
        made.close()


def multicasts(cluster: Hosts, count: int) -> list[tuple[int, int]]:
    """Acknowledged, by one client."""
    done = []
    with cluster.client() as client:
        for _ in range(count):
            ordered = client.multicast(b"payload", ["g1"], timeout=60)
            done.append((client.id, ordered.sequence))
    return done


def judged(cluster: Hosts, done: list[tuple[int, int]], names: list[str]) -> None:
    for name in names:
        wait_until(lambda name=name: len(cluster.delivered(name)) >= len(done), f"all at {name}")
    cluster.stop_all()
    assert cluster.verdicts() == {}
    for name in names:
        assert cluster.delivered(name) == done


def name_of(test: str) -> str:
    return f"{test}-{os.getpid()}"


def test_three_hosts_deliver_one_order(tmp_path: Path) -> None:
    """Over loopback, each host with an address of its own."""
    cluster = Hosts(tmp_path, name_of("hosts"), None)
    try:
        cluster.start_all()
        done = multicasts(cluster, 100)
        judged(cluster, done, ["g1.a", "g1.b", "g1.c"])
    finally:
        cluster.clean()


def test_a_killed_leader_on_another_host_is_replaced(tmp_path: Path) -> None:
    cluster = Hosts(tmp_path, name_of("hostkill"), None)
    try:
        cluster.start_all()
        done = multicasts(cluster, 30)
        cluster.kill("g1.a")
        done += multicasts(cluster, 30)
        judged(cluster, done, ["g1.b", "g1.c"])
    finally:
        cluster.clean()


def test_another_file_on_another_host_is_told_at_both(tmp_path: Path) -> None:
    """It was noticed, and nobody read it: the replicas were silent and ordered nothing."""
    cluster = Hosts(tmp_path, name_of("hostfile"), None)
    try:
        cluster.start("g1.a")
        text = cluster.file.read_text()
        cluster.wait_for_life("g1.a", 0)
        cluster.file.write_text(text.replace("[groups]", "message_size = 99\n[groups]"))
        cluster.start("g1.b")
        for name, peer in (("g1.a", "g1.b"), ("g1.b", "g1.a")):
            errors = cluster.processes[name].stderr
            assert errors
            told = "another cluster.toml: use the same file on every host"
            assert any(
                line.startswith(f"{name}: link with {peer}: ") and told in line for line in errors
            )
    finally:
        cluster.clean()


def test_a_rebooted_host_comes_back_with_the_others_state_and_ends_nobody(tmp_path: Path) -> None:
    """Its replica was life 0 again, with an empty state: its peers took themselves for cut off and
    ended all at once, and so did the state."""
    cluster = Hosts(tmp_path, name_of("hostboot"), None)
    try:
        cluster.start_all()
        done = multicasts(cluster, 30)
        cluster.kill("g1.a")
        forget(cluster, "g1.a")
        done += multicasts(cluster, 10)
        cluster.start("g1.a")
        assert cluster.processes["g1.a"].wait(60) == EXIT_AGAIN
        errors = cluster.processes["g1.a"].stderr
        assert errors and "has lived before, the others remember its life 0" in errors.read()
        cluster.start("g1.a")
        cluster.wait_for_life("g1.a", 1)

        def delivers() -> bool:
            done.extend(multicasts(cluster, 1))
            return bool(cluster.delivered("g1.a", incarnation=1))

        wait_until(delivers, "it delivers again")
        assert all(cluster.processes[name].poll() is None for name in ("g1.b", "g1.c"))
        judged(cluster, done, ["g1.b", "g1.c"])
    finally:
        cluster.clean()


def test_a_group_over_three_hosts_is_restarted_in_turn_and_stops_nobody(tmp_path: Path) -> None:
    cluster = Hosts(tmp_path, name_of("hostroll"), None, groups=2)
    try:
        cluster.start_all()
        traffic = Traffic(cluster, [], ["g1", "g2"])
        traffic.wait_for(10)
        for name in ("g1.a", "g1.b", "g1.c"):
            cluster.wait_for_life(name, 0)
            if name == "g1.b":
                cluster.kill(name)
            else:
                cluster.processes[name].terminate()
                assert cluster.processes[name].wait(60) == 0
            cluster.start(name)
            wait_until(
                lambda name=name: cluster.delivered(name, incarnation=1), f"{name} delivers again"
            )
            traffic.wait_for(5)
        done = traffic.stop()
        judged(cluster, done, ["g2.a", "g2.b", "g2.c"])
    finally:
        cluster.clean()


def forget(cluster: Hosts, name: str) -> None:
    """What a reboot does to a host: its shared memory is empty, and so is a disk that was new."""
    proc = cluster.config.replica(name).proc
    path_of(cluster.config, proc).unlink()
    remove_inbox(inbox_name(cluster.config.name, proc, 0))
    shutil.move(cluster.trace / f"process={proc}", cluster.file.parent / "before")


@pytest.mark.parametrize(
    ("host", "how"), [(0, "cut"), (2, "cut"), (0, "mute")], ids=["leader", "follower", "one way"]
)
def test_a_host_that_was_cut_off_catches_up(
    tmp_path: Path, network: Network, host: int, how: str
) -> None:
    cluster = Hosts(tmp_path, name_of("hostcut"), network)
    try:
        cluster.start_all()
        done = multicasts(cluster, 30)
        traffic: list[tuple[int, int]] = []
        others = Traffic(cluster, traffic)
        others.wait_for(20)
        getattr(network, how)(host)
        others.wait_for(20)
        network.heal(host)
        others.wait_for(50)
        done += others.stop()
        judged(cluster, done, ["g1.a", "g1.b", "g1.c"])
    finally:
        cluster.clean()


class Traffic:
    """A client on one machine sees every host's inbox; it retries what the cut host cannot do."""

    def __init__(
        self, cluster: Hosts, done: list[tuple[int, int]], groups: Sequence[str] = ("g1",)
    ) -> None:
        self.done = done
        self._cluster, self._groups = cluster, groups
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._cluster.client() as client:
                while not self._stop.is_set():
                    ordered = client.multicast(b"payload", self._groups, timeout=60)
                    self.done.append((client.id, ordered.sequence))
        except BaseException as error:
            self._error = error

    def wait_for(self, more: int) -> None:
        enough = len(self.done) + more
        wait_until(lambda: len(self.done) >= enough or self._error, f"{more} more multicasts")
        assert self._error is None

    def stop(self) -> list[tuple[int, int]]:
        self._stop.set()
        self._thread.join(60)
        assert self._error is None and not self._thread.is_alive()
        return self.done


def test_without_a_majority_nothing_is_ordered_and_the_client_is_told(
    tmp_path: Path, network: Network
) -> None:
    cluster = Hosts(tmp_path, name_of("hostsplit"), network)
    try:
        cluster.start_all()
        done = multicasts(cluster, 10)
        for host in range(HOSTS):
            network.cut(host)
        with cluster.client() as client:
            with pytest.raises(DeadlineMissed):
                client.multicast(b"alone", ["g1"], timeout=1.0)
            for host in range(HOSTS):
                network.heal(host)
            ordered = client.retry(timeout=60)
            done.append((client.id, ordered.sequence))
        judged(cluster, done, ["g1.a", "g1.b", "g1.c"])
    finally:
        cluster.clean()
