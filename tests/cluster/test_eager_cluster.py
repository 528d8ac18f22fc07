"""Engine `eager` through shmcast.Cluster and the replica's own program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import SHM, wait_until

from shmcast.errors import NoQuorum
from shmcast.multicast.run.cluster import Cluster

pytestmark = pytest.mark.timeout(90)

APP = """
def run(node):
    with open(node.name + ".log", "w") as log:
        for d in node.deliveries():
            print(*d.timestamp, d.payload.decode(), file=log, flush=True)
"""


def test_replicas_as_programs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    file = tmp_path / "cluster.toml"
    name = f"t{os.getpid()}-programs"
    file.write_text(
        f'[cluster]\nname = "{name}"\napp = "app:run"\n[groups]\ng1 = ["a", "b"]\ng2 = ["a"]\n'
    )
    cluster = Cluster.load(file)
    assert cluster.config.engine == "eager"  # all on one host
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "shmcast.multicast.run.replica", str(file), replica.name],
            cwd=tmp_path,
        )
        for replica in cluster.config.replicas
    ]
    try:
        with cluster.client() as client:
            done = [client.multicast(b"%d" % n, ["g1", "g2"], timeout=60) for n in range(100)]
        wanted = "".join(f"{d.timestamp.time} {d.timestamp.tie} {n}\n" for n, d in enumerate(done))
        for replica in cluster.config.replicas:
            log = tmp_path / f"{replica.name}.log"
            wait_until(lambda log=log: log.read_text() == wanted, f"{log.name} is whole")
        for program in programs:
            program.send_signal(signal.SIGTERM)
        assert [program.wait(30) for program in programs] == [0, 0, 0]
        with cluster.client() as client, pytest.raises(NoQuorum):
            client.multicast(b"", ["g1"], timeout=0)
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert not list(SHM.glob(f"shmcast.{name}.*"))
