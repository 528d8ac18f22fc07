"""What a recorded run of a cluster says of itself."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shmcast.multicast.checks.table import REJOIN, TIMED
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.run.child import ABOUT_TRACE
from shmcast.multicast.run.config import ClusterConfig

if TYPE_CHECKING:
    from shmcast.multicast.traces.run_info import RunInfo
    from shmcast.multicast.traces.writer import TraceWriter

ORDERED = "ordered"  # at the client: it was told; pipeline/latency.py measures up to here
NS_PER_TICK = 1000
_PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
)


def run_info(config: ClusterConfig) -> RunInfo:
    """Genuineness is left out: transmissions are not recorded; and so is what a later life owes:
    the transfer of a state is not on record. No engine promises a time where others use the
    machine, too: a run is judged by Δ if the file states one (`bound_ms`)."""
    from shmcast.multicast.traces.run_info import RunInfo

    promises: tuple[str, ...] = _PROMISES
    if config.engine != "eager":
        promised = lookup(config.engine).promises
        left_out = {"genuineness", "termination", *TIMED, *REJOIN}
        promises = tuple(p for p in promised if p not in left_out)
    bound_ns = config.options.get("bound_ticks", 0) * NS_PER_TICK
    if bound_ns:
        promises = (*promises, "real-time")
    return RunInfo(
        run=config.name,
        protocol=config.engine,
        groups=config.topology.groups,
        names={replica.proc: replica.name for replica in config.replicas},
        promises=promises,
        bound_ns=bound_ns or None,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class Recorder:
    """The record of one life. Whatever happens to it, what it records goes on: trouble is told on
    stderr, where `shmcast status` finds it, and counted."""

    def __init__(self, writer: TraceWriter, name: str) -> None:
        self.event = writer.event
        self._writer, self._name = writer, name
        self._told = False
        self._unseen = 0  # crashes of others that could not be put on record

    @property
    def lost(self) -> int:
        return self._writer.lost + self._unseen

    def witness_crash(self, process: int, incarnation: int) -> None:
        try:
            self._writer.witness_crash(process, incarnation)
        except OSError as error:
            self._unseen += 1
            self._tell(error)

    def look(self) -> None:
        """Tells of events that could not be recorded, once."""
        if self._writer.lost and not self._told:
            self._tell(self._writer.failure or OSError("the disk does not keep up"))

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            tell_of_trace(self._name, f"{self.lost} events are missing: {error}")

    def close(self, orderly: bool = True) -> None:
        try:
            self._writer.close(orderly)
        except OSError as error:  # TimeoutError is one
            self._tell(error)


def tell_of_trace(name: str, what: str) -> None:
    print(f"{name}: {ABOUT_TRACE}: {what}", file=sys.stderr, flush=True)


def recorder(
    config: ClusterConfig, process: int, incarnation: int = 0, name: str = "client"
) -> Recorder | None:
    """None: this life is not recorded. Parquet is brought in only where it is."""
    if config.trace is None:
        return None
    from shmcast.multicast.traces.writer import TraceWriter

    try:
        writer = TraceWriter(config.trace, run_info(config), process, incarnation)
    except OSError as error:
        tell_of_trace(name, f"life {incarnation} of process {process} is not recorded: {error}")
        return None
    return Recorder(writer, name)


def end_of_client(trace: Recorder, client: int, *, gave_up: bool) -> None:
    """One that leaves without waiting for its answer counts as one that crashed: whether its
    request is delivered is open, and no promise is broken either way."""
    if gave_up:
        trace.witness_crash(client, 0)
    trace.close(orderly=not gave_up)
