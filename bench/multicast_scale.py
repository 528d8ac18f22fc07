"""Question: how large a simulation fits into memory, and how fast is it?

Load: WbCast, 1,000 groups of 3 replicas, a million random multicasts, one in ten to two groups and
the rest to one, constant delay. Application events go into the streaming certificate of order
(checks/streaming.py), nothing is kept. Wanted: 100,000 protocol messages per second of one core,
which WbCast misses by far (results/multicast-scale.json; Skeen: simulator_speed.py);
memory that does not grow with the number of multicasts.

    python bench/multicast_scale.py [--groups N] [--multicasts N] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from shmcast.multicast.checks.streaming import Certificate
from shmcast.multicast.checks.trace import TraceEvent
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.workload import Submit

REPLICAS = 3
CLIENTS = 100
TICKS_BETWEEN = 10_000  # two multicasts that start at one group, on average
SHARED = 0.1  # of the multicasts go to two groups
GC_THRESHOLD = 200_000  # nothing here is cyclic and short-lived; looking for it costs a tenth
KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Sample:
    protocol: str
    groups: int
    multicasts: int
    deliveries: int
    protocol_messages: int
    cpu_s: float
    messages_per_s: int
    peak_mib: int  # resident, at the end
    peak_mib_at_quarter: int  # when a quarter of the multicasts had been made
    in_flight_max: int
    verdict: str


def measure(groups: int, multicasts: int, *, protocol: str = "wbcast", seed: int = 1) -> Sample:
    topology = Topology.regular(groups, REPLICAS, CLIENTS)
    certificate = Certificate(topology.groups)
    quarter: list[int] = []
    watch = _watching(certificate, multicasts // 4, quarter)
    start = time.process_time()
    run = simulate(
        protocol,
        topology=topology,
        inputs=load(topology, multicasts, seed),
        seed=seed,
        record=watch,
        invariants=False,
    )
    took_s = time.process_time() - start
    sent = run.sent.total()
    return Sample(
        protocol=protocol,
        groups=groups,
        multicasts=multicasts,
        deliveries=certificate.deliveries,
        protocol_messages=sent,
        cpu_s=round(took_s, 1),
        messages_per_s=round(sent / took_s),
        peak_mib=_peak_mib(),
        peak_mib_at_quarter=quarter[0],
        in_flight_max=certificate.pending_max,
        verdict=certificate.verdict(closed=run.trace.closed).outcome.value,
    )


def load(topology: Topology, multicasts: int, seed: int) -> Iterator[Submit]:
    """Never held as a whole."""
    rng = Random(f"{seed}/scale")
    groups, now = len(topology.groups), 0
    for _ in range(multicasts):
        now += rng.randint(0, 2 * max(1, TICKS_BETWEEN // groups))
        count = 2 if rng.random() < SHARED else 1
        dest = tuple(sorted(rng.sample(range(groups), count)))
        yield Submit(now, rng.choice(topology.clients), dest)


def _watching(
    certificate: Certificate, after: int, quarter: list[int]
) -> Callable[[TraceEvent], None]:
    made = 0

    def watch(event: TraceEvent) -> None:
        nonlocal made
        certificate(event)
        if event.kind == "multicast":
            made += 1
            if made == after:
                quarter.append(_peak_mib())

    return watch


def _peak_mib() -> int:
    """Of this program alone: ru_maxrss begins with that of whoever started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // KIB_PER_MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--multicasts", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    gc.set_threshold(GC_THRESHOLD)
    sample = asdict(measure(options.groups, options.multicasts))
    found = {"python": platform.python_version(), "machine": platform.machine(), **sample}
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
