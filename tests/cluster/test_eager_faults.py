"""Engine `eager` in real processes that are killed, stopped and robbed of their memory.

After each run: the replicas of a group have one history; places strictly increase and are the same
in all groups; what a client was told is ordered stands there once, at that place; what it was not
told stands in all of its groups or in none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import SHM, Child, wait_until

from shmcast.errors import DeadlineMissed, MailboxFull, MessageTooLarge, NoQuorum
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import intact_copies, kill_copy
from shmcast.multicast.run import config as configs
from shmcast.multicast.run import eager, eager_domain

pytestmark = pytest.mark.timeout(120)
_numbers = itertools.count()

# The state is the whole history, so that a replica which comes back can show all of it.
REPLICA = """
from shmcast.multicast.run import config as configs, eager
path, name = args
class History:
    def __init__(self): self.rows = []
    def snapshot(self): return json.dumps(self.rows).encode()
    def restore(self, data): self.rows = json.loads(data)
history = History()
with eager.node(configs.load(path), name, history) as node:
    for d in node.deliveries():
        if d.payload == b"count":
            say(len(history.rows))
        elif d.payload == b"end":
            break
        else:
            row = [list(d.timestamp), d.payload.decode(), list(d.groups), d.sender, d.sequence]
            history.rows.append(row)
    say(history.rows)
    hear()
"""

CLIENT = """
import random
from shmcast.multicast.run import config as configs, eager
path, tag = args
rows = []
with eager.client(configs.load(path)) as client:
    choose = random.Random(tag)
    i = 0
    while not told():
        groups = choose.choice((["g1"], ["g2"], ["g1", "g2"], ["g1", "g2"]))
        text = f"{tag}:{i}:{''.join(groups)}"
        done = client.multicast(text.encode(), groups, timeout=60)
        rows.append([list(done.timestamp), text, groups])
        assert client.retry() == done
        assert done.sequence == len(rows)
        i += 1
        if i % 50 == 0:
            say(i)
        time.sleep(0.0005)
    hear()
    say(["rows", rows])
    hear()
