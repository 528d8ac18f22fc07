"""Question: how many protocol messages does the simulator handle per second, on one core?

Load: Skeen, random multicasts to 1-4 groups, constant delay, application events streamed into
the certificate of order. Bound: 100,000 messages per second; messages to oneself, which cost
less, are counted apart.

    PYTHONPATH=src python bench/simulator_speed.py [groups] [multicasts]
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import sys
import time

from shmcast.multicast.checks.streaming import Certificate
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate

REPEATS = 5


def sample(groups: int, multicasts: int, seed: int) -> dict[str, float]:
    topology = Topology.regular(groups, replicas=1, clients=10)
    certificate = Certificate(topology.groups)
    start = time.process_time()
    run = simulate(
        "skeen",
        topology=topology,
        messages=multicasts,
        dest_max=4,
        interval=3000 // groups,
        seed=seed,
        record=certificate,
        invariants=False,
    )
    took_s = time.process_time() - start
    assert not certificate.verdict(closed=run.trace.closed).violated
    sent = run.sent.total()
    to_self = run.sent["MulticastMsg"]  # each of them makes its receiver send itself one PROPOSE
    return {
        "seed": seed,
        "messages": sent,
        "cpu_s": round(took_s, 3),
        "per_s": round(sent / took_s),
        "between_processes_per_s": round((sent - to_self) / took_s),
        "in_flight_max": certificate.pending_max,
    }


def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    multicasts = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    print(json.dumps({"python": platform.python_version(), "machine": platform.machine()}))
    samples = [sample(groups, multicasts, seed) for seed in range(REPEATS)]
    for row in samples:
        print(json.dumps(row))
    for name in ("per_s", "between_processes_per_s"):
        rates = [row[name] for row in samples]
        print(f"{name}: median {statistics.median(rates):,.0f}, slowest {min(rates):,.0f}")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB at most")


if __name__ == "__main__":
    main()
