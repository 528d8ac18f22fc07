"""What travels between the processes of a cluster, as bytes.

    | version | kind | msgpack ...
       1 byte   1 byte

Kind WIRES: messages of a protocol, in the order in which they were sent. Kind RECORDS: those of
the runtime itself, see records.py. Whoever reads trusts nothing: an unknown version is
Incompatible, everything else that this module cannot have written is Corrupt.

A change of what bytes mean changes VERSION; tests/unit/multicast/wire.golden holds the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from types import GenericAlias
from typing import Any

import msgspec
from msgspec.msgpack import Ext

from shmcast.errors import Corrupt, Incompatible, MessageTooLarge
from shmcast.multicast.protocols import registry
from shmcast.multicast.protocols.core import Wire
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run.schema import TEXT, TUPLE, VALUE, Row, Schema
from shmcast.multicast.run.wire_tags import TAGS, VALUES

VERSION = 1
WIRES, RECORDS = 1, 2
FRAME_BYTES_MAX = 256 << 20  # of a single message: a replica's whole memory, when a leader asks
TURN_BYTES = 1 << 20  # what one turn sends is split into frames of about this
DEPTH_MAX = 16  # of values inside of values

_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_columns = msgspec.structs.astuple
_WIRE_HEAD = bytes((VERSION, WIRES))
_BAD = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


def body_of(data: bytes, kind: int) -> memoryview:
    """What stands behind a head of this kind."""
    if len(data) < 2:
        raise Corrupt(f"a frame of {len(data)} bytes: cut off on its way; restart the sender")
    if data[0] != VERSION:
        raise Incompatible(
            f"wire version {data[0]}, this process speaks {VERSION}: "
            "run the same release of shmcast on every host"
        )
    if data[1] != kind:
        raise Corrupt(f"a frame of kind {data[1]} where kind {kind} is due; restart the sender")
    if len(data) > FRAME_BYTES_MAX:
        raise Corrupt(f"a frame of {len(data)} bytes; at most {FRAME_BYTES_MAX} are ever sent")
    return memoryview(data)[2:]


def kind_of(data: bytes) -> int:
    """WIRES or RECORDS; any other number is refused by whoever decodes it."""
    return data[1] if len(data) > 1 else 0


class Codec:
    """Encodes and decodes the messages of one protocol, with the ids of one topology."""

    def __init__(self, protocol: str, topology: Topology) -> None:
        registry.lookup(protocol)  # KeyError: no such protocol, and which there are
        self.protocol = protocol
        self._depth = 0
        schema = Schema(topology, self._write_any, self._read_any)
        self.rows = schema.rows
        self._writers: dict[type, tuple[int, Callable[[Any], tuple[Any, ...]]]] = {}
        self._readers: dict[type, Callable[[Sequence[Any]], Any]] = {}
        inner_tags = {cls: tag for cls, tag in VALUES.items() if _is_for(cls, protocol)}
        outer = {cls: tag for cls, tag in TAGS.items() if _is_for(cls, protocol)}
        structs = [self._struct(cls, tag, schema.row(cls)) for cls, tag in outer.items()]
        inner = [self._struct(cls, tag, schema.row(cls)) for cls, tag in inner_tags.items()]
        self._decode = _decoder(GenericAlias(list, (_union(structs),)))
        self._decode_value = _decoder(_union([*structs, *inner]))
        self._decode_tuple = _decoder(GenericAlias(tuple, (schema.any.type, ...)))

    def frames(self, wires: Sequence[Wire]) -> list[bytes]:
        """What one turn has for a receiver, in order; a frame above TURN_BYTES has one message."""
        data = self._encoded(wires)
        if len(data) <= TURN_BYTES or len(wires) == 1:
            return [_checked(data)]
        half = len(wires) // 2
        return [*self.frames(wires[:half]), *self.frames(wires[half:])]

    def encode(self, wires: Sequence[Wire]) -> bytes:
        return _checked(self._encoded(wires))

    def _encoded(self, wires: Sequence[Wire]) -> bytes:
        writers = self._writers
        rows = []
        for wire in wires:
            tag, write = writers[wire.__class__]
            rows.append((tag, *write(wire)))
        return _WIRE_HEAD + _encode(rows)

    def decode(self, data: bytes) -> list[Wire]:
        body = body_of(data, WIRES)
        readers = self._readers
        self._depth = 0
        try:
            return [readers[s.__class__](_columns(s)) for s in self._decode(body)]
        except _BAD as error:
            raise Corrupt(f"not a frame of {self.protocol}: {error}") from error

    def _struct(self, cls: type, tag: int, row: Row) -> type:
        names = [path.replace(".", "_") for path in row.names]
        struct = msgspec.defstruct(
            cls.__name__,
            list(zip(names, row.types, strict=True)),
            tag=tag,
            array_like=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._writers[cls] = tag, row.write
        self._readers[struct] = row.read
        return struct

    # Values of any type ---------------------------------------------------------------------

    def _write_any(self, value: object) -> object:
        if value is None or value.__class__ in (bytes, int, bool, float):
            return value
        if isinstance(value, str):
            return Ext(TEXT, value.encode())
        known = self._writers.get(value.__class__)
        if known is not None:
            return Ext(VALUE, _encode((known[0], *known[1](value))))
        if isinstance(value, tuple):
            return Ext(TUPLE, _encode([self._write_any(v) for v in value]))
        raise TypeError(
            f"{self.protocol}: a {type(value).__name__} cannot be sent: send bytes, or list the "
            "class in wire_tags.py"
        )

    def _read_any(self, value: Any) -> object:
        if value.__class__ is not Ext:
            return value
        if self._depth >= DEPTH_MAX:
            raise ValueError(f"values nested deeper than {DEPTH_MAX}")
        self._depth += 1
        try:
            return self._read_ext(value.code, bytes(value.data))
        finally:
            self._depth -= 1

    def _read_ext(self, code: int, data: bytes) -> object:
        if code == VALUE:
            struct = self._decode_value(data)
            return self._readers[struct.__class__](_columns(struct))
        if code == TUPLE:
            return tuple(self._read_any(v) for v in self._decode_tuple(data))
        if code == TEXT:
            return data.decode()
        raise ValueError(f"a value of unknown code {code}")


def _checked(data: bytes) -> bytes:
    if len(data) > FRAME_BYTES_MAX:
        raise MessageTooLarge(
            f"{len(data)} bytes in one frame, at most {FRAME_BYTES_MAX}: set a smaller message_size"
        )
    return data


def _union(kinds: Sequence[type]) -> Any:
    return reduce(or_, kinds)


def _decoder(kind: Any) -> Callable[[Any], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def _is_for(cls: type, protocol: str) -> bool:
    """wbcast takes no other protocol's messages; of its own, others use the client sessions."""
    return protocol != "wbcast" or cls.__module__.rpartition(".")[2].startswith("wbcast")
