"""Frames between lives, over real mailboxes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers import wait_until
from shmcast.mailbox.mailbox import Mailbox
from shmcast.multicast.run.inbox import Inbox, Outlet, head_of
from shmcast.multicast.run.records import Fragment, Request, encode

CLIENT = 1 << 20
WAIT_NS = 10_000_000_000


@pytest.fixture
def inbox(name: str) -> Iterator[Inbox]:
    found = Inbox(name, copies=1, slot_bytes=1024, capacity=32, senders=8)
    yield found
    found.close()


def a_frame(size: int) -> bytes:
    return encode([Request(CLIENT, 1, (0,), bytes(size))])


def test_frames_of_any_length_come_whole_and_in_order(inbox: Inbox) -> None:
    outlet = Outlet(inbox.name, head_of(7, 0))
    frames = [a_frame(size) for size in (0, 900, 5000, 1, 10_000)]
    for data in frames:
        outlet.send(data)
    got: list[bytes] = []
    while len(got) < len(frames):
        outlet.flush()
        got += [frame.data for frame in inbox.receive(WAIT_NS)]
    assert got == frames
    outlet.close()


def test_what_waits_for_one_that_is_gone_goes_with_it(inbox: Inbox) -> None:
    """The sender went down with it: it took a piece from a backlog that was empty by then."""
    outlet = Outlet(inbox.name, head_of(7, 0))
    while not outlet.is_behind:
        outlet.send(a_frame(0))
    inbox.close()
    outlet.flush()
    assert outlet.gone
    assert not outlet.is_behind
    outlet.send(a_frame(0))


@pytest.mark.parametrize(
    "garbage",
    [
        encode([Fragment(1, 3, 9, b"x")]),  # not from its beginning
        encode([Fragment(1, 0, 2, b"x")])[:-3],  # torn
    ],
)
def test_garbage_of_one_sender_costs_the_others_nothing(inbox: Inbox, garbage: bytes) -> None:
    good = Outlet(inbox.name, head_of(7, 0))
    with Mailbox.open(inbox.name) as box, box.sender() as bad:
        bad.send(head_of(8, 0) + garbage)
        good.send(a_frame(3))
        got = {}
        while len(got) < 2:
            got.update({frame.sender: frame.data for frame in inbox.receive(WAIT_NS)})
    assert got == {7: a_frame(3), 8: b""}  # an empty frame: whoever decodes it cuts 8 off
    good.close()


def test_a_frame_longer_than_a_client_may_send_is_refused(name: str) -> None:
    inbox = Inbox(name, copies=1, slot_bytes=1024, capacity=32, senders=8, client_bytes_max=3000)
    outlets = [Outlet(name, head_of(sender, 0)) for sender in (CLIENT, 7)]
    for outlet in outlets:
        outlet.send(a_frame(4000))
    got = {}
    while len(got) < 2:
        got.update({f.sender: f.data for f in inbox.receive(WAIT_NS)})
    assert got == {CLIENT: b"", 7: a_frame(4000)}
    for outlet in outlets:
        outlet.close()
    inbox.close()


def test_a_replica_without_a_lane_waits_for_one_and_loses_nothing(inbox: Inbox) -> None:
    """It took a full inbox for one that is gone: frames vanished without a word."""
    clients = [Outlet(inbox.name, head_of(CLIENT + n, 0)) for n in range(8)]
    assert all(client.is_open() for client in clients)
    replica = Outlet(inbox.name, head_of(7, 0))
    replica.send(a_frame(1))
    replica.send(a_frame(5000))
    assert replica.is_behind and not replica.gone
    clients[3].close()
    got: list[bytes] = []

    def all_there() -> bool:
        replica.flush()
        got.extend(frame.data for frame in inbox.receive(0))
        return len(got) == 2

    wait_until(all_there, "both frames come")
    assert got == [a_frame(1), a_frame(5000)]
    for outlet in (replica, *clients):
        outlet.close()


def test_clients_leave_lanes_to_the_replicas(inbox: Inbox) -> None:
    outlets = [Outlet(inbox.name, head_of(CLIENT + n, 0), spare=3) for n in range(8)]
    assert [outlet.is_open() for outlet in outlets] == [True] * 5 + [False] * 3
    replica = Outlet(inbox.name, head_of(7, 0))
    assert replica.is_open()
    for outlet in (replica, *outlets):
        outlet.close()


def test_a_life_that_is_over_is_not_heard_any_more_and_a_new_one_is_announced(
    inbox: Inbox,
) -> None:
    lives = [Outlet(inbox.name, head_of(7, life)) for life in (0, 1)]
    for outlet in (lives[0], lives[1]):
        outlet.send(a_frame(1))
        assert [f.data for f in inbox.receive(WAIT_NS)] == [a_frame(1)]
        assert inbox.appeared == {7}
        inbox.appeared.clear()
    lives[0].send(a_frame(2))
    lives[1].send(a_frame(3))
    got: list[bytes] = []
    while not got:
        got += [f.data for f in inbox.receive(WAIT_NS)]
    assert got == [a_frame(3)]
    assert not inbox.appeared
    for outlet in lives:
        outlet.close()
