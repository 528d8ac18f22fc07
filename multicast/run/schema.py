"""From the type hints of a protocol's messages to a compact wire format, checked on the way in.

A message becomes one flat array: its tag, then its fields; fields of a dataclass inside (the
`Message` of an `Accept`) stand among them. msgspec encodes the array, and decodes it into a
struct that has the same columns, with types and ranges checked in C.

    hint                                        column
    int, bool, str, IntEnum                     itself
    GroupId, ProcessId                          an int below what the topology has
    NamedTuple of such                          array; the ids in it are checked too
    tuple[x, ...], x | None                     array; nil
    Mapping, set, dict                          array of pairs, array
    dataclass                                   its columns, in place
    object, a Protocol, a union of dataclasses  any value: nil, bool, int, float, bytes, or an Ext
                                                that holds a str, a tuple or a listed dataclass
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec.msgpack import Ext

from shmcast.multicast.protocols.core import MessageId, Timestamp
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot

Convert: TypeAlias = Callable[[Any], Any]
ANY = None | bool | int | float | bytes | Ext
VALUE, TUPLE, TEXT = 1, 2, 3  # codes of Ext
INT = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Column(NamedTuple):
    """What one array, or one element of it, is on the wire."""

    type: Any
    write: Convert | None = None  # None: as it is
    read: Convert | None = None


class Ids:
    """The ranges that a topology gives to ids, under the names that annotations use."""

    def __init__(self, topology: Topology) -> None:
        everyone = topology.processes
        if everyone != tuple(range(len(everyone))):
            raise ValueError("processes are numbered from 0 without gaps; clients come last")
        self.group = self._below(len(topology.groups), 0)
        self.process = self._below(len(everyone), 0)
        nobody_too = self._below(len(everyone), -1)  # ⊥ of ballots and timestamps
        wider = self._below(max(len(everyone), len(topology.groups)), -1)
        self.tuples: dict[type, type] = {
            MessageId: _narrowed(MessageId, sender=self.process, seq=INT),
            Timestamp: _narrowed(Timestamp, time=INT, group=wider),  # paper 002: a process
            Ballot: _narrowed(Ballot, n=INT, leader=nobody_too),
        }
        self.names: dict[str, Any] = {
            "GroupId": self.group,
            "ProcessId": self.process,
            "Needs": tuple[tuple[self.group, self.group], ...],  # type: ignore[name-defined]
            "Life": tuple[self.process, INT],  # type: ignore[name-defined]
        }

    @staticmethod
    def _below(end: int, first: int) -> Any:
        return Annotated[int, msgspec.Meta(ge=first, le=end - 1)]


def _narrowed(base: type, **hints: Any) -> type:
    """The same tuple to everybody, with ranges that msgspec checks."""
    body = {"__slots__": (), "__annotations__": hints, "__module__": base.__module__}
    return type(base.__name__, (base,), body)


def hints_of(cls: type, names: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations as written, evaluated with `names` in place of the module's own."""
    module = vars(sys.modules[cls.__module__])
    scope = {**module, **names}
    found: dict[str, Any] = {}
    for name in _field_names(cls):
        hint = cls.__annotations__[name]
        found[name] = eval(hint, scope) if isinstance(hint, str) else hint
    return found


def _field_names(cls: type) -> tuple[str, ...]:
    if is_dataclass(cls):
        return tuple(f.name for f in fields(cls))
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    return names


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or _is_named_tuple(hint))


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


@dataclass(frozen=True, slots=True)
class Row:
    """How a class becomes columns, and comes back from them."""

    names: tuple[str, ...]  # dotted paths
    types: tuple[Any, ...]
    write: Callable[[Any], tuple[Any, ...]]
    read: Callable[[Sequence[Any]], Any]
    converts: tuple[tuple[int, Convert], ...]  # columns that `write` does not take as they are


