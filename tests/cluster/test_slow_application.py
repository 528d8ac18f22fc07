"""An application that does not take its deliveries: the door closes, and then the life ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import wait_until
from shmcast.errors import DeadlineMissed, ShmcastError
from shmcast.multicast.run import node as node_module
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.life import path_of
from shmcast.multicast.run.node import Node

FILE = """
[cluster]
name = "slow-{pid}"
engine = "wbcast"
[groups]
g1 = ["a"]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    file = tmp_path / "cluster.toml"
    file.write_text(FILE.format(pid=os.getpid()))
    found = Cluster.load(file)
    yield found
    path_of(found.config, 0).unlink()


@pytest.mark.parametrize("limit", ["QUEUE_LONG", "QUEUE_BYTES_LONG"])
def test_clients_wait_while_an_application_is_behind(
    cluster: Cluster, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, limit, 2)
    with Node(cluster.config, "g1.a") as node, cluster.client() as client:
        for payload in (b"1", b"2"):
            client.multicast(payload, ["g1"], timeout=60)
        with pytest.raises(DeadlineMissed, match="not ordered before its deadline"):
            client.multicast(b"3", ["g1"], timeout=0.2)
        deliveries = node.deliveries(timeout=60)
        assert [next(deliveries).payload for _ in range(2)] == [b"1", b"2"]
        assert client.retry(timeout=60).sequence == 3
        assert next(deliveries).payload == b"3"


@pytest.mark.parametrize("limit", ["QUEUE_MAX", "QUEUE_BYTES_MAX"])
def test_a_replica_ends_before_deliveries_fill_the_memory(
    cluster: Cluster, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number was bounded, by a million, whatever each of them weighed."""
    monkeypatch.setattr(node_module, limit, 1)
    with Node(cluster.config, "g1.a") as node, cluster.client() as client:
        client.multicast(b"11", ["g1"], timeout=60)
        with pytest.raises(ShmcastError):
            client.multicast(b"22", ["g1"], timeout=0.5)
        wait_until(lambda: not node._thread.is_alive(), "it ends")
        deliveries = node.deliveries(timeout=60)
        next(deliveries)
        with pytest.raises(DeadlineMissed, match="wait for the application"):
            list(deliveries)
