"""A client session that does not repeat: on the links of sim/weather.py it must lose messages."""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.protocols.core import Effect, Event, LocalTime, Machine, ProcessId, SetTimer
from shmcast.multicast.protocols.registry import Build, Options, Spec, lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.campaign import scenario_of
from shmcast.multicast.sim.mutants import MUTANT_MARK, mutant
from shmcast.multicast.sim.scenario import Scenario


class TriesOnce:
    def __init__(self, client: Machine) -> None:
        self.client = client

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        return [e for e in self.client.handle(event, now) if not isinstance(e, SetTimer)]


def clients_try_once(build: Build) -> Build:
    def build_one(process: ProcessId, topology: Topology, options: Options) -> Machine:
        machine = build(process, topology, options)
        return TriesOnce(machine) if process in topology.clients else machine

    return build_one


def in_weather(spec: Spec, seed: int) -> Scenario:
    """What the protocol itself gets from this seed, its weather too."""
    original = lookup(spec.name.split(MUTANT_MARK, maxsplit=1)[0])
    return replace(scenario_of(original, seed), spec=spec)


for _protocol in ("wbcast", "ft-skeen"):
    mutant(
        _protocol,
        "tries-once",
        "a client does not repeat what it sent",
        breaks="multicast-validity",
        seeds=60,
        build=clients_try_once(lookup(_protocol).build),
        scenarios=in_weather,
    )
