"""A short run under fire for each engine; `make soak` has the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

import shmcast
from cluster.chaos import Chaos

pytestmark = pytest.mark.skipif(
    not hasattr(shmcast, "Cluster"), reason="there is no runtime for clusters in this version"
)
ENGINES = ["wbcast", "wbcast-acks"]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(
    engine: str, tmp_path: Path, name: str
) -> None:
    with Chaos(tmp_path, name, engine, clients=2, seed=3, recorded=True) as chaos:
        chaos.kill("g1.a")
        chaos.stop("g2.a", for_s=0.5)
        chaos.run(3.0)
        found = chaos.finish()
    assert found == [], chaos.events
    assert sum(map(len, chaos.acked())) > 0


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_a_rolling_restart_of_a_group_loses_nothing_and_stops_nobody(
    engine: str, tmp_path: Path, name: str
) -> None:
    with Chaos(tmp_path, name, engine, clients=2, seed=4, recorded=True) as chaos:
        for replica in ("g1.b", "g1.c", "g1.a"):
            chaos.restart(replica)
        found = chaos.finish()
    assert found == [], chaos.events