class Schema:
    """All rows of one codec. `write_any` and `read_any` are the codec's, for values whose type
    the hints do not tell."""

    def __init__(self, topology: Topology, write_any: Convert, read_any: Convert) -> None:
        self.ids = Ids(topology)
        self.any = Column(ANY, write_any, read_any)
        self.rows: dict[type, Row] = {}

    def row(self, cls: type) -> Row:
        if cls not in self.rows:
            self.rows[cls] = self._row(cls)
        return self.rows[cls]

    def _row(self, cls: type) -> Row:
        names: list[str] = []
        kinds: list[Any] = []
        writes: list[tuple[int, Convert]] = []
        reads: list[Convert] = []
        nested: list[tuple[int, Convert]] = []
        for name, hint in hints_of(cls, self.ids.names).items():
            first = len(names)
            if is_dataclass(hint) and isinstance(hint, type):
                inner = self.row(hint)
                names += [f"{name}.{path}" for path in inner.names]
                kinds += inner.types
                writes += [(first + i, convert) for i, convert in inner.converts]
                reads.append(_slice_reader(inner.read, first, len(names)))
                nested.append((first, reads[-1]))
                continue
            column = self.column(hint)
            names.append(name)
            kinds.append(column.type)
            if column.write is not None:
                writes.append((first, column.write))
            reads.append(_reader(first, column.read))
            if column.read is not None:
                nested.append((first, reads[-1]))
        write = _writer(names, writes)
        read = _builder(cls, reads, nested, names)
        return Row(tuple(names), tuple(kinds), write, read, tuple(writes))

    def column(self, hint: Any) -> Column:
        simple = self._scalar(hint)
        if simple is not None:
            return simple
        origin, args = get_origin(hint), get_args(hint)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(args)
        if origin in (Union, types.UnionType):
            found = self._union(args)
        elif origin is tuple:
            found = self._tuple(args)
        elif origin in (set, frozenset):
            found = self._set(origin, args[0])
        elif is_record(hint):
            found = self._record(hint)
        else:
            found = self.any  # object, Hashable, a Protocol
        return found

    def _set(self, kind: Any, element: Any) -> Column:
        inner = self.column(element)
        assert inner.write is None, f"a set of {element} has no wire format"
        return Column(list[inner.type], list, kind)  # type: ignore[name-defined]

    def _scalar(self, hint: Any) -> Column | None:
        if hint is int:
            return Column(INT)
        if hint in (bool, str, float, bytes) or get_origin(hint) is Annotated:
            return Column(hint)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return Column(hint)
        if hint in self.ids.tuples:
            return Column(self.ids.tuples[hint])
        return None

    def _union(self, args: tuple[Any, ...]) -> Column:
        others = [a for a in args if a is not type(None)]
        if len(others) == 1 and len(args) == 2:
            inner = self.column(others[0])
            if inner.write is None:
                return Column(inner.type | None)
        return self.any

    def _tuple(self, args: tuple[Any, ...]) -> Column:
        if len(args) == 2 and args[1] is ...:
            inner = self.column(args[0])
            return Column(_array([inner.type, ...]), _each(inner.write), _each(inner.read))
        columns = [self.column(a) for a in args]
        kind = _array(c.type for c in columns)
        if all(c.write is None for c in columns):
            return Column(kind)
        return Column(kind, _across([c.write for c in columns]), _across([c.read for c in columns]))

    def _mapping(self, args: tuple[Any, ...]) -> Column:
        pair = self._tuple(args)
        to_pair, from_pair = pair.write or _same, pair.read or _same

        def write(mapping: Mapping[Any, Any]) -> list[Any]:
            return [to_pair(item) for item in mapping.items()]

        def read(pairs: list[Any]) -> dict[Any, Any]:
            found = dict(map(from_pair, pairs))
            if len(found) != len(pairs):
                raise ValueError("the same key twice")
            return found

        return Column(list[pair.type], write, read)  # type: ignore[name-defined]

    def _record(self, cls: type) -> Column:
        """Inside of an array: an array of its own."""
        row = self.row(cls)
        return Column(_array(row.types), row.write, row.read)


def _array(elements: Iterable[Any]) -> Any:
    """tuple[...] of types that are known only now."""
    return types.GenericAlias(tuple, tuple(elements))


def _same(value: Any) -> Any:
    return value


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: tuple(map(convert, values))


def _across(converts: Sequence[Convert | None]) -> Convert:
    steps = [convert or _same for convert in converts]
    return lambda values: tuple(step(v) for step, v in zip(steps, values, strict=True))


def _reader(index: int, convert: Convert | None) -> Convert:
    if convert is None:
        return lambda columns: columns[index]
    return lambda columns: convert(columns[index])


def _slice_reader(read: Convert, first: int, end: int) -> Convert:
    return lambda columns: read(columns[first:end])


def _writer(names: Sequence[str], writes: Sequence[tuple[int, Convert]]) -> Any:
    """attrgetter fetches all columns in one call of C."""
    if not names:
        return lambda _value: ()
    get = attrgetter(*names)
    if len(names) == 1:
        (only,) = writes or [(0, _same)]
        return lambda value: (only[1](get(value)),)
    if not writes:
        return get

    def write(value: Any) -> tuple[Any, ...]:
        columns = list(get(value))
        for index, convert in writes:
            columns[index] = convert(columns[index])
        return tuple(columns)

    return write


def _builder(
    cls: type, reads: list[Convert], nested: list[tuple[int, Convert]], names: list[str]
) -> Callable[[Sequence[Any]], Any]:
    """The two common shapes are worth their own line: they are read for every message."""
    if not nested:
        return lambda columns: cls(*columns)
    if len(nested) == 1 and nested[0][0] == 0:
        rest = len(names) - (len(reads) - 1)
        first = nested[0][1]
        return lambda columns: cls(first(columns), *columns[rest:])
    return lambda columns: cls(*[read(columns) for read in reads])
