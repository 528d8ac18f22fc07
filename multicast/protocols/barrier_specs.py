"""The protocols of paper 002 under their names: modules put together, and what they promise."""

from __future__ import annotations

from functools import wraps
from typing import TypeVar, cast

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_entries import Barrier, Entry
from shmcast.multicast.protocols.baseline import Baseline
from shmcast.multicast.protocols.core import Machine, ProcessId
from shmcast.multicast.protocols.fr_mcast import FrMcast
from shmcast.multicast.protocols.group_log import Ballot, GroupLog
from shmcast.multicast.protocols.optimistic import Optimistic
from shmcast.multicast.protocols.registry import (
    Build,
    Invariant,
    Options,
    Spec,
    Tolerates,
    World,
    minority,
    register,
)
from shmcast.multicast.protocols.stack import Module, Stack
from shmcast.multicast.protocols.topology import Topology

TOP = "top"
Kind = TypeVar("Kind")


def build_with(
    top: type[Baseline],
    defaults: Options | None = None,
    fr: type[FrMcast] = FrMcast,
    log: type[GroupLog] = GroupLog,
) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        g = topology.group_of(process)
        assert g is not None, "paper 002 §2.1: every process is a member of a group"
        config = Config.of(topology, {**(defaults or {}), **options})
        return Stack(
            [
                Module(TOP, top(topology, process, g, config), ("fr", "log")),
                Module("fr", fr(topology, process, g)),
                Module("log", log(topology, process, g)),
            ]
        )

    return build


def log_grows_in_timestamp(world: World) -> None:
    """§3.2: "if a process in g decides m before m′, then m.ts < m′.ts"; barriers may repeat."""
    for log in _modules_of_step(world, "log", GroupLog):
        if len(log.state.log) < 2:
            continue
        before, after = (cast("Entry", slot.value) for slot in log.state.log[-2:])
        grows = before.ts < after.ts or (before.ts == after.ts and isinstance(after, Barrier))
        assert grows, f"{before} is decided before {after}"


def logs_of_one_ballot_agree(world: World) -> None:
    """What fixes timestamps and places: of two logs of one ballot, one is a prefix of the other."""
    for mine in _modules_of_step(world, "log", GroupLog):
        for process in world.topology.groups[mine.state.g]:
            stack = world.machines.get(process)
            theirs = stack["log"] if isinstance(stack, Stack) else mine
            assert isinstance(theirs, GroupLog)
            shared = min(len(mine.state.log), len(theirs.state.log))
            if mine.state.cbal == theirs.state.cbal and shared:
                same = mine.state.log[shared - 1] == theirs.state.log[shared - 1]
                assert same, f"two logs of {mine.state.cbal}"


def when_the_log_changes(invariant: Invariant) -> Invariant:
    """Most steps leave the log alone; looking again costs a quarter of a campaign."""
    seen: dict[ProcessId, tuple[Ballot, int]] = {}

    @wraps(invariant)
    def checked(world: World) -> None:
        for log in _modules_of_step(world, "log", GroupLog):
            now = (log.state.cbal, len(log.state.log))
            if seen.get(log.state.me) != now:
                seen[log.state.me] = now
                invariant(world)

    return checked


def _modules_of_step(world: World, name: str, kind: type[Kind]) -> list[Kind]:
    """Of the process that made the last step, unless that step was its last."""
    assert world.step is not None
    stack = world.machines.get(world.step.process)
    module = stack[name] if isinstance(stack, Stack) else None
    return [module] if isinstance(module, kind) else []


PROMISES = (
    "multicast-validity",
    "termination",
    "uniform-agreement",
    "uniform-integrity",
    "uniform-global-fifo",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
)

OPTIMISTIC_PROMISES = (
    "optimistic-validity",
    "optimistic-agreement",
    "optimistic-integrity",
    "optimistic-fifo",
)

TOLERATES = Tolerates(
    crashes_per_group=minority,
    partitions=True,
    skew_max=2000,
    drift_ppm_max=200,
    nominations=True,
)
SHAPES = (
    Topology.regular(groups=2, replicas=1),
    Topology.regular(groups=4, replicas=1),
    Topology.regular(groups=1, replicas=3),
    Topology.regular(groups=2, replicas=3),
    Topology.regular(groups=3, replicas=3),
)
INVARIANTS = (log_grows_in_timestamp, logs_of_one_ballot_agree)
NULL_TICKS = 15_000  # Δ of §3.4
# Cuts and slow links end, and then a null message comes. A new leader needs five messages in a
# row, each of which may wait on a slow link: a run that is cut off before is no stuck one.
SETTLE_TICKS = 800_000


def spec(
    name: str,
    top: type[Baseline],
    options: Options,
    promises: tuple[str, ...] = PROMISES,
    settle_ticks: int | None = None,
) -> Spec:
    return register(
        Spec(
            name=name,
            build=build_with(top, options),
            promises=promises,
            tolerates=TOLERATES,
            shapes=SHAPES,
            invariants=lambda: [when_the_log_changes(invariant) for invariant in INVARIANTS],
            settle_ticks=settle_ticks,
        )
    )


BASELINE = spec("baseline", Baseline, {})
BASELINE_NULL = spec("baseline-null", Baseline, {"null_ticks": NULL_TICKS}, PROMISES, SETTLE_TICKS)
OPTIMISTIC_SPEC = spec("optimistic", Optimistic, {}, (*PROMISES, *OPTIMISTIC_PROMISES))
# Nobody is a sender to another group at first: every pair has to join (§5).
OPTIMISTIC_SPARSE = spec(
    "optimistic-sparse", Optimistic, {"sparse": True}, (*PROMISES, *OPTIMISTIC_PROMISES)
)
