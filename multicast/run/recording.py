"""What a recorded run of a cluster says of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shmcast.multicast.checks.table import REJOIN, TIMED
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.run.config import ClusterConfig

if TYPE_CHECKING:
    from shmcast.multicast.traces.run_info import RunInfo
    from shmcast.multicast.traces.writer import TraceWriter

_PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
)


def run_info(config: ClusterConfig) -> RunInfo:
    """Genuineness is left out: transmissions are not recorded; and so is what needs a time bound:
    none is stated for a machine that others use too. So is what a later life owes: the transfer of
    a state is not on record."""
    from shmcast.multicast.traces.run_info import RunInfo

    promises: tuple[str, ...] = _PROMISES
    if config.engine != "eager":
        promised = lookup(config.engine).promises
        left_out = {"genuineness", "termination", *TIMED, *REJOIN}
        promises = tuple(p for p in promised if p not in left_out)
    return RunInfo(
        run=config.name,
        protocol=config.engine,
        groups=config.topology.groups,
        names={replica.proc: replica.name for replica in config.replicas},
        promises=promises,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def recorder(config: ClusterConfig, process: int, incarnation: int = 0) -> TraceWriter | None:
    """None: this cluster is not recorded. Parquet is brought in only where it is."""
    if config.trace is None:
        return None
    from shmcast.multicast.traces.writer import TraceWriter

    return TraceWriter(config.trace, run_info(config), process, incarnation)


def end_of_client(trace: TraceWriter, client: int, *, gave_up: bool) -> None:
    """One that leaves without waiting for its answer counts as one that crashed: whether its
    request is delivered is open, and no promise is broken either way."""
    if gave_up:
        trace.witness_crash(client, 0)
    trace.close(orderly=not gave_up)
