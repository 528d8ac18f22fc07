"""spark.read and spark.readStream .format("mailbox"): the readers of the data source.

The streaming reader lives in three places: the planner (one process for the life of the query,
which has the offsets), tasks that read segments of the spool, and the keeper that fills it.

An offset is {"spool": id, "joined": n, "row": n}: rows below `row` are read. Another `joined` than
the spool's says that a receiver has left and a new one has joined in between, so messages may be
missing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from shmcast.pipeline import keeper, sink
from shmcast.pipeline.intake import SPARK_SCHEMA, Intake
from shmcast.pipeline.options import Options, parse
from shmcast.pipeline.spool import Spool, SpoolState

_ATTACH_S = 15.0  # an earlier run of the query may still be on its way out
_CATCH_UP_S = 2.0
_POLL_S = 0.005
_SLICE_S = 0.1
_LOOK_ROWS = 4096


class MailboxSource(DataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        return "mailbox"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return BatchReader(self._parsed)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StreamReader(self._parsed)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return sink.BatchWriter(self._parsed, schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return sink.StreamWriter(self._parsed, schema)


def register(spark: SparkSession) -> None:
    """Makes format("mailbox") known to a session."""
    spark.dataSource.register(MailboxSource)


class BatchReader(DataSourceReader):
    """One receiver, from the start of the task until it has `count` rows or `seconds` are over."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._options.names())]  # asked here, so that a wrong name fails now

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        left = self._options.count
        end = time.monotonic() + self._options.seconds
        with Intake(partition.value) as intake:
            while (wait_s := end - time.monotonic()) > 0 and left != 0:
                rows_max = _LOOK_ROWS if left is None else min(left, _LOOK_ROWS)
                for part in _up_to(left, intake.take(min(wait_s, _SLICE_S), rows_max)):
                    left = None if left is None else left - len(part)
                    yield part
            if left != 0:  # what came in time, and waits for its place in the order
                yield from _up_to(left, intake.finish(_CATCH_UP_S))


def _up_to(rows_max: int | None, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        part = batch if rows_max is None else batch.slice(0, rows_max)
        rows_max = None if rows_max is None else rows_max - len(part)
        if len(part):
            yield part


@dataclass(frozen=True)
class SpoolPartition(InputPartition):
    """Rows of segments: file, first row in it, how many."""

    path: str
    parts: tuple[tuple[str, int, int], ...]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made in the planner and again for tasks: only the planner attaches to the spool."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._path = options.spool_path("a streaming read")
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_path": self._path, "_planner": None}

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options, self._path)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.stop_at_what_is_there()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows_max = None if isinstance(limit, ReadAllAvailable) else limit.max_rows
        return self.planner.latest(start, rows_max)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self.planner.partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self.planner.commit(end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SpoolPartition)
        for name, first, count in partition.parts:
            yield from _rows(Path(partition.path) / name, first, count)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


def _rows(path: Path, first: int, count: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            part = batch.slice(min(first, len(batch)), count)
            first, count = max(0, first - len(batch)), count - len(part)
            if len(part):
                yield part


class Planner:
    """The one holder of the spool while a query runs."""

    def __init__(self, options: Options, path: Path) -> None:
        self._options = options
        self._stop_at: int | None = None
        self.spool = Spool(path)
        self.spool.make()
        if not self.spool.query_lock.take(_ATTACH_S):
            raise RuntimeError(f"{path} is in use by another query: give each its own 'spool'")
        try:
            self._state = self._keeper_state()
        except BaseException:
            self.close()
            raise

    def _keeper_state(self) -> SpoolState:
        """Sees to it that somebody receives."""
        o = self._options
        names = o.names()
        if self.spool.keeper_lock.is_free:
            keeper.start(keeper.Orders(str(self.spool.path), names, o.spool_bytes_max, o.linger_s))
        state = self.spool.state()
        assert state is not None  # a keeper that has joined has written it
        self.spool.check_names(state, names)  # it may be the keeper of an earlier query
        return state

    def _offset(self, row: int) -> dict[str, Any]:
        return {"spool": self._state.id, "joined": self._state.joined, "row": row}

    def initial(self) -> dict[str, Any]:
        return self._offset(self.spool.committed)

    def stop_at_what_is_there(self) -> None:
        """Waits, not for long, until the keeper has taken what was sent before."""
        idle, asked_ns = self.spool.path / "idle", time.time_ns()
        end = time.monotonic() + _CATCH_UP_S
        while time.monotonic() < end:
            if idle.exists() and idle.stat().st_mtime_ns > asked_ns:
                break
            time.sleep(_POLL_S)
        self._stop_at = self.spool.end()

    def _look_after_keeper(self) -> None:
        if not self.spool.keeper_lock.is_free:
            return
        error = self.spool.path / "keeper.error"
        if error.exists():
            raise RuntimeError(f"receiving has ended: {error.read_text()}")
        self._state = self._keeper_state()

    def latest(self, start: dict[str, Any], rows_max: int | None) -> dict[str, Any]:
        self._look_after_keeper()
        self._refuse_a_gap(start)
        end = self.spool.end() if self._stop_at is None else self._stop_at
        first = start["row"] if start["spool"] == self._state.id else self.spool.committed
        if rows_max is not None:
            end = min(end, first + rows_max)
        return self._offset(max(first, end))

    def _refuse_a_gap(self, start: dict[str, Any]) -> None:
        same = (start["spool"], start["joined"]) == (self._state.id, self._state.joined)
        if not same and self._options.fail_on_data_loss:
            raise RuntimeError(
                f"messages to {', '.join(self._state.names)} may have been missed: since the last "
                "batch its receiver has left (the query was away for longer than 'linger', the "
                "spool was full without a query, or the keeper was killed). To go on without them, "
                "set failOnDataLoss to false"
            )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if end["spool"] != self._state.id:
            raise RuntimeError(
                f"{self.spool.path} is not the spool that this batch was read from: put it back, "
                "or start the query with a new checkpoint"
            )
        first = start["row"] if start["spool"] == end["spool"] else self.spool.committed
        parts = self._parts(first, end["row"])
        found = sum(count for _, _, count in parts)
        if found != end["row"] - first:
            raise RuntimeError(
                f"{self.spool.path} lacks {end['row'] - first - found} of the rows {first} to "
                f"{end['row']}: put its files back, or start the query with a new checkpoint"
            )
        return self._split(parts)

    def _parts(self, first: int, end: int) -> list[tuple[str, int, int]]:
        parts = []
        for segment in self.spool.segments():
            low, high = max(first, segment.first), min(end, segment.end)
            if low < high:
                parts.append((segment.name, low - segment.first, high - low))
        return parts

    def _split(self, parts: list[tuple[str, int, int]]) -> list[InputPartition]:
        """Neighbours stay together, so that partitions are in the stream's order."""
        wanted = min(self._options.partitions, len(parts))
        bounds = [len(parts) * i // wanted for i in range(wanted + 1)] if wanted else []
        return [
            SpoolPartition(str(self.spool.path), tuple(parts[low:high]))
            for low, high in itertools.pairwise(bounds)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        if end["spool"] == self._state.id:
            self.spool.commit(end["row"])

    def close(self) -> None:
        self.spool.query_lock.give()
