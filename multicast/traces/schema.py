"""A trace on disk: one row per event, in Parquet. The only definition of its columns.

    RUN/run.json                                          what was run (run_info.py)
    RUN/process=<p>/incarnation=<k>/part-00000.parquet    finished parts; written as dot-files first
    RUN/process=<p>/incarnation=<k>/witness-<q>-00000.parquet   what q says about p: its crash

A life's own rows are numbered by `lseq` from 1, without gaps; rows of witnesses stand behind them.
`TraceEvent.idx` is not stored: a reader computes it (order.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from shmcast.errors import Incompatible
from shmcast.multicast.checks.trace import MessageKey, TraceEvent

VERSION = 1
VERSION_KEY = b"shmcast.trace.version"
WITNESS_LSEQ = 1 << 62  # rows of witnesses are numbered from here

_WORD = pa.dictionary(pa.int32(), pa.string())
_MESSAGE = pa.struct([("sender", pa.int32()), ("seq", pa.int64())])

SCHEMA = pa.schema(
    [
        pa.field("proc", pa.int32(), nullable=False),
        pa.field("incarnation", pa.int32(), nullable=False),
        pa.field("lseq", pa.int64(), nullable=False),
        pa.field("real_t", pa.int64(), nullable=False),  # ns
        pa.field("local_t", pa.int64(), nullable=False),  # ns
        pa.field("kind", _WORD, nullable=False),
        pa.field("layer", _WORD, nullable=False),
        pa.field("msg_sender", pa.int32()),
        pa.field("msg_seq", pa.int64()),
        pa.field("dest", pa.list_(pa.int32())),
        pa.field("ts_time", pa.int64()),
        pa.field("ts_group", pa.int32()),
        pa.field("peer", pa.int32()),
        pa.field("copy", pa.int64()),
        pa.field("about", pa.list_(_MESSAGE)),
        pa.field("detail", pa.string()),
    ],
    metadata={VERSION_KEY: str(VERSION).encode()},
)

_LIFE = re.compile(r"^process=(\d+)/incarnation=(\d+)/((part|witness-\d+)-(\d+))\.parquet$")


# The fields of TraceEvent behind `idx` that are stored as they are.
_PLAIN = ("real_t", "local_t", "proc", "incarnation", "lseq", "kind", "layer")


class Part(NamedTuple):
    """One finished file of one life."""

    proc: int
    incarnation: int
    name: str
    path: Path

    @property
    def is_witness(self) -> bool:
        return self.name.startswith("witness")


def life_directory(run: Path, proc: int, incarnation: int) -> Path:
    return run / f"process={proc}" / f"incarnation={incarnation}"


def parts(run: Path) -> list[Part]:
    """The finished files of a run, by life and number. Files of other names are not ours."""
    found = []
    for path in run.glob("process=*/incarnation=*/*.parquet"):
        match = _LIFE.match(path.relative_to(run).as_posix())
        if match:
            found.append(Part(int(match[1]), int(match[2]), match[3], path))
    return sorted(found)


def check_version(metadata: dict[bytes, bytes] | None, where: object) -> None:
    told = (metadata or {}).get(VERSION_KEY)
    if told != str(VERSION).encode():
        version = "no version" if told is None else f"version {told.decode(errors='replace')}"
        raise Incompatible(
            f"{where}: a trace of {version}, and this program reads version {VERSION}: "
            "read it with the shmcast that wrote it"
        )


def table_of(events: Iterable[TraceEvent]) -> Any:
    """Events as an Arrow table of SCHEMA, `idx` dropped."""
    rows = [
        (
            e.proc,
            e.incarnation,
            e.lseq,
            e.real_t,
            e.local_t,
            e.kind,
            e.layer,
            e.msg,
            e.dest,
            e.ts,
            e.peer,
            e.copy,
            e.about,
            e.detail,
        )
        for e in events
    ]
    return table_of_rows(rows)


def _sparse(values: Sequence[Any], kind: Any) -> Any:
    """Of a column that most parts do not use."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def _abouts(keys: Sequence[tuple[MessageKey, ...]]) -> Any:
    kind = pa.list_(_MESSAGE)
    if keys.count(()) == len(keys):
        none = pa.array([0] * (len(keys) + 1), pa.int32())
        return pa.ListArray.from_arrays(none, pa.array([], _MESSAGE), type=kind)
    return pa.array([[{"sender": s, "seq": n} for s, n in one] for one in keys], kind)


def table_of_rows(rows: Sequence[tuple[Any, ...]]) -> Any:
    """Rows (proc, incarnation, lseq, real_t, local_t, kind, layer, msg, dest, ts, peer, copy,
    about, detail) as an Arrow table."""
    if not rows:
        return SCHEMA.empty_table()
    columns = list(zip(*rows, strict=True))
    proc, incarnation, lseq, real_t, local_t, kind, layer, msg, dest, ts, *rest = columns
    peer, copy, about, detail = rest
    arrays = [
        pa.array(proc, pa.int32()),
        pa.array(incarnation, pa.int32()),
        pa.array(lseq, pa.int64()),
        pa.array(real_t, pa.int64()),
        pa.array(local_t, pa.int64()),
        pa.array(kind, pa.string()).dictionary_encode(),
        pa.array(layer, pa.string()).dictionary_encode(),
        pa.array([None if m is None else m[0] for m in msg], pa.int32()),
        pa.array([None if m is None else m[1] for m in msg], pa.int64()),
        pa.array(dest, pa.list_(pa.int32())),
        pa.array([None if t is None else t[0] for t in ts], pa.int64()),
        pa.array([None if t is None else t[1] for t in ts], pa.int32()),
        _sparse(peer, pa.int32()),
        _sparse(copy, pa.int64()),
        _abouts(about),
        pa.array(detail, pa.string()),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def rows_of(table: Any) -> list[TraceEvent]:
    """The inverse of `table_of`; `idx` is −1 until order.py sets it."""
    columns = {name: table.column(name).to_pylist() for name in SCHEMA.names}
    messages = _pairs(columns["msg_sender"], columns["msg_seq"])
    stamps = _pairs(columns["ts_time"], columns["ts_group"])
    about = [_keys(keys) for keys in columns["about"]]
    dest = [tuple(groups or ()) for groups in columns["dest"]]
    detail = [text or "" for text in columns["detail"]]
    plain = [columns[name] for name in _PLAIN]
    rest = (messages, dest, stamps, columns["peer"], columns["copy"], about, detail)
    unplaced = [-1] * len(about)
    return [TraceEvent._make(row) for row in zip(unplaced, *plain, *rest, strict=True)]


def _pairs(first: list[int | None], second: list[int | None]) -> list[tuple[int, int] | None]:
    return [None if a is None or b is None else (a, b) for a, b in zip(first, second, strict=True)]


def _named(message: MessageKey) -> dict[str, int]:
    return {"sender": message[0], "seq": message[1]}


def _keys(about: list[dict[str, int]] | None) -> tuple[MessageKey, ...]:
    return tuple((one["sender"], one["seq"]) for one in about or ())
