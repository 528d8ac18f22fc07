"""A trace in memory, as the simulator makes them, into the files of a recorded run."""

from __future__ import annotations

from pathlib import Path

from shmcast.multicast.checks.trace import CRASH, END, START, Participant, Trace, TraceEvent
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import life_directory, table_of
from shmcast.multicast.traces.writer import write_table


def write_trace(directory: str | Path, info: RunInfo, trace: Trace) -> None:
    """One part per life. Every process has a life, also one that did nothing."""
    info.write(directory)
    lives: dict[Participant, list[TraceEvent]] = {(p, 0): [] for p in sorted(trace.processes())}
    for event in trace.events:
        lives.setdefault(event.participant, []).append(event)
    for (process, incarnation), events in lives.items():
        life = life_directory(Path(directory), process, incarnation)
        life.mkdir(mode=0o700, parents=True, exist_ok=True)
        rows = framed(process, incarnation, events, ended=trace.closed)
        write_table(life / "part-00000.parquet", table_of(rows))


def framed(
    process: int, incarnation: int, events: list[TraceEvent], *, ended: bool
) -> list[TraceEvent]:
    """A life as a writer would have put it down: its start first, numbers from 1, its end."""
    began = events[0].real_t if events else 0
    start = TraceEvent(-1, began, began, process, incarnation, 1, START)
    rows = [start, *(event._replace(lseq=n) for n, event in enumerate(events, 2))]
    crashed = any(event.kind == CRASH for event in events)
    if ended and not crashed:
        last = rows[-1]
        rows.append(start._replace(kind=END, real_t=last.real_t, local_t=last.local_t))
        rows[-1] = rows[-1]._replace(lseq=len(rows))
    return rows
