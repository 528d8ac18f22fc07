"""Clocks that differ: within ε nothing goes wrong, beyond it is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shmcast import Mailbox
from shmcast.mailbox import faults
from shmcast.realtime.bounds import NS_PER_MS, Bounds

SKEW_S = 0.050


def bounds(protocol: str, epsilon_ms: int) -> Bounds:
    """Default ones, but for ε and the χ that follows from it."""
    plain = Bounds.default(copies=2, message_bytes=64, protocol=protocol)
    return replace(plain, epsilon_ns=epsilon_ms * NS_PER_MS, expiry_ns=0)


def test_a_lanes_next_owner_stamps_later_though_its_clock_is_behind(
    name: str, protocol: str
) -> None:
    with Mailbox.create(
        name,
        copies=2,
        message_size=64,
        senders=1,
        protocol=protocol,
        bounds=bounds(protocol, epsilon_ms=100),
    ) as box:
        faults.skew_clock(SKEW_S)
        with box.sender() as ahead:
            first = ahead.send(b"by the clock that is ahead")
        faults.skew_clock()
        with box.sender() as behind:
            second = behind.send(b"by the clock that is behind")
    assert second.timestamp > first.timestamp


def test_clocks_within_epsilon_keep_the_order_and_no_violation_is_seen(name: str) -> None:
    with Mailbox.create(
        name, copies=2, message_size=64, bounds=bounds("eager", epsilon_ms=100)
    ) as box:
        receiver, one, other = box.receiver(), box.sender(), box.sender()
        sent = []
        for i in range(10):
            faults.skew_clock(SKEW_S if i % 2 else 0.0)
            data = b"%d" % i
            sent.append(((other if i % 2 else one).send(data).timestamp, data))
        faults.skew_clock()
        got = [receiver.receive(timeout=20) for _ in sent]
        assert [(m.timestamp, m.data) for m in got] == sorted(sent)
        assert box.stats().receivers[0].violations == 0


def test_clocks_that_drift_apart_within_epsilon_keep_the_order(name: str, protocol: str) -> None:
    """One gains 1 s in 1,000, as no real clock does; the runs of a test stay far within ε."""
    with Mailbox.create(
        name, copies=2, message_size=64, protocol=protocol, bounds=bounds(protocol, epsilon_ms=100)
    ) as box:
        receivers = [box.receiver(), box.receiver()]
        one, other = box.sender(), box.sender()
        sent = []
        for i in range(8):
            faults.skew_clock(SKEW_S / 10, drift=1e-3 if i % 2 else -1e-3)
            data = b"%d" % i
            sent.append(((other if i % 2 else one).send(data, timeout=20).timestamp, data))
        faults.skew_clock()
        for receiver in receivers:
            got = [receiver.receive(timeout=20) for _ in sent]
            assert [(m.timestamp, m.data) for m in got] == sorted(sent)
        assert [r.violations for r in box.stats().receivers] == [0, 0]


def test_a_clock_behind_by_more_than_epsilon_is_counted_as_a_violation(name: str) -> None:
    with Mailbox.create(name, copies=2, message_size=64) as box:
        receiver, one, other = box.receiver(), box.sender(), box.sender()
        one.send(b"first")
        assert receiver.receive(timeout=20).data == b"first"
        faults.skew_clock(-60.0)  # its message seems to be from before the receiver joined
        other.send(b"second, stamped earlier")
        faults.skew_clock()
        with pytest.raises(TimeoutError):
            receiver.receive(timeout=0)
        assert box.stats().receivers[0].violations == 1
