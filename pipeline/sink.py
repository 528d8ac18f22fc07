"""df.write and df.writeStream .format("mailbox"): column `data` becomes messages.

Tasks do not send: they put their rows into the query's own directory, and the commit on the driver
sends them, in the order of the partitions, from one sender. So nothing is sent of a batch one of
whose tasks failed, and tasks that run twice do no harm.

A stream's batch may still be committed twice, when it failed or when the query died before it could
note that it was done. `sent.json` says which batches went out whole: those are skipped. Of one that
an error cut in the middle, `cut.json` says how many rows went out, and the others follow. If the
query itself died in the middle, all rows go out again; with envelope=true receivers recognise them
by their place (envelope.py), so `begun.json` says which rows a batch had at first,
and others are refused.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shmcast.errors import Corrupt, MessageTooLarge, Rejected, ShmcastError
from shmcast.mailbox.core import Protocol
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.sender import Sender
from shmcast.pipeline.envelope import Origin, wrap
from shmcast.pipeline.options import Options

_OPERATION_ROWS = 64
_TRIES = 100  # of an operation that others decide against


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    path: str
    rows: int


class Cut(Exception):
    """A batch that ended in the middle: its first `sent` rows went out, and no others."""

    def __init__(self, sent: int, reason: ShmcastError) -> None:
        super().__init__(f"{reason} (after {sent} rows of the batch)")
        self.sent, self.reason = sent, reason


def _check_schema(schema: Any) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if kinds.get("data") not in ("binary", "string"):
        raise ValueError(
            "a mailbox takes column 'data' of type binary or string; these columns are "
            + (", ".join(f"{name} {kind}" for name, kind in kinds.items()) or "none")
        )


def _stage(directory: Path, batches: Iterator[pa.RecordBatch]) -> Staged:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"task-{uuid.uuid4().hex}.arrow"
    schema = pa.schema([("data", pa.large_binary())])
    rows = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as out:
        for batch in batches:
            data = batch.column(batch.schema.get_field_index("data"))
            if data.null_count:
                raise ValueError("column 'data' has a null: a message may be empty, not missing")
            out.write_batch(
                pa.RecordBatch.from_arrays([data.cast(pa.large_binary())], schema=schema)
            )
            rows += len(data)
    return Staged(str(path), rows)


def _payloads(staged: Sequence[Staged]) -> Iterator[bytes]:
    for one in staged:
        with pa.memory_map(one.path) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                yield from reader.get_batch(i).column(0).to_pylist()


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a batch goes, and by how many messages at once: all of an operation or none."""

    sender: Sender
    to: list[str] | None
    message_size: int
    rows: int
    timeout_s: float

    def send(self, messages: list[bytes]) -> None:
        for _ in range(_TRIES):
            with contextlib.suppress(Rejected):  # nobody delivered it
                self.sender.send_many(messages, timeout=self.timeout_s, to=self.to)
                return
        raise Rejected(
            f"{self.sender.name}: rejected {_TRIES} times: the machine is too slow for its bounds"
        )


def _opened(options: Options, stack: contextlib.ExitStack) -> _Way:
    to: list[str] | None = None
    if options.domain is not None:
        domain = stack.enter_context(Domain.open(options.domain))
        to = list(options.inner) or domain.mailboxes()
        boxes = [domain.mailbox(name) for name in to]
        sender = stack.enter_context(domain.sender())
    else:
        boxes = [stack.enter_context(Mailbox.open(str(options.mailbox)))]
        sender = stack.enter_context(boxes[0].sender())
    # The other protocols send a batch one by one, and may stop after the first few.
    is_whole = all(box.protocol is Protocol.EAGER for box in boxes)
    size = min((box.message_size for box in boxes), default=0)
    return _Way(sender, to, size, _OPERATION_ROWS if is_whole else 1, options.timeout_s)


def _messages(options: Options, staged: Sequence[Staged], batch_id: int) -> Iterator[bytes]:
    """The rows of a batch as they are sent."""
    if not options.envelope:
        yield from _payloads(staged)
        return
    count = sum(one.rows for one in staged)
    for index, payload in enumerate(_payloads(staged)):
        yield wrap(Origin(options.writer, batch_id, index, count), payload)


def _check_sizes(messages: Iterator[bytes], size_max: int, name: str) -> None:
    """Before the first one goes out: what is sent cannot be taken back."""
    for index, message in enumerate(messages):
        if len(message) > size_max:
            raise MessageTooLarge(
                f"row {index} of the batch makes a message of {len(message)} bytes, and {name} "
                f"takes {size_max}: create it with a larger message_size; nothing was sent"
            )