"""


class Cluster:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = configs.load(path)
        self.replicas = {r.name: Child(REPLICA, str(path), r.name) for r in self.config.replicas}
        self.clients: dict[str, Child] = {}

    @property
    def name(self) -> str:
        return eager_domain.domain_name(self.config)

    def start_client(self, tag: str) -> None:
        self.clients[tag] = Child(CLIENT, str(self.path), tag)
        self.progress(tag)

    def progress(self, tag: str) -> None:
        """It has got on since."""
        self.clients[tag].heard()
        self.clients[tag].heard()

    def restart(self, name: str) -> None:
        self.replicas[name].kill()
        self.replicas[name] = Child(REPLICA, str(self.path), name)

    def wait_complete(self) -> None:
        with Domain.open(self.name) as domain:
            board = eager.Board(self.config, domain)

            def all_there() -> bool:
                domain.reap()
                return all(
                    {self.replicas[r.name].pid for r in group.replicas} == set(board.complete(n))
                    for n, group in enumerate(self.config.groups)
                )

            wait_until(all_there, "every replica is complete")

    def stop(self) -> tuple[list[Any], dict[str, list[Any]]]:
        """What clients were told, and what replicas delivered."""
        told: list[Any] = []
        for child in self.clients.values():
            child.tell("stop")
        for child in self.clients.values():
            while True:
                said = child.heard()
                if isinstance(said, list):
                    break
            told += said[1]
            child.tell()
            assert child.ended() == 0, child.errors
        with eager.client(self.config) as last:
            last.multicast(b"end", ["g1", "g2"])
        logs = {name: child.heard() for name, child in self.replicas.items()}
        for child in self.replicas.values():
            child.tell()
            assert child.ended() == 0, child.errors
        return told, logs

    def kill(self) -> None:
        for child in [*self.replicas.values(), *self.clients.values()]:
            child.kill()
        eager_domain.remove_if_unused(self.config)


def verdict(told: list[Any], logs: dict[str, list[Any]]) -> None:
    groups: dict[str, list[Any]] = {}
    for name, rows in logs.items():
        group = name.partition(".")[0]
        assert groups.setdefault(group, rows) == rows, f"{name} differs from another replica"
    at: dict[str, dict[str, list[int]]] = {}
    for group, rows in groups.items():
        places = [place for place, *_ in rows]
        assert all(a < b for a, b in itertools.pairwise(places)), "places do not grow"
        texts = [text for _, text, *_ in rows]
        assert len(set(texts)) == len(texts), "delivered twice"
        at[group] = dict(zip(texts, places, strict=True))
        for _, text, dest, *_ in rows:
            assert "".join(dest) == text.split(":")[2]
    for group, other in itertools.permutations(groups, 2):
        for _, text, dest, *_ in groups[group]:
            if other in dest:
                assert at[other].get(text) == at[group][text], "not in all groups, or elsewhere"
    for place, text, dest in told:
        for group in dest:
            assert at[group].get(text) == place, f"{text} was acknowledged and is not there"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    path = tmp_path / "cluster.toml"
    path.write_text(
        f'[cluster]\nname = "t{os.getpid()}-{next(_numbers)}"\nengine = "eager"\n'
        'message_size = 64\n[groups]\ng1 = ["a", "b", "c"]\ng2 = ["a", "b"]\n'
    )
    made = Cluster(path)
    yield made
    made.kill()
    assert not list(SHM.glob(f"shmcast.{made.name}.*"))


def test_everything_happens_at_once(cluster: Cluster) -> None:
    for tag in ("x", "y", "z"):
        cluster.start_client(tag)
    cluster.replicas["g1.b"].process.send_signal(signal.SIGSTOP)
    cluster.clients.pop("z").kill()  # wherever it is
    cluster.replicas["g1.b"].process.send_signal(signal.SIGCONT)
    cluster.progress("x")
    cluster.restart("g1.a")
    cluster.restart("g2.b")
    cluster.wait_complete()
    cluster.progress("x")
    with Domain.open(cluster.name) as domain:
        kill_copy(domain, intact_copies(domain)[0])
        cluster.progress("y")
        wait_until(lambda: len(intact_copies(domain)) == 3, "the copy is replaced")
        kill_copy(domain, intact_copies(domain)[1], "corrupt")
    cluster.progress("x")
    cluster.restart("g1.c")
    cluster.clients["y"].process.send_signal(signal.SIGSTOP)
    cluster.progress("x")
    cluster.clients["y"].process.send_signal(signal.SIGCONT)
    cluster.wait_complete()
    cluster.progress("y")
    told, logs = cluster.stop()
    assert len(told) > 300
    verdict(told, logs)


def test_clients_killed_again_and_again(cluster: Cluster) -> None:
    cluster.start_client("steady")
    for n in range(6):
        cluster.start_client(f"k{n}")
        cluster.clients.pop(f"k{n}").kill()
    cluster.progress("steady")
    verdict(*cluster.stop())


def test_every_replica_restarted_in_turn(cluster: Cluster) -> None:
    cluster.start_client("x")
    for name in cluster.replicas:
        cluster.restart(name)
        cluster.wait_complete()
    cluster.progress("x")
    verdict(*cluster.stop())


def test_without_a_majority_nothing_is_sent(cluster: Cluster) -> None:
    with eager.client(cluster.config) as client:
        client.multicast(b"x:0:g1g2", ["g1", "g2"], timeout=60)
        cluster.replicas["g2.a"].kill()

        def refused() -> bool:
            try:
                client.multicast(b"x:1:g2", ["g2"], timeout=0)
            except NoQuorum:
                return True
            except DeadlineMissed:
                return False
            return False

        wait_until(refused, "one of two replicas is no majority")
        client.multicast(b"x:2:g1", ["g1"], timeout=10)  # the other group goes on
        with pytest.raises(MessageTooLarge):
            client.multicast(bytes(65), ["g1"])
        with pytest.raises(ValueError, match="no group 'g9'"):
            client.multicast(b"", ["g9"])
        with pytest.raises(ValueError, match="names no group"):
            client.multicast(b"", [])


def test_a_cluster_killed_as_a_whole_starts_again(cluster: Cluster) -> None:
    with eager.client(cluster.config) as client:
        client.multicast(b"x:0:g1g2", ["g1", "g2"], timeout=60)
    for name, child in cluster.replicas.items():
        child.kill()
        cluster.replicas[name] = Child(REPLICA, str(cluster.path), name)
    cluster.start_client("y")
    verdict(*cluster.stop())


def test_a_replica_comes_back_while_as_many_clients_as_possible_are_there(
    cluster: Cluster,
) -> None:
    """64 clients took all places for senders: it could not ask for the state, and ended."""
    with contextlib.ExitStack() as clients:

        def one_more() -> None:
            client = clients.enter_context(eager.client(cluster.config))
            client.multicast(b"x:0:g1", ["g1"], timeout=60)

        spare = eager_domain.lanes_for_replicas(cluster.config)
        for _ in range(eager_domain.SENDERS - spare):
            one_more()
        with pytest.raises(MailboxFull, match="59 clients already"):
            one_more()
        cluster.restart("g1.b")
        cluster.wait_complete()


def test_a_stopped_replica_holds_nobody_up_for_long_and_comes_back(cluster: Cluster) -> None:
    """Its places were kept for it: after a ring of messages every client missed its deadline."""
    cluster.start_client("x")
    cluster.wait_complete()
    stopped = cluster.replicas["g1.b"]
    stopped.process.send_signal(signal.SIGSTOP)
    with Domain.open(cluster.name) as domain:
        board = eager.Board(cluster.config, domain)
        wait_until(lambda: stopped.pid not in board.complete(0), "it loses its place")
    cluster.progress("x")
    stopped.process.send_signal(signal.SIGCONT)
    assert stopped.ended() != 0
    assert "went on without it: start it again" in stopped.errors
    cluster.restart("g1.b")
    cluster.wait_complete()
    cluster.progress("x")
    verdict(*cluster.stop())


def test_nobody_runs(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('[cluster]\nname = "nobody"\nengine = "eager"\n[groups]\ng1 = ["a"]\n')
    with eager.client(configs.load(path)) as client, pytest.raises(NoQuorum, match="shmcast up"):
        client.multicast(b"", ["g1"], timeout=0)
