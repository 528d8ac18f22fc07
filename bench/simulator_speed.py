"""Question: how many protocol messages does the simulator handle per second, on one core?

Load: Skeen, or another protocol with groups of three; random multicasts to 1-4 groups, constant
delay, application events streamed into the certificate of order. Bound: 100,000 messages per
second. Of Skeen, messages to oneself, which cost less, are counted apart.

    PYTHONPATH=src python bench/simulator_speed.py [--protocol wbcast] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import time
from pathlib import Path

from shmcast.multicast.checks.streaming import Certificate
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate

REPEATS = 5


def sample(protocol: str, groups: int, multicasts: int, seed: int) -> dict[str, float]:
    topology = Topology.regular(groups, replicas=1 if protocol == "skeen" else 3, clients=10)
    certificate = Certificate(topology.groups)
    start = time.process_time()
    run = simulate(
        protocol,
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
    found: dict[str, float] = {
        "seed": seed,
        "messages": sent,
        "cpu_s": round(took_s, 3),
        "per_s": round(sent / took_s),
        "in_flight_max": certificate.pending_max,
    }
    if protocol == "skeen":
        to_self = run.sent["MulticastMsg"]  # each makes its receiver send itself one PROPOSE
        found["between_processes_per_s"] = round((sent - to_self) / took_s)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--protocol", default="skeen")
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--multicasts", type=int, default=20_000)
    parser.add_argument("--out", type=Path, help="the samples, as JSON")
    asked = parser.parse_args()
    where = {"python": platform.python_version(), "machine": platform.machine()}
    print(json.dumps({**where, "protocol": asked.protocol}))
    samples = []
    for seed in range(REPEATS):
        samples.append(sample(asked.protocol, asked.groups, asked.multicasts, seed))
        print(json.dumps(samples[-1]))
    for name in ("per_s", "between_processes_per_s"):
        rates = [row[name] for row in samples if name in row]
        if rates:
            print(f"{name}: median {statistics.median(rates):,.0f}, slowest {min(rates):,.0f}")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB at most")
    if asked.out:
        told = {**where, "protocol": asked.protocol, "groups": asked.groups, "samples": samples}
        asked.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
