"""Fig. 1 of paper 000, line by line."""

import pytest

from shmcast.multicast.protocols.core import (
    Deliver,
    Message,
    MessageId,
    Multicast,
    Receive,
    Send,
    Timestamp,
)
from shmcast.multicast.protocols.skeen import Client, MulticastMsg, Phase, Propose, Skeen, build
from shmcast.multicast.protocols.topology import Topology

TOPOLOGY = Topology.regular(groups=3, replicas=1, clients=1)
M = Message(MessageId(3, 1), dest=(0, 1))
N = Message(MessageId(3, 2), dest=(0, 1))


def process(group: int, clock: int = 0) -> Skeen:
    found = Skeen(TOPOLOGY, group)
    found.state.clock = clock
    return found


def test_multicast_goes_to_the_destinations_only() -> None:
    """L6-L7."""
    assert Client(TOPOLOGY).handle(Multicast(M), 0) == [Send(MulticastMsg(M), (0, 1))]
    assert process(2).handle(Multicast(M), 0) == [Send(MulticastMsg(M), (0, 1))]


def test_local_timestamp_is_the_next_clock_value() -> None:
    """L9-L12."""
    p = process(0, clock=6)
    effects = p.handle(Receive(MulticastMsg(M), 3), 0)
    assert effects == [Send(Propose(M, 0, Timestamp(7, 0)), (0, 1))]
    assert p.state.phase[M.id] is Phase.PROPOSED


def test_message_commits_when_every_destination_has_proposed() -> None:
    """L13-L17: the global timestamp is the maximum, and the clock follows it."""
    p = process(0)
    p.handle(Receive(MulticastMsg(M), 3), 0)
    assert p.handle(Receive(Propose(M, 0, Timestamp(1, 0)), 0), 0) == []
    effects = p.handle(Receive(Propose(M, 1, Timestamp(9, 1)), 1), 0)
    assert effects == [Deliver(M, Timestamp(9, 1))]
    assert p.state.clock == 9


def test_committed_message_waits_for_a_pending_one_with_a_lower_timestamp() -> None:
    """L20-L21."""
    p = process(0)
    for m in (M, N):
        p.handle(Receive(MulticastMsg(m), 3), 0)
        p.handle(Receive(Propose(m, 0, Timestamp(m.id.seq, 0)), 0), 0)
    assert p.handle(Receive(Propose(N, 1, Timestamp(5, 1)), 1), 0) == []
    effects = p.handle(Receive(Propose(M, 1, Timestamp(8, 1)), 1), 0)
    assert effects == [Deliver(N, Timestamp(5, 1)), Deliver(M, Timestamp(8, 1))]


def test_nothing_is_kept_of_a_delivered_message() -> None:
    p = process(0)
    p.handle(Receive(MulticastMsg(M), 3), 0)
    for g in (0, 1):
        p.handle(Receive(Propose(M, g, Timestamp(1, g)), g), 0)
    s = p.state
    p.may_deliver(Timestamp(9, 9))  # the heap of proposals is cleaned when it is next asked
    assert not (s.phase or s.local_ts or s.global_ts or s.lts or s.committed or s.proposed)


def test_groups_of_several_processes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="one process a group; ft-skeen"):
        build(0, Topology.regular(groups=2, replicas=3, clients=1), {})
