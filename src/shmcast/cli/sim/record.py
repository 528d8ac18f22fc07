"""A simulated run as a recorded one: the same files, so the same tools read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shmcast.multicast.checks.trace import RECEIVE, MessageKey, Trace, TraceEvent
from shmcast.multicast.sim.run import Run

TICK_NS = 1000  # of virtual time: δ, by default 1000 ticks, is a millisecond
ORDERED = "ordered"
DONE = "Done"  # what the leader of a destination group tells the sender, in protocols that do


def write_run(directory: Path, run: Run) -> None:
    """Raises FileExistsError rather than mix two runs."""
    from shmcast.multicast.traces.convert import write_trace
    from shmcast.multicast.traces.run_info import RunInfo

    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: name a new directory for the trace")
    scenario = run.scenario
    topology = scenario.topology
    bound = None if scenario.spec.bound is None else scenario.spec.bound(topology)
    info = RunInfo(
        run=f"{scenario.spec.name}, seed {scenario.seed}",
        protocol=scenario.spec.name,
        groups=topology.groups,
        clients=topology.clients,
        names={process: topology.name(process) for process in topology.processes},
        promises=tuple(scenario.spec.promises),
        bound_ns=None if bound is None else bound * TICK_NS,
        meta={"time": f"virtual, a tick is {TICK_NS} ns"},
    )
    events = [_in_ns(event) for event in with_completions(run.trace)]
    write_trace(directory, info, replace(run.trace, events=events))


def _in_ns(event: TraceEvent) -> TraceEvent:
    return event._replace(real_t=event.real_t * TICK_NS, local_t=event.local_t * TICK_NS)


def with_completions(trace: Trace) -> list[TraceEvent]:
    """Adds a row behind the answer that tells a sender that the last group has ordered."""
    wanted = {e.msg: set(e.dest) for e in trace.events if e.kind == "multicast" and not e.layer}
    group_of = {p: g for g, members in enumerate(trace.groups) for p in members}
    found: list[TraceEvent] = []
    for event in trace.events:
        found.append(event)
        if event.kind != RECEIVE or event.detail != DONE or event.peer is None:
            continue
        found += [
            event._replace(kind=ORDERED, msg=m, peer=None, copy=None, about=(), detail="")
            for m in event.about
            if _completes(event, m, wanted, group_of)
        ]
    return found


def _completes(
    event: TraceEvent,
    message: MessageKey,
    wanted: dict[MessageKey | None, set[int]],
    group_of: dict[int, int],
) -> bool:
    missing = wanted.get(message)
    if not missing or message[0] != event.proc or event.peer is None:
        return False
    missing.discard(group_of.get(event.peer, -1))
    return not missing
