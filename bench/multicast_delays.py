"""Question: how do WbCast, FastCast and fault-tolerant Skeen compare in latency (paper 000 §VI)?

Load: 10 groups of 3 replicas; closed-loop clients that multicast to a fixed number of groups, as
in the paper, in its LAN (0.1 ms round trip) and in its WAN of three data centres. What a client
waits for: the first delivery in every destination group. Virtual time: steps take none, so only
message delays count; the paper's runs near saturation are CPU-bound and are not comparable.

    PYTHONPATH=src python bench/multicast_delays.py [clients] [multicasts per client]
"""

from __future__ import annotations

import statistics
import sys
from random import Random

from shmcast.multicast.protocols.core import Message, MessageId, ProcessId
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import PAPER_000_LAN, Delay, Uniform, paper_000_wan
from shmcast.multicast.sim.workload import Input, Submit

PROTOCOLS = ("wbcast", "fastcast", "ft-skeen")
GROUPS = 10
DESTINATIONS = (1, 2, 4, 6, 8, 10)
LAN = Uniform(PAPER_000_LAN.delta // 2, PAPER_000_LAN.delta * 3 // 2)
STAGGER_TICKS = 500
PATIENCE_TICKS = 10_000_000  # no crash happens: nobody should lose patience


class ClosedLoop:
    """Each client sends its next message when the last one has reached all its groups."""

    def __init__(self, topology: Topology, destinations: int, each: int, seed: int) -> None:
        self.topology = topology
        self.destinations = destinations
        self.left = dict.fromkeys(topology.clients, each)
        self.rng = Random(f"{seed}/closed loop")
        self.sent_at: dict[ProcessId, int] = {}
        self.missing: dict[MessageId, set[int]] = {}
        self.latencies: list[int] = []

    def first(self) -> list[Input]:
        """Not all at once: messages that start together collide in one way only."""
        starts = sorted(self.rng.randint(0, STAGGER_TICKS) for _ in self.topology.clients)
        pairs = zip(self.topology.clients, starts, strict=True)
        return [self.next(client, at) for client, at in pairs]

    def next(self, client: ProcessId, now: int) -> Submit:
        self.left[client] -= 1
        self.sent_at[client] = now
        dest = tuple(sorted(self.rng.sample(range(GROUPS), self.destinations)))
        return Submit(now, client, dest)

    def __call__(self, process: ProcessId, message: Message, now: int) -> list[Input]:
        missing = self.missing.setdefault(message.id, set(message.dest))
        if not missing:
            return []
        group = self.topology.group_of(process)
        missing.discard(-1 if group is None else group)
        if missing:
            return []
        client = message.id.sender
        self.latencies.append(now - self.sent_at[client])
        return [self.next(client, now)] if self.left[client] else []


def latency(protocol: str, delay: Delay, topology: Topology, k: int, each: int) -> list[int]:
    loop = ClosedLoop(topology, k, each, seed=k)
    simulate(
        protocol,
        topology=topology,
        inputs=loop.first(),
        delay=delay,
        seed=k,
        options={"retry_ticks": PATIENCE_TICKS, "patience_ticks": PATIENCE_TICKS},
        record=lambda event: None,
        invariants=False,
        on_deliver=loop,
    )
    assert len(loop.latencies) == each * len(topology.clients), f"{protocol}: some never arrived"
    return loop.latencies


def table(name: str, delay: Delay, topology: Topology, each: int) -> None:
    print(f"\n{name}: mean latency in ms (maximum), and as multiples of WbCast's")
    heads = "".join(f"{p:>22}" for p in PROTOCOLS)
    print(f"{'groups':>6}{heads}{'FastCast':>10}{'FT-Skeen':>10}")
    for k in DESTINATIONS:
        means: list[float] = []
        cells = ""
        for protocol in PROTOCOLS:
            found = latency(protocol, delay, topology, k, each)
            means.append(statistics.fmean(found) / 1000)
            cells += f"{means[-1]:>12.3f} ({max(found) / 1000:7.3f})"
        ratios = "".join(f"{mean / means[0]:>10.2f}" for mean in means[1:])
        print(f"{k:>6}{cells}{ratios}", flush=True)


def main() -> None:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    each = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    topology = Topology.regular(GROUPS, 3, clients)
    print(f"{GROUPS} groups of 3, {clients} clients, {each} multicasts each")
    table("LAN", LAN, topology, each)
    table("WAN", paper_000_wan(topology, jitter=0.05), topology, each)
    print("\npaper: WbCast faster than FastCast 1.2-3.5x in LAN, 1.1-3.1x in WAN, 2x on average")


if __name__ == "__main__":
    main()
