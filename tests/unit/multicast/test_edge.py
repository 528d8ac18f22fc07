"""Well formed, and nonsense: its sender is refused, and the receiver lives."""

from __future__ import annotations

import pytest

from shmcast.errors import Corrupt
from shmcast.multicast.protocols.core import Message, MessageId, Timestamp, Wire
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    DeliverMsg,
    MulticastMsg,
    NewLeader,
    NewLeaderAck,
    NewState,
    Phase,
    Snapshot,
)
from shmcast.multicast.run.edge import Edge

TOPOLOGY = Topology(((0, 1, 2), (3, 4, 5), (6, 7, 8)))
MID, TS, BALLOT = MessageId(1, 7), Timestamp(5, 0), Ballot(1, 0)
OURS = Message(MID, (0, 1), b"payload")
THEIRS = Message(MID, (1, 2), b"payload")
TWICE = Message(MID, (0, 0), b"payload")
LIVES = (0, 0, 0)

NONSENSE: dict[str, Wire] = {
    "for others": MulticastMsg(THEIRS),
    "to a group twice": MulticastMsg(TWICE),
    "delivered for others": DeliverMsg(THEIRS, BALLOT, TS, TS),
    "accepted by a group that it is not for": Accept(OURS, 2, BALLOT, TS),
    "a vote of a group that it is not for": AcceptAck(MID, 2, (BALLOT, BALLOT)),
    "a vote with too few ballots": AcceptAck(MID, 1, (BALLOT,)),
    "lives of too few": NewLeader(BALLOT, (0,)),
    "a phase without its message": NewState(BALLOT, 0, Snapshot(phase={MID: Phase.START}), LIVES),
    "committed without a timestamp": NewLeaderAck(
        BALLOT, BALLOT, 0, Snapshot({MID: OURS}, {MID: Phase.COMMITTED}, {MID: TS}), LIVES
    ),
}


def a_member() -> Member:
    member = Member(TOPOLOGY, 0, {})
    member.on_multicast(OURS)
    return member


@pytest.mark.parametrize("wire", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_is_refused_at_the_edge(wire: Wire) -> None:
    with pytest.raises(Corrupt):
        Edge(a_member()).check(wire)


def test_what_members_say_passes() -> None:
    edge = Edge(a_member())
    edge.check(MulticastMsg(OURS))
    edge.check(Accept(OURS, 1, BALLOT, TS))
    edge.check(AcceptAck(MID, 1, (BALLOT, BALLOT)))
    edge.check(NewLeader(BALLOT, LIVES))
    whole = Snapshot({MID: OURS}, {MID: Phase.COMMITTED}, {MID: TS}, {MID: TS})
    edge.check(NewLeaderAck(BALLOT, BALLOT, 0, whole, LIVES))
