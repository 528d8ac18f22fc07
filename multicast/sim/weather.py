"""Links that lose and repeat, clocks that change their pace: for protocols that bear it.

Papers 000, 002 and 003 assume reliable links, and 004 that nothing arrives twice, so hardly a
protocol's own model permits a lost message or a second copy. Three things here do:

- client sessions repeat a message until every group has answered, and members answer a repeated
  one, so the links of clients may lose, repeat and reorder; those between members may not;
- diffusion asks whether a copy is the first, and consensus counts voters, not votes, so their links
  may repeat;
- clocks may change their rate within the drift that is tolerated, and jump where no bound on delays
  is counted on: then only the order of their readings matters.

docs/protocols.md says why the others get none of it. Drawn apart from the other faults, so that the
rest of a scenario is the same with and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.faults import ClockFault, Disturbance, Fault, Partition
from shmcast.multicast.sim.mutants import MUTANT_MARK

SESSIONS = {"wbcast", "wbcast-acks", "ft-skeen", "fastcast"}
COUNT_NO_COPY = {
    "reliable",
    "reliable-omission",
    "reliable-timely",
    "causal-by-links",
    "fifo-broadcast",
    "causal-broadcast",
    "causal-broadcast-nonblocking",
    "timed-reliable",
    "timed-atomic",
    "timed-fifo-atomic",
    "timed-causal-atomic",
    "timed-causal-atomic-recent",
    "timed-causal-atomic-ahead",
    "atomic-broadcast",
    "consensus",
    "consensus-from-atomic",
    "consensus-from-timed-atomic",
}
SHARE = 0.5  # of the runs
LATE_MAX = 3000  # ticks that a second copy is late, at most


def weather(spec: Spec, topology: Topology, seed: int, span: int) -> tuple[Fault, ...]:
    """What begins within `span` ticks. A mutant gets none: its seeds are those of its mistake."""
    rng = Random(f"{seed}/weather")
    if rng.random() >= SHARE:
        return ()
    return (
        *_client_links(spec, topology, rng, span),
        *_copies(spec, rng, span),
        *_clocks(spec, topology, rng, span),
    )


def _window(rng: Random, span: int) -> tuple[int, int]:
    at = rng.randint(0, span)
    return at, at + rng.randint(1, max(1, span // 2))


def _client_links(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    if spec.name not in SESSIONS or not topology.clients:
        return
    client = rng.choice(topology.clients)
    if rng.random() < 0.3:
        one_way = rng.random() < 0.5
        yield Partition(frozenset({client}), *_window(rng, span), one_way=one_way, drop=True)
        return
    at, until = _window(rng, span)
    for src, dst in ((client, None), (None, client)):
        loss, copies, overtaking = rng.uniform(0, 0.5), rng.uniform(0, 0.5), rng.uniform(0, 0.5)
        yield Disturbance(at, until, loss, copies, overtaking, LATE_MAX, src, dst)


def _copies(spec: Spec, rng: Random, span: int) -> Iterator[Fault]:
    if spec.name in COUNT_NO_COPY:
        share = rng.uniform(0, 0.5)
        yield Disturbance(*_window(rng, span), duplication=share, jitter=LATE_MAX)


def _clocks(spec: Spec, topology: Topology, rng: Random, span: int) -> Iterator[Fault]:
    allowed = spec.tolerates
    if not allowed.drift_ppm_max or MUTANT_MARK in spec.name:
        return
    for process in rng.sample(topology.processes, rng.randint(1, len(topology.processes))):
        drift = rng.randint(-allowed.drift_ppm_max, allowed.drift_ppm_max)
        reach = allowed.skew_max // 2 if allowed.delay_max is None else 0
        jump = rng.randint(-reach, reach)
        yield ClockFault(process, rng.randint(0, span), jump, drift, faulty=False)
