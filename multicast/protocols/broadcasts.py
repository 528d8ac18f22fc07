"""Stacks of layers as protocols: the broadcasts of paper 004, each in a setting of its own.

    reliable          diffusion
    causal-blocking   diffusion, fifo, causal-blocking
    timed-causal-…    timed-diffusion, timed-total, fifo, causal-atomic

`spec_of` makes any sound composition of layers.py a protocol; the ones that have a name of their
own are registered below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from shmcast.multicast.protocols.atomic_from_consensus import AtomicFromConsensus
from shmcast.multicast.protocols.causal_atomic import (
    CausalAtomic,
    CausalAtomicAhead,
    CausalAtomicRecent,
)
from shmcast.multicast.protocols.causal_blocking import CausalBlocking
from shmcast.multicast.protocols.causal_nonblocking import CausalNonblocking
from shmcast.multicast.protocols.consensus import Consensus
from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.protocols.diffusion import Diffusion
from shmcast.multicast.protocols.fifo import Fifo
from shmcast.multicast.protocols.layers import SETTINGS, Setting, guarantees, strongest
from shmcast.multicast.protocols.registry import (
    Build,
    Options,
    Spec,
    Tolerates,
    minority,
    register,
)
from shmcast.multicast.protocols.stack import Module, Stack
from shmcast.multicast.protocols.synchrony import Synchrony
from shmcast.multicast.protocols.timed_diffusion import TimedDiffusion
from shmcast.multicast.protocols.timed_total import GRANULARITY, TimedTotal
from shmcast.multicast.protocols.topology import Topology

DELTA = 1000
EPSILON = 300
SKEW = 200  # the rest of ε is for drift in a long run
RHO_PPM = 100
ONE_MORE = GRANULARITY
"""DEVIATION: one tick of a slow clock is two of real time, so "at ts + Δ" would not be one instant.
Messages get one tick more than the broadcast below needs."""

SHAPES = (Topology.regular(1, 3), Topology.regular(1, 4))
BY_NAME = {setting.name: setting for setting in SETTINGS}
CONSENSUS = "consensus"


def tolerated(replicas: int) -> int:
    """Crashes or omitting processes; one correct process would have nobody to agree with."""
    return max(1, replicas - 2)


def synchrony_of(setting: Setting, replicas: int) -> Synchrony:
    f = tolerated(replicas)
    if not setting.skewed:
        return Synchrony(DELTA, f)
    return Synchrony(DELTA, f, rho_ppm=RHO_PPM, epsilon=EPSILON)


class Maker:
    """Makes the layers of one process, each knowing the name of the one below."""

    def __init__(
        self, process: ProcessId, topology: Topology, setting: Setting, options: Options
    ) -> None:
        self.process = process
        self.members = topology.groups[0]
        links = cast("Mapping[ProcessId, tuple[ProcessId, ...]]", options.get("links", {}))
        others = tuple(p for p in self.members if p != process)
        self.neighbours = links.get(process, others)
        default = synchrony_of(setting, len(self.members))
        self.synchrony = cast("Synchrony", options.get("synchrony", default))
        self.halts = bool(options.get("halts", True))

    def layer(self, name: str, below: str) -> Machine:
        makers: dict[str, Callable[[], Machine]] = {
            "diffusion": lambda: Diffusion(self.process, self.neighbours),
            "timed-diffusion": lambda: TimedDiffusion(
                self.process, self.neighbours, self.synchrony
            ),
            "fifo": lambda: Fifo(below),
            "causal-nonblocking": lambda: CausalNonblocking(below),
            "causal-blocking": lambda: CausalBlocking(below, self.members),
            "timed-total": lambda: TimedTotal(
                below, self.synchrony.local_bound_ticks + ONE_MORE, halts=self.halts
            ),
            "causal-atomic": lambda: CausalAtomic(below, self.members),
            "causal-atomic-recent": lambda: CausalAtomicRecent(below, self.members),
            "causal-atomic-ahead": lambda: CausalAtomicAhead(below, self.members),
            "atomic-from-consensus": lambda: AtomicFromConsensus(below, CONSENSUS),
        }
        return makers[name]()


Replace = Mapping[str, Callable[[Machine], Machine]]
"""What to put in the place of a layer; for broken variants."""


def builder(names: tuple[str, ...], setting: Setting, replace: Replace | None = None) -> Build:
    """Makes processes of these layers, bottom first."""

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        maker = Maker(process, topology, setting, options)
        modules: list[Module] = []
        below = ""
        for name in names:
            machine = maker.layer(name, below)
            if replace is not None and name in replace:
                machine = replace[name](machine)
            uses = (below,) if below else ()
            if name == "atomic-from-consensus":
                modules.append(Module(CONSENSUS, Consensus(process, maker.members)))
                uses = (*uses, CONSENSUS)
            modules.append(Module(name, machine, uses))
            below = name
        return Stack(modules[::-1])

    return build


def tolerates(names: tuple[str, ...], setting: Setting) -> Tolerates:
    free = not setting.synchronous
    return Tolerates(
        crashes_per_group=minority if "atomic-from-consensus" in names else tolerated,
        partitions=free,
        reordering=free and not setting.fifo_links,
        slow_processes=free,
        delay_max=DELTA if setting.synchronous else None,
        skew_max=SKEW if setting.skewed else 0,
        drift_ppm_max=RHO_PPM // 2 if setting.skewed else 0,
        omissions=setting.omissions,
        timing=names[0] == "timed-diffusion" and setting.omissions,
        suspicions="atomic-from-consensus" in names,
    )


def bound_of(names: tuple[str, ...], setting: Setting) -> Callable[[Topology], int]:
    def bound(topology: Topology) -> int:
        synchrony = synchrony_of(setting, len(topology.groups[0]))
        if names[0] == "diffusion":
            return synchrony.real_bound
        extra = ONE_MORE + GRANULARITY if "timed-total" in names else 0
        return synchrony.local_bound_ticks + extra

    return bound


def spec_of(names: tuple[str, ...], setting: Setting, name: str | None = None) -> Spec:
    props = guarantees(names, setting)
    assert props is not None, f"{' on '.join(reversed(names))} is unsound in setting {setting.name}"
    return Spec(
        name=name or f"{setting.name}: {' < '.join(names)}",
        build=builder(names, setting),
        promises=strongest(props),
        tolerates=tolerates(names, setting),
        shapes=SHAPES,
        bound=bound_of(names, setting) if setting.synchronous else None,
    )


FIFO = ("diffusion", "fifo")
FIFO_ATOMIC = ("timed-diffusion", "timed-total", "fifo")
NAMED: dict[str, tuple[tuple[str, ...], str]] = {
    "reliable": (("diffusion",), "crash"),
    "reliable-omission": (("diffusion",), "omission"),
    "reliable-timely": (("diffusion",), "sync-omission"),
    "causal-by-links": (("diffusion",), "crash-fifo-links"),
    "fifo-broadcast": (FIFO, "omission"),
    "causal-broadcast": ((*FIFO, "causal-blocking"), "crash"),
    "causal-broadcast-nonblocking": ((*FIFO, "causal-nonblocking"), "omission"),
    "timed-reliable": (("timed-diffusion",), "sync-omission"),
    "timed-atomic": (("timed-diffusion", "timed-total"), "sync-skewed"),
    "timed-fifo-atomic": (FIFO_ATOMIC, "sync-omission"),
    "timed-causal-atomic": ((*FIFO_ATOMIC, "causal-atomic"), "sync-skewed"),
    "timed-causal-atomic-recent": ((*FIFO_ATOMIC, "causal-atomic-recent"), "sync-skewed"),
    "timed-causal-atomic-ahead": ((*FIFO_ATOMIC, "causal-atomic-ahead"), "sync-omission"),
    "atomic-broadcast": (("diffusion", "atomic-from-consensus"), "crash"),
}
"""Layers, bottom first, and the setting of the campaign."""

for _name, (_layers, _setting) in NAMED.items():
    register(spec_of(_layers, BY_NAME[_setting], _name))
