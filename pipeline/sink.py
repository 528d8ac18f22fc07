"""df.write and df.writeStream .format("mailbox"): column `data` becomes messages.

Tasks do not send: they put their rows into the query's own directory, and the commit on the driver
sends them, in the order of the partitions, from one sender. So nothing is sent of a batch one of
whose tasks failed, and tasks that run twice do no harm.

A stream's batch may still be committed twice, when the query died before it could note that it was
done. `sent.json` says which batches went out whole: those are skipped. Of one that was cut in the
middle, the rows go out again; with envelope=true receivers recognise them (envelope.py).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from shmcast.errors import Corrupt, Rejected
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.sender import Sender
from shmcast.pipeline.envelope import Origin, wrap
from shmcast.pipeline.options import Options

_BATCH_ROWS = 64  # messages of one operation
_TRIES = 100  # of an operation that others decide against


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    path: str
    rows: int


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


def _send_operation(sender: Sender, messages: list[bytes], to: Any, timeout_s: float) -> None:
    for _ in range(_TRIES):
        with contextlib.suppress(Rejected):  # nobody delivered it
            sender.send_many(messages, timeout=timeout_s, to=to)
            return
    raise Rejected(
        f"{sender.name}: rejected {_TRIES} times: the machine is too slow for its bounds"
    )


def _send(options: Options, staged: Sequence[Staged], batch_id: int) -> None:
    with contextlib.ExitStack() as stack:
        to: list[str] | None = None
        if options.domain is not None:
            domain = stack.enter_context(Domain.open(options.domain))
            to = list(options.inner) or domain.mailboxes()
            sender = stack.enter_context(domain.sender())
        else:
            box = stack.enter_context(Mailbox.open(str(options.mailbox)))
            sender = stack.enter_context(box.sender())
        count = sum(one.rows for one in staged)
        operation: list[bytes] = []
        for index, payload in enumerate(_payloads(staged)):
            if options.envelope:
                payload = wrap(Origin(options.writer, batch_id, index, count), payload)  # noqa: PLW2901
            operation.append(payload)
            if len(operation) == _BATCH_ROWS:
                _send_operation(sender, operation, to, options.timeout_s)
                operation = []
        if operation:
            _send_operation(sender, operation, to, options.timeout_s)


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
        last = self._sent()
        if last is None or batchId > last["batch"]:
            _send(self._options, staged, batchId)
            self._note(this)
        elif this != last:
            raise RuntimeError(
                f"{self._path} says that batch {last['batch']} was sent, and this is another batch "
                f"{batchId}: give each query its own 'spool', and a new one with a new checkpoint"
            )
        self._clean()

    def abort(self, messages: list[Staged | None], batchId: int) -> None:
        _remove(messages)

    def _sent(self) -> dict[str, int] | None:
        """The last batch that went out whole."""
        try:
            noted = json.loads((self._path / "sent.json").read_text())
            return {name: int(noted[name]) for name in ("batch", "rows", "crc")}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{self._path}: sent.json is damaged: use a new directory") from error

    def _note(self, batch: dict[str, int]) -> None:
        beside = self._path / ".sent.json"
        beside.write_text(json.dumps(batch))
        beside.replace(self._path / "sent.json")

    def _clean(self) -> None:
        """One batch at a time is under way: what lies here is of this one or of a dead run."""
        for left in self._path.glob("task-*.arrow"):
            left.unlink(missing_ok=True)
