"""Records one life of one process. An event costs its thread one append; Parquet is written beside.

`event` appends a tuple to a list, which needs no lock: the thread that writes takes slices from the
front. When it cannot keep up, or the disk is full, events are counted instead of kept, and a row
of kind "lost" says how many: nobody may take such a record for the whole.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from shmcast.multicast.checks.trace import CRASH, END, LOST, START, MessageKey
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import WITNESS_LSEQ, life_directory, table_of_rows

BACKLOG_PARTS = 8  # parts' worth of rows that may wait for the disk
CLOSE_TIMEOUT_S = 30.0

Row = tuple[Any, ...]


class TraceWriter:
    """`directory` is the run's. A life has one writer; its threads may share it."""

    def __init__(
        self,
        directory: str | Path,
        info: RunInfo,
        proc: int,
        incarnation: int = 0,
        *,
        rotate_rows: int = 65_536,
        rotate_s: float = 1.0,
        bytes_max: int | None = None,
    ) -> None:
        if rotate_rows < 1 or rotate_s <= 0:
            raise ValueError("rotate_rows and rotate_s must be positive")
        info.write(directory)
        self._proc = proc
        self._incarnation = incarnation
        self._life = life_directory(Path(directory), proc, incarnation)
        self._life.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(self._life.glob("part-*.parquet")):
            raise FileExistsError(
                f"{self._life} holds a record already: each life has a number of its own"
            )
        self._rotate_rows = rotate_rows
        self._rotate_s = rotate_s
        self._backlog_rows = BACKLOG_PARTS * rotate_rows
        self._bytes_left = bytes_max
        self._rows: list[Row] = []
        self._lseq = 0  # rows on disk
        self._part = 0
        self._lost = 0
        self._lost_total = 0
        self._told = False  # that there is no room left
        self._counting = threading.Lock()
        self._wake = threading.Event()
        self._drained = threading.Condition()
        self._passes = 0  # of the writing thread over the backlog
        self._closing = False
        self._pid = os.getpid()
        self.failure: OSError | None = None  # the last one of the disk
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self.event(START)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Events that were not recorded."""
        return self._lost_total

    def event(
        self,
        kind: str,
        *,
        message_id: MessageKey | None = None,
        dest: tuple[int, ...] = (),
        ts: tuple[int, int] | None = None,
        layer: str = "",
        peer: int | None = None,
        copy: int | None = None,
        about: tuple[MessageKey, ...] = (),
        detail: str = "",
        real_t: int | None = None,
    ) -> None:
        """`real_t`: when it happened, in ns of CLOCK_MONOTONIC, if that was not now."""
        now = time.monotonic_ns()
        rows = self._rows
        waiting = len(rows)
        if waiting >= self._rotate_rows:
            self._wake.set()
            if waiting >= self._backlog_rows:
                self._lose(1)
                return
        when = now if real_t is None else real_t
        rows.append((when, now, kind, layer, message_id, dest, ts, peer, copy, about, detail))

    def flush(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """What was recorded before this call is on disk when it returns."""
        self._check_process()
        deadline = time.monotonic() + timeout
        with self._drained:
            # The pass under way may have taken its rows before ours came: wait for the next one.
            wanted = self._passes + 2
            while self._passes < wanted and self._thread.is_alive():
                self._wake.set()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{self._life}: not written within {timeout} s: slow disk?")
                self._drained.wait(min(left, 0.01))

    def witness_crash(self, proc: int, incarnation: int) -> None:
        """Puts on record that a life of another process has ended without an end of its own."""
        run = self._life.parent.parent
        witness_crash(run, proc, incarnation, observer=self._proc)

    def close(self, orderly: bool = True) -> None:
        """`orderly` adds the row that says that nothing more will come of this life."""
        if self._closing:
            return
        self._check_process()
        if orderly:
            now = time.monotonic_ns()
            self._rows.append((now, now, END, "", None, (), None, None, None, (), ""))
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._life}: not written within {CLOSE_TIMEOUT_S} s: slow disk?")
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.close(orderly=kind is None)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("a trace writer belongs to the process that opened it: open another")

    # The thread that writes --------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.wait(self._rotate_s)
            self._wake.clear()
            last = self._closing
            self._drain()
            with self._drained:
                self._passes += 1
                self._drained.notify_all()
            if last:
                return

    def _drain(self) -> None:
        while self._bytes_left is None or self._bytes_left > 0:
            count = min(len(self._rows), self._rotate_rows)
            rows = self._rows[:count]
            lost = self._take_lost() if count == len(self._rows) else 0
            if not rows and not lost:
                return
            written = self._write(rows, lost)
            del self._rows[:count]  # only now: until then they count as waiting
            if not written:
                self._lose(lost + len(rows), again=lost)
                return
        self._drain_without_room()

    def _drain_without_room(self) -> None:
        """All is lost but the end. That something is lost is said at once, how much at the end."""
        rows = self._rows[:]
        del self._rows[: len(rows)]
        end = [row for row in rows if row[2] == END]
        self._lose(len(rows) - len(end))
        if self._told and not end and not self._closing:
            return
        lost = self._take_lost()
        if not self._write(end, lost):
            self._lose(lost, again=lost)
        elif lost:
            self._told = True

    def _write(self, rows: list[Row], lost: int) -> bool:
        if lost:
            now = time.monotonic_ns()
            said = (now, now, LOST, "", None, (), None, None, None, (), str(lost))
            at = len(rows) - 1 if rows and rows[-1][2] == END else len(rows)
            rows = [*rows[:at], said, *rows[at:]]
        if not rows:
            return True
        numbered = [
            (self._proc, self._incarnation, self._lseq + n, *row) for n, row in enumerate(rows, 1)
        ]
        path = self._life / f"part-{self._part:05}.parquet"
        try:
            size = write_part(path, numbered)
        except OSError as error:
            self.failure = error
            return False
        self._part += 1
        self._lseq += len(rows)
        if self._bytes_left is not None:
            self._bytes_left -= size
        return True

    def _take_lost(self) -> int:
        with self._counting:
            lost, self._lost = self._lost, 0
        return lost

    def _lose(self, count: int, *, again: int = 0) -> None:
        """`again` of them were counted before, and could not be reported."""
        with self._counting:
            self._lost += count
            self._lost_total += count - again


def write_part(path: Path, rows: list[Row]) -> int:
    """One finished file: readers see all of it or nothing. Returns its size."""
    return write_table(path, table_of_rows(rows))


def write_table(path: Path, table: Any) -> int:
    beside = path.with_name(f".{path.name}")
    try:
        pq.write_table(
            table,
            beside,
            compression="zstd",
            compression_level=1,
            use_dictionary=["kind", "layer"],  # of numbers it costs time, and more room
        )
        size = beside.stat().st_size
        os.rename(beside, path)
    except pa.ArrowException as error:  # what Arrow says of a disk that refuses
        beside.unlink(missing_ok=True)
        raise OSError(f"{path}: {error}") from error
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return size


def witness_crash(
    directory: str | Path, proc: int, incarnation: int, *, observer: int, detail: str = ""
) -> None:
    """Puts on record that a life of `proc` has ended without an end of its own."""
    life = life_directory(Path(directory), proc, incarnation)
    life.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = time.monotonic_ns()
    row = (proc, incarnation, WITNESS_LSEQ + observer, now, now, CRASH, "", None)
    write_part(
        life / f"witness-{observer}-00000.parquet", [(*row, (), None, None, None, (), detail)]
    )