def _send(options: Options, staged: Sequence[Staged], batch_id: int, skip: int = 0) -> None:
    """Sends all rows but the first `skip`, or raises Cut."""
    with contextlib.ExitStack() as stack:
        way = _opened(options, stack)
        _check_sizes(_messages(options, staged, batch_id), way.message_size, way.sender.name)
        left = itertools.islice(_messages(options, staged, batch_id), skip, None)
        sent = skip
        while operation := list(itertools.islice(left, way.rows)):
            try:
                way.send(operation)
            except ShmcastError as error:
                raise Cut(sent, error) from error
            sent += len(operation)


def _crc(staged: Sequence[Staged]) -> int:
    """Of all payloads: a batch that comes again has the same."""
    value = 0
    for payload in _payloads(staged):
        value = zlib.crc32(payload, value)
    return value


def _remove(staged: Sequence[Staged | None]) -> None:
    for one in staged:
        if one is not None:
            Path(one.path).unlink(missing_ok=True)


class BatchWriter(DataSourceArrowWriter):
    """A commit that fails half-way has sent its first rows, and nothing tells them apart later."""

    def __init__(self, options: Options, schema: Any) -> None:
        _check_schema(schema)
        if options.envelope:
            raise ValueError("option 'envelope' is for streams: a batch write has no batch number")
        self._options = options
        options.names()  # a wrong name fails now
        self._path = (
            Path(options.spool or tempfile.gettempdir()) / f"shmcast-sink-{uuid.uuid4().hex}"
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return _stage(self._path, iterator)

    def commit(self, messages: list[Staged | None]) -> None:  # type: ignore[override,unused-ignore]
        try:
            _send(self._options, [one for one in messages if one is not None], 0)
        finally:
            shutil.rmtree(self._path, ignore_errors=True)

    def abort(self, messages: list[Staged | None]) -> None:  # type: ignore[override,unused-ignore]
        shutil.rmtree(self._path, ignore_errors=True)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options, schema: Any) -> None:
        _check_schema(schema)
        if options.envelope and not 1 <= len(options.writer.encode()) <= 255:
            raise ValueError("envelope=true needs option 'writer': a name of 1 to 255 bytes")
        self._options = options
        self._path = options.spool_path("a streaming write")
        options.names()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return _stage(self._path, iterator)

    def commit(self, messages: list[Staged | None], batchId: int) -> None:
        staged = [one for one in messages if one is not None]
        this = {"batch": batchId, "rows": sum(one.rows for one in staged), "crc": _crc(staged)}
        last = self._noted("sent.json", this)
        if last is None or batchId > last["batch"]:
            self._send(staged, this)
        elif this != last:
            raise RuntimeError(
                f"{self._path} says that batch {last['batch']} was sent, and this is another batch "
                f"{batchId}: give each query its own 'spool', and a new one with a new checkpoint"
            )
        self._clean()

    def _send(self, staged: Sequence[Staged], this: dict[str, int]) -> None:
        is_new = self._options.envelope and self._begin(this)
        cut = self._noted("cut.json", {**this, "sent": 0})
        skip = cut.pop("sent") if cut is not None else 0
        if cut != this:  # other rows, or in another order: none of them is known to have gone out
            skip = 0
        try:
            _send(self._options, staged, this["batch"], skip)
        except Cut as error:
            self._note("cut.json", {**this, "sent": error.sent})
            raise
        except ShmcastError:  # before the first row
            if is_new:
                (self._path / "begun.json").unlink(missing_ok=True)
            raise
        self._note("sent.json", this)
        (self._path / "cut.json").unlink(missing_ok=True)

    def _begin(self, this: dict[str, int]) -> bool:
        """Whether it has not begun before. Receivers know rows by their place in the batch: of one
        that comes again with other rows, or in another order, they would drop the wrong ones."""
        begun = self._noted("begun.json", this)
        if begun is not None and begun["batch"] == this["batch"] and begun != this:
            raise RuntimeError(
                f"{self._path}: batch {this['batch']} was partly sent, and comes again with other "
                "rows or in another order, so receivers could not tell which they have. Make the "
                "query give the same rows in the same order (sort them, one partition), then go on "
                "with a new checkpoint, 'spool' and 'writer'"
            )
        self._note("begun.json", this)
        return begun != this

    def abort(self, messages: list[Staged | None], batchId: int) -> None:
        _remove(messages)

    def _noted(self, name: str, keys: Iterable[str]) -> dict[str, int] | None:
        """The last batch that went out whole, or was cut."""
        try:
            noted = json.loads((self._path / name).read_text())
            return {key: int(noted[key]) for key in keys}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{self._path}: {name} is damaged: use a new directory") from error

    def _note(self, name: str, batch: dict[str, int]) -> None:
        beside = self._path / f".{name}"
        beside.write_text(json.dumps(batch))
        beside.replace(self._path / name)

    def _clean(self) -> None:
        """One batch at a time is under way: what lies here is of this one or of a dead run."""
        for left in self._path.glob("task-*.arrow"):
            left.unlink(missing_ok=True)
