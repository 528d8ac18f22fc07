"""The wire format: every message comes back as it was, and garbage is always recognised."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shmcast.errors import Corrupt, Incompatible, MessageTooLarge
from shmcast.multicast import protocols
from shmcast.multicast.protocols import registry, skeen, wbcast_wire
from shmcast.multicast.protocols.core import (
    Effect,
    Event,
    Machine,
    Message,
    MessageId,
    ProcessId,
    Send,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot
from shmcast.multicast.run import records, wire
from shmcast.multicast.run.wire import Codec
from shmcast.multicast.run.wire_tags import TAGS, VALUES
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.faults import Crash, Recover
from shmcast.multicast.sim.workload import Call, Submit, random_submissions
from support.wire_strategies import TOPOLOGY, instances

GOLDEN = Path(__file__).with_name("wire.golden")
WHITE_BOX = Codec("wbcast", TOPOLOGY)
OTHERS = Codec("optimistic", TOPOLOGY)
ACCEPT = wbcast_wire.Accept(
    Message(MessageId(1, 7), (0, 1), b"payload"), 0, Ballot(1, 0), Timestamp(5, 0)
)
RECORDS: list[records.Record] = [
    records.Heartbeat(3, 10**9, 2, 7),
    records.Hello(2, 3, "bank", "wbcast"),
    records.Request(1 << 40, 9, (0, 1), b"pay"),
    records.Reply(1 << 40, 9, 55, 1 << 10 | 3),
    records.Busy(1 << 40, 9, 1000),
    records.Redirect(1 << 40, 9, 4),
    records.Marker(2, 3, 1, 0),
    records.SnapshotChunk(3, 1, 0, 2, b"half"),
    records.Fragment(1, 1, 2, b"rest"),
    records.Declined(3, 1, "no"),
]


def codec_of(cls: type) -> Codec:
    return WHITE_BOX if cls.__module__.endswith("wbcast_wire") else OTHERS


def all_messages() -> set[type[Wire]]:
    for module in pkgutil.iter_modules(protocols.__path__):
        importlib.import_module(f"{protocols.__name__}.{module.name}")
    ours = [c for c in Wire.__subclasses__() if c.__module__.startswith(protocols.__name__)]
    # dataclass(slots=True) makes a second class: the one that the module shows counts
    return {c for c in ours if getattr(sys.modules[c.__module__], c.__name__) is c}


def test_every_message_of_every_protocol_has_a_number_of_its_own() -> None:
    assert all_messages() == set(TAGS)
    numbers = [*TAGS.values(), *VALUES.values()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    "cls", TAGS, ids=lambda c: f"{c.__module__.rpartition('.')[2]}.{c.__name__}"
)
def test_a_message_comes_back_as_it_was(cls: type[Wire]) -> None:
    codec = codec_of(cls)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(instances(cls), min_size=1, max_size=3))
    def round_trip(messages: list[Wire]) -> None:
        assert codec.decode(codec.encode(messages)) == messages

    round_trip()


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_comes_back_as_it_was(record: records.Record) -> None:
    assert records.decode(records.encode([record, record])) == [record, record]


def test_there_is_an_example_of_every_record() -> None:
    assert {type(r) for r in RECORDS} == set(records.Record.__args__)


class OnTheWire:
    """A machine all of whose messages travel as bytes."""

    def __init__(self, machine: Machine, codec: Codec) -> None:
        self.machine = machine
        self.codec = codec

    def handle(self, event: Event, now: int) -> list[Effect]:
        effects = self.machine.handle(event, now)
        for i, effect in enumerate(effects):
            if isinstance(effect, Send):
                (message,) = self.codec.decode(self.codec.encode([effect.message]))
                assert message == effect.message
                effects[i] = Send(message, effect.to)
        return effects


@pytest.mark.parametrize("name", registry.names())
def test_a_protocol_runs_with_all_its_messages_as_bytes(name: str) -> None:
    spec = registry.lookup(name)
    topology = spec.shapes[0]
    codec = Codec(name, topology)

    def build(me: ProcessId, topology: Topology, options: registry.Options) -> Machine:
        return OnTheWire(spec.build(me, topology, options), codec)

    by_bytes = replace(spec, build=build, invariants=list)
    inputs: list[Submit | Call] = []
    if spec.multicasts:
        inputs += random_submissions(topology, 20, 3, interval=300)
    if spec.calls is not None:
        inputs += [Call(*call) for call in spec.calls(topology, Random(3), 6000)]
    inputs.sort(key=lambda item: item.at)
    run = simulate(by_bytes, topology=topology, inputs=inputs, seed=3, invariants=False)
    run.check()


def test_wbcast_recovers_with_all_its_messages_as_bytes() -> None:
    """Crashes and returns: NEWLEADER_ACK and NEW_STATE with what they hold."""
    spec = registry.lookup("wbcast")
    topology = Topology.regular(2, 3, 2)
    codec = Codec("wbcast", topology)
    by_bytes = replace(
        spec, build=lambda me, t, o: OnTheWire(spec.build(me, t, o), codec), invariants=list
    )
    run = simulate(
        by_bytes,
        topology=topology,
        messages=40,
        seed=5,
        faults=[Crash(0, at=3000), Recover(0, at=9000), Crash(4, at=5000), Recover(4, at=12_000)],
        invariants=False,
    )
    run.check()


# Garbage -----------------------------------------------------------------------------------------


def only_the_right_errors(decode: Any, data: bytes) -> None:
    with contextlib.suppress(Corrupt, Incompatible):
        decode(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_recognised(data: bytes) -> None:
    for decode in (WHITE_BOX.decode, OTHERS.decode, records.decode):
        only_the_right_errors(decode, data)
        only_the_right_errors(decode, bytes((wire.VERSION, wire.WIRES)) + data)
        only_the_right_errors(decode, bytes((wire.VERSION, wire.RECORDS)) + data)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_bytes_are_recognised_or_are_another_message(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(sorted(TAGS, key=TAGS.__getitem__)))
    codec = codec_of(cls)
    frame = bytearray(codec.encode([data.draw(instances(cls))]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    only_the_right_errors(codec.decode, bytes(frame))
    only_the_right_errors(codec.decode, bytes(frame[:cut]))


def test_another_version_is_incompatible_and_says_what_to_do() -> None:
    frame = bytearray(WHITE_BOX.encode([ACCEPT]))
    frame[0] += 1
    with pytest.raises(Incompatible, match="same release"):
        WHITE_BOX.decode(bytes(frame))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(ACCEPT, g=2),
        replace(ACCEPT, g=-1),
        replace(ACCEPT, bal=Ballot(1, 7)),
        replace(ACCEPT, m=Message(MessageId(7, 1), (0,), b"")),
        replace(ACCEPT, m=Message(MessageId(0, 1), (0, 2), b"")),
        replace(ACCEPT, lts=Timestamp(1, 99)),
    ],
)
def test_ids_that_the_topology_does_not_have_are_refused(wrong: Wire) -> None:
    with pytest.raises(Corrupt):
        WHITE_BOX.decode(WHITE_BOX.encode([wrong]))


def test_a_message_of_another_protocol_is_refused() -> None:
    proposal = skeen.Propose(ACCEPT.m, ACCEPT.g, ACCEPT.lts)
    with pytest.raises(Corrupt):
        WHITE_BOX.decode(OTHERS.encode([proposal]))


def test_values_nested_without_end_are_refused() -> None:
    deep: object = b""
    for _ in range(wire.DEPTH_MAX + 2):
        deep = (deep,)
    message = wbcast_wire.MulticastMsg(Message(MessageId(1, 1), (0,), deep))
    with pytest.raises(Corrupt, match="deep"):
        WHITE_BOX.decode(WHITE_BOX.encode([message]))


def test_an_oversized_frame_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = WHITE_BOX.encode([ACCEPT])
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", len(frame) - 1)
    with pytest.raises(MessageTooLarge):
        WHITE_BOX.encode([ACCEPT])
    with pytest.raises(Corrupt):
        WHITE_BOX.decode(frame)


def test_what_a_turn_sends_is_split_by_size_and_keeps_its_order() -> None:
    """Several large messages made one frame above the limit, and the leader went down with it."""
    large = [
        replace(ACCEPT, m=Message(MessageId(1, n), (0, 1), bytes(wire.TURN_BYTES // 3)))
        for n in range(8)
    ]
    large[4] = replace(ACCEPT, m=Message(MessageId(1, 4), (0, 1), bytes(3 * wire.TURN_BYTES)))
    frames = WHITE_BOX.frames(large)
    assert [one for frame in frames for one in WHITE_BOX.decode(frame)] == large
    alone = [frame for frame in frames if len(frame) > wire.TURN_BYTES]
    assert [WHITE_BOX.decode(frame) for frame in alone] == [[large[4]]]
    assert WHITE_BOX.frames([ACCEPT, ACCEPT]) == [WHITE_BOX.encode([ACCEPT, ACCEPT])]


def test_a_payload_that_is_no_composite_stands_for_nothing() -> None:
    """It was blamed on the replica that had passed it on, and all cut each other off."""
    good = records.encode([records.Request(1 << 40, 9, (0,), b"pay")])
    assert len(records.composite(good)) == 1
    too_many = records.encode([records.Marker(2, 3, 1, 0)] * (records.REQUESTS_MAX + 1))
    for payload in (b"", b"garbage", good[:-1], b"\7" + good[1:], "text", None, too_many):
        assert records.composite(payload) == []


@pytest.mark.parametrize("wrong", [[8, 3, 1, 2, 2, b""], [3, 1, 1, [], b""], [9, 1, 0, 1, b""]])
def test_a_record_that_contradicts_itself_is_refused(wrong: list[Any]) -> None:
    frame = bytes((wire.VERSION, wire.RECORDS)) + msgspec.msgpack.encode([wrong])
    with pytest.raises(Corrupt):
        records.decode(frame)


# The bytes themselves ----------------------------------------------------------------------------


def shapes() -> dict[str, str]:
    """The columns of every message, and the bytes of one of them and of every record."""
    found = {"version": str(wire.VERSION), "wbcast_wire.Accept": WHITE_BOX.encode([ACCEPT]).hex()}
    for cls, tag in [*TAGS.items(), *VALUES.items()]:
        codecs = [c for c in (WHITE_BOX, OTHERS) if cls in c.rows]
        name = f"{tag} {cls.__module__.rpartition('.')[2]}.{cls.__name__}"
        found[name] = " ".join(codecs[0].rows[cls].names)
    return found | {type(r).__name__: records.encode([r]).hex() for r in RECORDS}


def test_the_same_version_means_the_same_bytes() -> None:
    """After a change on purpose: raise VERSION, and write what this test shows into the file."""
    text = "".join(f"{name}: {value}\n" for name, value in shapes().items())
    assert GOLDEN.read_text() == text
