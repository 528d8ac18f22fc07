"""Figures survive what the messages survive."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox


@pytest.fixture
def box() -> Iterator[Mailbox]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    with Mailbox.create(name, copies=3, message_size=64, capacity=8) as opened:
        yield opened
    Mailbox.remove(name)


def test_worst_times_survive_the_first_copy(box: Mailbox) -> None:
    with box.sender() as sender, box.receiver() as receiver:
        sender.send(b"x")
        receiver.receive(timeout=1.0)
        before = box.stats()
        kill_copy(box, 0)
        after = box.stats()
        assert after.senders[0].worst_ns == before.senders[0].worst_ns > 0
        assert after.receivers[0].worst_ns == before.receivers[0].worst_ns > 0
        assert after.senders[0].messages == before.senders[0].messages == 1


def test_bounds_are_those_of_creation_however_often_they_are_read(box: Mailbox) -> None:
    """They were read from memory that had been freed already, and were now and then 0."""
    seen = {(s.send_bound_ns, s.latency_bound_ns) for s in (box.stats() for _ in range(2000))}
    assert len(seen) == 1
    assert min(seen.pop()) > 0


def test_slack_is_what_the_slowest_operation_left_of_its_bound(name: str) -> None:
    with Mailbox.create(name, copies=2, message_size=8) as box:
        sender, receiver = box.sender(), box.receiver()
        before = box.stats()
        assert before.send_slack_ns == before.send_bound_ns
        sender.send(b"x")
        receiver.receive(timeout=20)
        stats = box.stats()
    assert stats.send_slack_ns == stats.send_bound_ns - max(s.worst_ns for s in stats.senders)
    bound = stats.latency_bound_ns + stats.receive_bound_ns
    assert stats.delivery_slack_ns == bound - stats.receivers[0].worst_ns < bound
    late = stats._replace(send_bound_ns=0)
    assert late.send_slack_ns < 0
