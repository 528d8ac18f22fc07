"""Faults as words: "crash:1@5000", "cut:0,1@1000-9000". Times are ticks; δ is 1000 of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.faults import (
    Crash,
    Fault,
    Partition,
    Recover,
    Slow,
    WrongNomination,
    WrongSuspicion,
)
from shmcast.multicast.sim.random_faults import random_faults

RANDOM = "random"
FORMS = (
    "random (from the seed, within what the protocol tolerates), crash:P@T, crash:P@T+EFFECTS, "
    "recover:P@T, cut:P,P@T-T, slow:P@T-T*TICKS, suspect:P@T-T, nominate:G>P@T-T"
)

_Make = Callable[[re.Match[str]], Fault]


_KINDS: tuple[tuple[str, _Make], ...] = (
    (
        r"crash:(?P<p>\d+)@(?P<at>\d+)(\+(?P<effects>\d+))?",
        lambda m: Crash(int(m["p"]), int(m["at"]), int(m["effects"]) if m["effects"] else None),
    ),
    (r"recover:(?P<p>\d+)@(?P<at>\d+)", lambda m: Recover(int(m["p"]), int(m["at"]))),
    (
        r"cut:(?P<side>\d+(,\d+)*)@(?P<at>\d+)-(?P<until>\d+)",
        lambda m: Partition(
            frozenset(map(int, m["side"].split(","))), int(m["at"]), int(m["until"])
        ),
    ),
    (
        r"slow:(?P<p>\d+)@(?P<at>\d+)-(?P<until>\d+)\*(?P<ticks>\d+)",
        lambda m: Slow(int(m["p"]), int(m["at"]), int(m["until"]), int(m["ticks"])),
    ),
    (
        r"suspect:(?P<p>\d+)@(?P<at>\d+)-(?P<until>\d+)",
        lambda m: WrongSuspicion(int(m["p"]), int(m["at"]), int(m["until"])),
    ),
    (
        r"nominate:(?P<g>\d+)>(?P<p>\d+)@(?P<at>\d+)-(?P<until>\d+)",
        lambda m: WrongNomination(int(m["g"]), int(m["p"]), int(m["at"]), int(m["until"])),
    ),
)


def parse(texts: list[str], spec: Spec, topology: Topology, seed: int, span: int) -> list[Fault]:
    """Raises ValueError, with what can be written instead."""
    faults: list[Fault] = []
    for text in texts:
        if text == RANDOM:
            faults += _some(spec, topology, seed, span)
        else:
            faults.append(_one(text, topology))
    return faults


def _some(spec: Spec, topology: Topology, seed: int, span: int) -> tuple[Fault, ...]:
    """A third of random draws is empty; one who asks for faults wants some."""
    rng = Random(f"{seed}/faults")
    draws = (random_faults(spec, topology, rng, span) for _ in range(20))
    return next((drawn for drawn in draws if drawn), ())


def _one(text: str, topology: Topology) -> Fault:
    for pattern, make in _KINDS:
        found = re.fullmatch(pattern, text)
        if found is not None:
            _check(found, text, topology)
            return make(found)
    raise ValueError(f"no fault {text!r}; write one of: {FORMS}")


def _check(found: re.Match[str], text: str, topology: Topology) -> None:
    parts = found.groupdict()
    named = [parts["p"]] if parts.get("p") else (parts.get("side") or "").split(",")
    for process in filter(None, named):
        if int(process) not in topology.processes:
            last = max(topology.processes)
            raise ValueError(f"{text!r}: processes are 0 to {last}, group members first")
    if parts.get("g") and int(parts["g"]) >= len(topology.groups):
        raise ValueError(f"{text!r}: groups are 0 to {len(topology.groups) - 1}")
    if parts.get("until") and int(parts["until"]) <= int(parts["at"]):
        raise ValueError(f"{text!r} ends before it begins; write @FROM-UNTIL")
