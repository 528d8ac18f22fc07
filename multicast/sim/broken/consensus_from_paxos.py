"""Consensus over a log with one mistake each."""

from __future__ import annotations

from shmcast.multicast.protocols.consensus import Instance
from shmcast.multicast.protocols.consensus_from_paxos import NAME, ConsensusFromPaxos, builder
from shmcast.multicast.protocols.core import Effect
from shmcast.multicast.sim.mutants import mutant


class DecidesAtOnce(ConsensusFromPaxos):
    def on_propose(self, instance: Instance, value: object) -> list[Effect]:
        return [*super().on_propose(instance, value), *self.on_entry(instance, value)]


class NeverTakesOver(ConsensusFromPaxos):
    def on_leads(self) -> list[Effect]:
        return []


MUTANTS = (
    ("decides-at-once", "decides what it proposes", "uniform-total", 10, DecidesAtOnce),
    ("never-takes-over", "a new leader appends nothing", "validity", 60, NeverTakesOver),
)

for _name, _differs, _breaks, _seeds, _kind in MUTANTS:
    mutant(NAME, _name, _differs, breaks=_breaks, seeds=_seeds, build=builder(_kind))
