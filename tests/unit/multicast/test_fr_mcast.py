"""FIFO reliable multicast, paper 002 §2.1."""

from shmcast.multicast.protocols.core import (
    Deliver,
    Message,
    MessageId,
    Multicast,
    Receive,
    Send,
)
from shmcast.multicast.protocols.fr_mcast import Carry, FrMcast
from shmcast.multicast.protocols.topology import Topology

TOPOLOGY = Topology(groups=((0, 1), (2,), (3,)))
M = Message(MessageId(0, 1), dest=(1,))
N = Message(MessageId(0, 2), dest=(0, 1))


def member(process: int) -> FrMcast:
    group = TOPOLOGY.group_of(process)
    assert group is not None
    return FrMcast(TOPOLOGY, process, group)


def test_message_carries_its_number_for_each_group() -> None:
    sender = member(0)
    assert sender.handle(Multicast(M), 0) == [Send(Carry(M, (0,)), (2,))]
    assert sender.handle(Multicast(N), 0) == [Send(Carry(N, (0, 1)), (0, 1, 2))]


def test_first_copy_is_passed_on_and_delivered() -> None:
    """Agreement: the sender may have died among its receivers."""
    assert member(1).handle(Receive(Carry(N, (0, 1)), 0), 0) == [
        Send(Carry(N, (0, 1)), (2,)),
        Deliver(N),
    ]


def test_second_copy_is_dropped() -> None:
    """Uniform integrity."""
    receiver = member(1)
    receiver.handle(Receive(Carry(N, (0, 1)), 0), 0)
    assert receiver.handle(Receive(Carry(N, (0, 1)), 2), 0) == []


def test_message_that_came_round_another_way_waits_for_the_one_before() -> None:
    """FIFO order, although process 1 never sees the first message."""
    receiver = member(2)
    early = receiver.handle(Receive(Carry(N, (0, 1)), 1), 0)
    assert not any(isinstance(e, Deliver) for e in early)
    assert receiver.handle(Receive(Carry(M, (0,)), 0), 0) == [Deliver(M), Deliver(N)]


def test_nothing_is_kept_of_a_delivered_message() -> None:
    receiver = member(2)
    for seq in range(100):
        m = Message(MessageId(0, seq + 1), dest=(1,))
        receiver.handle(Receive(Carry(m, (seq,)), 0), 0)
    assert receiver.state.early == {0: {}}
