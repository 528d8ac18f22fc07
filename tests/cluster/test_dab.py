"""Engine `dab` in real processes: replicas join, leave, are held up, and come back."""

from __future__ import annotations

from pathlib import Path

from cluster.chaos import Chaos
from helpers import wait_until
from shmcast.multicast.traces.reader import read_record

# Wide, so that a busy machine holds nobody up for longer; a join takes eight times as long.
DELTA_MS = 800


def test_replicas_leave_and_join_and_one_that_was_held_up_joins_anew(
    tmp_path: Path, name: str
) -> None:
    options = f"delta_ms = {DELTA_MS}\ntheta_ms = 20"
    with Chaos(
        tmp_path, name, "dab", groups=1, clients=2, seed=6, recorded=True, options=options
    ) as chaos:
        wait_until(
            lambda: all(chaos.delivered(one, pid) for one, pid in chaos.pids().items()),
            "everybody has joined",
        )
        chaos.restart("g1.b")
        chaos.kill("g1.a")
        chaos.stop("g1.c", for_s=2 * DELTA_MS / 1000, ends=True)
        found = chaos.finish()
    assert found == [], chaos.events
    events = read_record(tmp_path / "run").trace.events
    left = [e.incarnation for e in events if e.kind == "leave-ok" and e.proc == 1]
    joined = [(e.proc, e.incarnation) for e in events if e.kind == "join-ok"]
    assert left and (1, min(left) + 1) in joined
    assert max(life for process, life in joined if process == 2) >= 1, "it was late and went on"
    assert sum(map(len, chaos.acked())) > 0
