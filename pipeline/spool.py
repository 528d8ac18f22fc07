"""Rows of a stream between the mailbox and their commit: Arrow files in the query's own directory.

    spool.json               SpoolState: which spool, which mailboxes, how often joined
    committed                rows below this number will never be asked for again
    rows-<first>-<count>.arrow   finished segments only: written beside as a dot-file, then renamed
    query.lock               held by the query that reads
    keeper.lock              held by the keeper, the process that receives (keeper.py)
    keeper.error             why the last keeper ended, if by an error

Rows are numbered without a gap from 0. Nothing is synced to disk: it need outlive processes, not
the host, whose mailboxes are gone with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from shmcast.errors import Corrupt, Incompatible

VERSION = 1
_SEGMENT = re.compile(r"rows-(\d{16})-(\d{8})\.arrow")
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Segment:
    first: int
    count: int
    size_bytes: int
    name: str

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class SpoolState:
    version: int
    id: str
    names: list[str]
    joined: int  # each join after the first may have missed messages before it


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


class Lock:
    """A file lock: given back by the kernel, whatever its holder dies of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def take(self, timeout_s: float) -> bool:
        file = self._path.open("ab")
        end = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = file
                return True
            if time.monotonic() > end:
                file.close()
                return False
            time.sleep(_POLL_S)

    @property
    def is_free(self) -> bool:
        """Does nobody hold it? Asking does not keep anybody from taking it for long."""
        with self._path.open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def give(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Spool:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.query_lock = Lock(path / "query.lock")
        self.keeper_lock = Lock(path / "keeper.lock")

    def make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    # State.

    def state(self) -> SpoolState | None:
        try:
            values: dict[str, Any] = json.loads((self.path / "spool.json").read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise Corrupt(f"{self.path}: spool.json is damaged: remove the directory") from error
        if not isinstance(values, dict) or values.get("version") != VERSION:
            raise Incompatible(f"{self.path}: a spool of another version: use a new directory")
        try:
            return SpoolState(**values)
        except TypeError as error:
            raise Corrupt(f"{self.path}: spool.json is damaged: remove the directory") from error

    def join(self, names: Sequence[str]) -> SpoolState:
        """Notes that a receiver has just joined."""
        known = self.state()
        if known is None:
            known = SpoolState(VERSION, uuid.uuid4().hex, list(names), 0)
        else:
            self.check_names(known, names)
        state = dataclasses.replace(known, joined=known.joined + 1)
        _replace(self.path / "spool.json", json.dumps(dataclasses.asdict(state)))
        return state

    def check_names(self, known: SpoolState, names: Sequence[str]) -> None:
        if known.names != list(names):
            raise ValueError(
                f"{self.path} is the spool of {', '.join(known.names)}: "
                "use another directory for other mailboxes"
            )

    @property
    def committed(self) -> int:
        try:
            return int((self.path / "committed").read_text())
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise Corrupt(f"{self.path}: 'committed' is damaged: remove the directory") from error

    def commit(self, row: int) -> None:
        """Rows below are not needed any more. First the note, then the files."""
        if row > self.committed:
            _replace(self.path / "committed", str(row))
        for segment in self.segments():
            if segment.end <= row:
                (self.path / segment.name).unlink(missing_ok=True)

    # Rows.

    def segments(self) -> list[Segment]:
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                match = _SEGMENT.fullmatch(entry.name)
                if match:
                    with contextlib.suppress(FileNotFoundError):  # committed meanwhile
                        size = entry.stat().st_size
                        found.append(Segment(int(match[1]), int(match[2]), size, entry.name))
        return sorted(found, key=lambda segment: segment.first)

    def end(self) -> int:
        """The number of the next row."""
        segments = self.segments()
        return max(self.committed, segments[-1].end if segments else 0)

    def write(self, first: int, batches: Sequence[pa.RecordBatch]) -> Segment:
        count = sum(len(batch) for batch in batches)
        name = f"rows-{first:016d}-{count:08d}.arrow"
        beside = self.path / f".{name}"
        with pa.OSFile(str(beside), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as out:
            for batch in batches:
                out.write_batch(batch)
        size = beside.stat().st_size
        beside.rename(self.path / name)
        return Segment(first, count, size, name)

    def clean(self) -> None:
        """Removes what a keeper that was killed left half-written."""
        for left in self.path.glob(".rows-*.arrow"):
            left.unlink(missing_ok=True)
