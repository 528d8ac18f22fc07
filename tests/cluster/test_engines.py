"""Every engine that sends messages, in the same loop: order, a killed leader, both deliveries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.replicas import replicas
from cluster.traffic import Traffic, judged
from helpers import wait_until
from shmcast.errors import Incompatible
from shmcast.multicast.run.node import Node


@pytest.mark.parametrize("engine", ["ft-skeen", "fastcast", "wbcast-acks"])
def test_a_killed_leader_is_followed_by_another(engine: str, tmp_path: Path) -> None:
    with replicas(tmp_path, engine, engine) as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        leader = cluster.leader(0)
        cluster.kill(leader)
        traffic.wait_for(20)
        judged(cluster, traffic, [r.name for r in cluster.config.replicas if r.name != leader])


def test_skeen_orders_groups_of_one(tmp_path: Path) -> None:
    with replicas(tmp_path, "skeen", "skeen", groups=3, size=1) as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(30)
        judged(cluster, traffic, ["g1.a", "g2.a"])


def test_a_replica_that_cannot_come_back_says_so(tmp_path: Path) -> None:
    with replicas(tmp_path, "noback", "fastcast", groups=1) as cluster:
        cluster.start_all()
        traffic = Traffic(cluster, ["g1"])
        traffic.wait_for(5)
        cluster.kill("g1.c")
        with pytest.raises(Incompatible, match="use wbcast"):
            Node(cluster.config, "g1.c")
        traffic.stop()


BOTH_LAYERS = """
import json, sys
from pathlib import Path

def log(node):
    seen = []
    try:
        for d in node.deliveries(optimistic=True):
            seen.append([d.optimistic, d.sender, d.sequence, *d.timestamp])
    finally:
        Path(__file__).with_name(sys.argv[2] + ".json").write_text(json.dumps(seen))
"""


def test_an_optimistic_delivery_comes_first_and_a_final_one_follows(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(BOTH_LAYERS)
    with replicas(tmp_path, "early", "optimistic", app="layers:log") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster)
        traffic.wait_for(20)
        traffic.stop()
        everyone = [r.name for r in cluster.config.replicas]
        cluster.wait_for_delivery(everyone, traffic.acknowledged[-1])
        assert set(cluster.stop_all()) == {0}
        assert cluster.verdicts() == {}
        orders = set()
        for name in everyone:
            seen = json.loads((tmp_path / f"{name}.json").read_text())
            early = [tuple(row[1:3]) for row in seen if row[0]]
            final = [tuple(row[1:3]) for row in seen if not row[0]]
            assert sorted(early) == sorted(final) and final == traffic.acknowledged
            for message in final:
                first = next(i for i, row in enumerate(seen) if tuple(row[1:3]) == message)
                assert seen[first][0], f"{name}: {message} is final before it is early"
            orders.add(tuple(final))
        assert len(orders) == 1


def test_who_does_not_ask_for_early_deliveries_gets_final_ones_only(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(BOTH_LAYERS.replace("optimistic=True", ""))
    with replicas(tmp_path, "final", "optimistic", groups=1, app="layers:log") as cluster:
        cluster.start_all()
        traffic = Traffic(cluster, ["g1"])
        traffic.wait_for(5)
        traffic.stop()
        cluster.wait_for_delivery(["g1.a"], traffic.acknowledged[-1])
        cluster.stop_all()
        wait_until((tmp_path / "g1.a.json").exists, "the log is written")
        seen = json.loads((tmp_path / "g1.a.json").read_text())
        assert [tuple(row[1:3]) for row in seen] == traffic.acknowledged
        assert not any(row[0] for row in seen)
