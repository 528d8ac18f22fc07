"""Reads a recorded run, and says how far the record can be trusted.

A process may be missing, a file damaged, rows lost, the run still going on: what such a record
lacks is named, so that no verdict on it claims more than it shows (checks/settle.py).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from shmcast.errors import Corrupt
from shmcast.multicast.checks.trace import (
    CRASH,
    END,
    FAULT,
    LOST,
    Gaps,
    Participant,
    Trace,
    TraceEvent,
)
from shmcast.multicast.traces.order import in_causal_order
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import (
    SCHEMA,
    WITNESS_LSEQ,
    Part,
    check_version,
    parts,
    rows_of,
)


@dataclass(frozen=True, slots=True)
class Life:
    """What decides whether a life's record is whole; Spark computes the same of large runs."""

    proc: int
    incarnation: int
    rows: int  # its own, without those of witnesses
    last_lseq: int  # of its own; 0 if there are none
    ended: bool  # in order, or it told its own crash, as the simulator does: nothing is missing
    killed: bool  # as a witness saw it: what it did last may never have reached the disk
    lost: bool
    failed: bool  # a crash or another fault of it is on record


@dataclass(frozen=True, slots=True)
class Record:
    info: RunInfo
    trace: Trace

    @property
    def gaps(self) -> Gaps:
        return self.trace.gaps


def gaps_of(info: RunInfo, lives: Iterable[Life], unreadable: Iterable[Part] = ()) -> Gaps:
    lives = list(lives)
    holes = {part.proc: f"{part.path.name} is damaged" for part in unreadable}
    by_process: dict[int, list[Life]] = defaultdict(list)
    for life in lives:
        by_process[life.proc].append(life)
    for process in info.members:
        if process not in by_process:
            holes.setdefault(process, "nothing is on record of it")
    cut: set[Participant] = set()
    still_open: set[Participant] = set()
    for process, its in by_process.items():
        if {life.incarnation for life in its} != set(range(len(its))):
            holes.setdefault(process, "a whole life of it is missing")
        for life in its:
            participant = (process, life.incarnation)
            if life.lost:
                holes.setdefault(process, "rows were lost when they were recorded")
            elif life.last_lseq != life.rows:
                holes.setdefault(process, "a part of its record is missing")
            if life.ended:
                continue
            (cut if life.killed else still_open).add(participant)
    return Gaps(holes, frozenset(cut), frozenset(still_open))


def lives_of(rows: Iterable[TraceEvent]) -> list[Life]:
    by_life: dict[Participant, list[TraceEvent]] = defaultdict(list)
    for row in rows:
        by_life[row.participant].append(row)
    found = []
    for (process, incarnation), its in by_life.items():
        own = [row for row in its if row.lseq < WITNESS_LSEQ]
        kinds = {row.kind for row in own}
        found.append(
            Life(
                process,
                incarnation,
                len(own),
                max((row.lseq for row in own), default=0),
                END in kinds or CRASH in kinds,
                len(own) < len(its),
                LOST in kinds,
                not kinds.isdisjoint((CRASH, FAULT)) or len(own) < len(its),
            )
        )
    return found


def read_part(part: Part) -> Any:
    """An Arrow table of SCHEMA. Raises Corrupt or Incompatible."""
    with _opened(part) as file:
        table = file.read()
    try:
        table = table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise _corrupt(part, f"other columns than a trace has: {error}") from None
    for column, told in (("proc", part.proc), ("incarnation", part.incarnation)):
        if set(table.column(column).unique().to_pylist()) - {told}:
            raise _corrupt(part, f"its rows are not of {column} {told}")
    return table


class Span(NamedTuple):
    """Which rows a file holds, by `lseq`."""

    rows: int
    first: int
    last: int


def check_footer(part: Part) -> Span:
    """Cheap: does this file have its end, is it of this version, and of this life?"""
    with _opened(part) as file:
        names = file.schema_arrow.names
        missing = [name for name in SCHEMA.names if name not in names]
        if missing:
            raise _corrupt(part, f"other columns than a trace has: {missing[0]} is missing")
        for column, told in (("proc", part.proc), ("incarnation", part.incarnation)):
            if not _holds_only(file, column, told):
                raise _corrupt(part, f"its rows are not of {column} {told}")
        return _span(file)


def _span(file: Any) -> Span:
    at, numbers = file.schema_arrow.names.index("lseq"), []
    for group in range(file.metadata.num_row_groups):
        known = _statistics(file, group, at, "lseq")
        if known is not None:
            numbers += [known.min, known.max]
        else:
            numbers += file.read_row_group(group, ["lseq"])["lseq"].to_pylist()
    return Span(file.metadata.num_rows, min(numbers, default=0), max(numbers, default=0))


def _statistics(file: Any, group: int, at: int, column: str) -> Any:
    # In Parquet's own count a nested column before these would shift them.
    chunk = file.metadata.row_group(group).column(at)
    known = chunk.statistics if chunk.path_in_schema == column else None
    return known if known is not None and known.has_min_max else None


def _holds_only(file: Any, column: str, value: int) -> bool:
    """By the file's own statistics, or by its rows if it has none."""
    at = file.schema_arrow.names.index(column)
    for group in range(file.metadata.num_row_groups):
        known = _statistics(file, group, at, column)
        if known is not None:
            if (known.min, known.max) != (value, value):
                return False
        elif set(file.read_row_group(group, [column])[column].unique().to_pylist()) - {value}:
            return False
    return True


@contextlib.contextmanager
def _opened(part: Part) -> Iterator[Any]:
    try:
        with pq.ParquetFile(part.path) as file:
            check_version(file.schema_arrow.metadata, part.path)
            yield file
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, EOFError, OSError) as error:  # Arrow says OSError of bad bytes
        raise _corrupt(part, str(error)) from None


def _corrupt(part: Part, why: str) -> Corrupt:
    first = why.splitlines()[0] if why else "unreadable"
    return Corrupt(f"{part.path} is damaged ({first}): restore it, or remove it to check the rest")


def read_record(directory: str | Path, *, strict: bool = False) -> Record:
    """The whole run in memory. A damaged file is a hole in the record; `strict` raises it."""
    info = RunInfo.read(directory)
    rows: list[TraceEvent] = []
    unreadable: list[Part] = []
    for part in parts(Path(directory)):
        try:
            rows += rows_of(read_part(part))
        except Corrupt:
            if strict:
                raise
            unreadable.append(part)
    gaps = gaps_of(info, lives_of(rows), unreadable)
    clients = {row.proc for row in rows} - info.members | set(info.clients)
    ordered = in_causal_order(rows)
    return Record(info, Trace(info.groups, tuple(sorted(clients)), ordered, gaps.closed, gaps))


def read_run(directory: str | Path) -> Trace:
    """For the checkers of checks/table.py. Damaged files raise Corrupt; `read_record` goes on
    without them."""
    return read_record(directory, strict=True).trace
