"""Random messages of every kind, built from their type hints."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin

from hypothesis import strategies as st

from shmcast.multicast.protocols.core import MessageId, Timestamp, Wire
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot
from shmcast.multicast.run.schema import Ids, hints_of
from shmcast.multicast.run.wire_tags import VALUES

TOPOLOGY = Topology.regular(2, 3, 1)
IDS = Ids(TOPOLOGY)
INTS = st.integers(-(2**63), 2**63 - 1)
PROCESSES = st.integers(0, 6)
KNOWN: dict[type, st.SearchStrategy[Any]] = {
    MessageId: st.builds(MessageId, PROCESSES, INTS),
    Timestamp: st.builds(Timestamp, INTS, st.integers(-1, 6)),
    Ballot: st.builds(Ballot, INTS, st.integers(-1, 6)),
}
SIMPLE = st.one_of(st.none(), st.booleans(), INTS, st.binary(max_size=20), st.text(max_size=5))


def values(white_box: bool, depth: int) -> st.SearchStrategy[Any]:
    """What stands in a field that takes anything: simple values, and classes of VALUES."""
    if depth > 0:
        return SIMPLE
    classes = [c for c in VALUES if _is_white_box(c) == white_box]
    built = [instances(c, depth + 1, white_box) for c in classes]
    return st.one_of(SIMPLE, st.tuples(SIMPLE, SIMPLE), *built)


def _is_white_box(cls: type) -> bool:
    return cls.__module__.endswith(("wbcast_wire", "wbcast_rejoin"))


def instances(cls: type, depth: int = 0, white_box: bool | None = None) -> st.SearchStrategy[Any]:
    if cls in KNOWN:
        return KNOWN[cls]
    ours = _is_white_box(cls) if white_box is None else white_box
    hints = hints_of(cls, IDS.names)
    return st.builds(cls, **{n: of_hint(h, ours, depth) for n, h in hints.items()})


def of_hint(hint: Any, white_box: bool, depth: int) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return st.integers(args[1].ge, args[1].le)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of_hint(a, white_box, depth) for a in args))
    if origin is tuple:
        return _tuples(args, white_box, depth)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (of_hint(a, white_box, depth) for a in args)
        return st.dictionaries(key, value, max_size=3)
    if origin is set:
        return st.sets(of_hint(args[0], white_box, depth), max_size=3)
    return _plain(hint, white_box, depth)


def _tuples(args: tuple[Any, ...], white_box: bool, depth: int) -> st.SearchStrategy[Any]:
    if args[-1] is ...:
        return st.lists(of_hint(args[0], white_box, depth), max_size=3).map(tuple)
    return st.tuples(*(of_hint(a, white_box, depth) for a in args))


def _plain(hint: Any, white_box: bool, depth: int) -> st.SearchStrategy[Any]:
    simple = {int: INTS, bool: st.booleans(), str: st.text(max_size=8), type(None): st.none()}
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if hint is Wire:  # inside of an envelope
        from shmcast.multicast.protocols.skeen import Propose

        return instances(Propose, depth + 1, white_box)
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return instances(hint, depth, white_box)
    return values(white_box, depth)
