"""How long does a killed leader hold up its clients? And does any of them hang?

Two groups of three, default settings, clients in closed loops to both. Again and again the leader
of one group, in turn, is killed with SIGKILL by its supervisor's back and started again; measured
is the time from the kill to the next delivery that any client is told of, and the longest that a
client waited. A client that is told nothing for HANG_S counts as hung.

    python bench/cluster_kills.py [--kills 50] [--clients 8] [--out bench/results/x]
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any

from cluster_run import PAYLOAD, Running, machine, table, write
from shmcast.errors import ShmcastError
from shmcast.multicast.run.cluster import Cluster
from shmcast.multicast.run.life import PeerLife

HANG_S = 30.0
TARGET_MS = 300.0


class Asking(threading.Thread):
    """A client in a closed loop, that asks again for what was not answered in time."""

    def __init__(self, cluster: Running) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.stop = threading.Event()
        self.answered: list[int] = []  # when, in ns
        self.longest_s = 0.0
        self.asked_ns = time.monotonic_ns()

    def run(self) -> None:
        with Cluster(self._cluster.config).client() as client:
            while not self.stop.is_set():
                self.asked_ns = time.monotonic_ns()
                ask = lambda: client.multicast(PAYLOAD, self._cluster.groups, timeout=2.0)  # noqa: E731
                while not self.stop.is_set():
                    try:
                        ask()
                        break
                    except (ShmcastError, TimeoutError):
                        ask = lambda: client.retry(timeout=2.0)  # noqa: E731
                now = time.monotonic_ns()
                self.longest_s = max(self.longest_s, (now - self.asked_ns) / 1e9)
                self.answered.append(now)

    @property
    def waits_s(self) -> float:
        return (time.monotonic_ns() - self.asked_ns) / 1e9


def leader_of(cluster: Running, group: int) -> str:
    members = cluster.config.topology.groups[group]
    shown = [PeerLife(cluster.config, process).read() for process in members]
    newest = max((one for one in shown if one), key=lambda one: (one.epoch, -one.leader))
    return cluster.config.replicas[newest.leader].name


def all_live(cluster: Running, lives: dict[str, int]) -> bool:
    for replica in cluster.config.replicas:
        life = PeerLife(cluster.config, replica.proc).read()
        wanted = lives.get(replica.name, 0)
        if life is None or life.incarnation < wanted or not life.has_begun:
            return False
    return True


def until(condition: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def measure(kills: int, clients: int) -> dict[str, Any]:
    gaps_ms: list[float] = []
    with Running("wbcast") as cluster:
        asking = [Asking(cluster) for _ in range(clients)]
        lives: dict[str, int] = {}
        for one in asking:
            one.start()
        try:
            for number in range(kills):
                before = [len(one.answered) for one in asking]
                until(lambda before=before: all(map(_more, asking, before)), HANG_S)
                name = leader_of(cluster, number % len(cluster.groups))
                at = time.monotonic_ns()
                cluster.kill(name)
                until(lambda at=at: _first_after(asking, at), HANG_S)
                gaps_ms.append(((_first_after(asking, at) or time.monotonic_ns()) - at) / 1e6)
                lives[name] = lives.get(name, 0) + 1
                cluster.start(name)
                until(lambda: all_live(cluster, lives), HANG_S)
            time.sleep(1.0)
            hung = sum(one.waits_s > HANG_S for one in asking)
        finally:
            for one in asking:
                one.stop.set()
            for one in asking:
                one.join(HANG_S)
        hung += sum(one.is_alive() for one in asking)
        return {
            "gaps_ms": [round(gap, 1) for gap in gaps_ms],
            "longest_wait_s": max(one.longest_s for one in asking),
            "hung": hung,
            "answered": sum(len(one.answered) for one in asking),
        }


def _more(one: Asking, before: int) -> bool:
    return len(one.answered) > before


def _first_after(asking: list[Asking], at: int) -> int | None:
    """The first answer to a request that was under way or made after the kill. One that was on its
    way back to its client already may come within a moment, so the second of all counts."""
    after = sorted(t for one in asking for t in one.answered[-50:] if t > at)
    return after[len(asking)] if len(after) > len(asking) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--out", type=Path, help="without its ending")
    args = parser.parse_args()
    found = measure(args.kills, args.clients)
    gaps = sorted(found["gaps_ms"])

    def at(share: float) -> str:
        return f"{gaps[min(len(gaps) - 1, int(len(gaps) * share))]:.0f}"

    p99 = float(at(0.99))
    rows: list[list[object]] = [
        [len(gaps), at(0.5), at(0.9), at(0.99), f"{gaps[-1]:.0f}",
         f"{found['longest_wait_s'] * 1e3:.0f}", found["hung"]]
    ]  # fmt: skip
    head = ["kills", "p50 ms", "p90 ms", "p99 ms", "max ms", "longest wait of a client ms", "hung"]
    word = "met" if p99 <= TARGET_MS and not found["hung"] else "not met"
    text = (
        "# A killed leader: until the clients go on\n\n"
        f"{machine()}; wbcast, 2 groups x 3 replicas, {args.clients} clients, default settings. "
        "`python bench/cluster_kills.py`.\n\n"
        f"{table(head, rows)}\n\n"
        f"Target, {TARGET_MS:.0f} ms at the 99th percentile and nobody hung: {word}. Counted is "
        "the time until as many answers have come as there are clients: the first few may have "
        "been on their way when the leader died. "
        f"{found['answered']:,} multicasts were answered.\n"
    )
    write(args.out, text, found)


if __name__ == "__main__":
    main()
