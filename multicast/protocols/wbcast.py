"""White-box atomic multicast at one process of a group (paper 000), Fig. 3 and Fig. 4.

"L9" is line 9 of Fig. 4. Handlers keep its order and its variable names. A comment that starts
with DEVIATION says where we differ, and why. Client sessions, garbage collection, rejoining and
timers are in wbcast_member.py and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

from shmcast.multicast.protocols.core import (
    BOTTOM,
    Deliver,
    Effect,
    GroupId,
    Message,
    MessageId,
    ProcessId,
    Send,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    Ballots,
    DeliverMsg,
    Lives,
    MulticastMsg,
    NewLeader,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Phase,
    Snapshot,
)

Handler: TypeAlias = Callable[[Any, ProcessId], list[Effect]]


class Status(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"
    RECOVERING = "recovering"


@dataclass(slots=True)
class Acks:
    """ACCEPT_ACKs of one message with one vector of ballots."""

    voters: dict[GroupId, set[ProcessId]]
    gts: Timestamp | None = None  # known from our own vote on


@dataclass(slots=True)
class State:
    """Fig. 3; `messages` stands for m itself, which is an index in the figure. Then what the
    "received from …" conditions must remember, and two heaps that answer L21 without a search.

    DEVIATION: the first member leads ballot 1 from the start; in the figure every group begins
    with a recovery.
    """

    ballot: Ballot  # never decreases
    cballot: Ballot  # never decreases, at most `ballot`
    status: Status
    cur_leader: dict[GroupId, ProcessId]
    clock: int = 0
    messages: dict[MessageId, Message] = field(default_factory=dict)
    phase: dict[MessageId, Phase] = field(default_factory=dict)
    local_ts: dict[MessageId, Timestamp] = field(default_factory=dict)
    global_ts: dict[MessageId, Timestamp] = field(default_factory=dict)
    max_delivered_gts: Timestamp = BOTTOM

    accepts: dict[MessageId, dict[GroupId, Accept]] = field(default_factory=dict)  # L10
    acks: dict[MessageId, dict[Ballots, Acks]] = field(default_factory=dict)  # L17
    votes: dict[ProcessId, NewLeaderAck] = field(default_factory=dict)  # L42
    synced: set[ProcessId] = field(default_factory=set)  # L63
    pending: list[tuple[Timestamp, MessageId]] = field(default_factory=list)
    committed: list[tuple[Timestamp, MessageId]] = field(default_factory=list)


class WbCast:
    def __init__(self, topology: Topology, me: ProcessId) -> None:
        g0 = topology.group_of(me)
        assert g0 is not None, "a client is no member"
        self.topology = topology
        self.me = me
        self.g0: GroupId = g0
        self.peers = topology.groups[g0]
        self.quorum = majority(len(self.peers))
        self.quorums = tuple(majority(len(members)) for members in topology.groups)
        self.lives: list[int] = [0] * len(self.peers)  # see wbcast_rejoin.py
        first = Ballot(1, self.peers[0])
        self.state = State(
            first,
            first,
            Status.LEADER if me == first.leader else Status.FOLLOWER,
            {g: members[0] for g, members in enumerate(topology.groups)},
        )
        self.handlers = self.table()

    # Normal operation ---------------------------------------------------------------------

    def on_multicast(self, m: Message) -> list[Effect]:  # L3
        s = self.state
        if s.status is not Status.LEADER:  # L4
            return []
        if m.id not in s.phase:  # L5
            s.clock += 1  # L6
            self.store(m, Phase.PROPOSED, Timestamp(s.clock, self.g0))  # L7-L8
        accept = Accept(m, self.g0, s.cballot, s.local_ts[m.id])
        return [Send(accept, self.topology.members(m.dest))]  # L9

    def store(self, m: Message, phase: Phase, lts: Timestamp) -> None:
        s = self.state
        if self.decides() and s.local_ts.get(m.id) != lts:
            heappush(s.pending, (lts, m.id))
        s.messages[m.id] = m
        s.phase[m.id] = phase
        s.local_ts[m.id] = lts

    def decides(self) -> bool:
        """Whether we look for quorums ourselves. §IV: "only the leader computes the timestamps and
        decides when to deliver"; wbcast_acks.py lets followers do so too."""
        return self.state.status is Status.LEADER

    def on_accept(self, accept: Accept) -> list[Effect]:  # L10
        s, m = self.state, accept.m
        received = s.accepts.setdefault(m.id, {})
        known = received.get(accept.g)
        if known is not None and known.bal > accept.bal:
            return []
        received[accept.g] = accept
        if len(received) < len(m.dest) or not self.may_accept(received[self.g0]):
            return []
        if s.phase.get(m.id, Phase.START) < Phase.ACCEPTED:  # L12
            self.store(m, Phase.ACCEPTED, received[self.g0].lts)  # L13
        gts = max(a.lts for a in received.values())
        s.clock = self.clock_after_accept(gts)  # L14
        bal = tuple(received[g].bal for g in m.dest)
        if self.decides():
            self.acks_of(m.id, m.dest, bal).gts = gts
        if s.phase[m.id] is Phase.COMMITTED:
            del s.accepts[m.id]  # an answer to a retry; the next one brings all of them again
        return [Send(AcceptAck(m.id, self.g0, bal), self.ack_receivers(m, bal))]  # L15-L16

    def ack_receivers(self, m: Message, bal: Ballots) -> tuple[ProcessId, ...]:
        return tuple(b.leader for b in bal)

    def may_accept(self, mine: Accept) -> bool:  # L11
        s = self.state
        return s.status is not Status.RECOVERING and s.cballot == mine.bal

    def clock_after_accept(self, gts: Timestamp) -> int:
        return max(gts.time, self.state.clock)

    def acks_of(self, mid: MessageId, dest: Iterable[GroupId], bal: Ballots) -> Acks:
        by_ballots = self.state.acks.setdefault(mid, {})
        found = by_ballots.get(bal)
        if found is None:
            found = by_ballots[bal] = Acks({g: set() for g in dest})
        return found

    def on_accept_ack(self, ack: AcceptAck, sender: ProcessId) -> list[Effect]:  # L17
        s = self.state
        if s.status is not Status.LEADER:  # L18
            return []
        if s.phase.get(ack.mid, Phase.START) not in (Phase.PROPOSED, Phase.ACCEPTED):
            s.acks.pop(ack.mid, None)
            return []  # committed without this vote, or lost with an earlier ballot
        m = s.messages[ack.mid]
        if ack.bal[m.dest.index(self.g0)] != s.cballot:  # L18
            return []
        acks = self.acks_of(m.id, m.dest, ack.bal)
        acks.voters[ack.g].add(sender)
        if acks.gts is None or not self.is_accepted(acks):
            return []
        return self.commit(m, acks.gts)

    def is_accepted(self, acks: Acks) -> bool:
        """ "From a quorum of p_j ∈ g in each g ∈ dest(m), including myself." """
        if self.me not in acks.voters[self.g0]:
            return False
        for g, voters in acks.voters.items():  # noqa: SIM110  a generator took a tenth of a run
            if len(voters) < self.quorums[g]:
                return False
        return True

    def commit(self, m: Message, gts: Timestamp) -> list[Effect]:
        s = self.state
        s.global_ts[m.id] = gts  # L19
        s.phase[m.id] = Phase.COMMITTED  # L20
        del s.acks[m.id]
        s.accepts.pop(m.id, None)
        heappush(s.committed, (gts, m.id))
        return self.deliver_in_order()

    def deliver_in_order(self) -> list[Effect]:  # L21-L23, L66-L68
        """`Delivered` is the absence from the heap `committed`."""
        s = self.state
        effects: list[Effect] = []
        while s.committed and self.may_deliver(s.committed[0][0]):
            gts, mid = heappop(s.committed)  # L22, L67
            deliver = self.deliver_msg(s.messages[mid], s.local_ts[mid], gts)
            effects.append(Send(deliver, self.peers))  # L23, L68
        return effects

    def may_deliver(self, gts: Timestamp) -> bool:
        """L21: every message that is not yet committed has a higher local timestamp."""
        s = self.state
        self.forget_committed()
        return not s.pending or s.pending[0][0] > gts

    def forget_committed(self) -> None:
        s = self.state
        while s.pending and not self.is_pending(*s.pending[0]):
            heappop(s.pending)

    def is_pending(self, lts: Timestamp, mid: MessageId) -> bool:
        s = self.state
        phase = s.phase.get(mid, Phase.START)
        return phase in (Phase.PROPOSED, Phase.ACCEPTED) and s.local_ts[mid] == lts

    def deliver_msg(self, m: Message, lts: Timestamp, gts: Timestamp) -> DeliverMsg:
        return DeliverMsg(m, self.state.cballot, lts, gts)

    def on_deliver(self, d: DeliverMsg) -> list[Effect]:  # L24
        s, mid = self.state, d.m.id
        if s.status is Status.RECOVERING or s.cballot != d.b:  # L25
            return []
        # DEVIATION: a duplicate is not delivered, but L26-L29 are done. A process that delivered
        # m in an earlier ballot may hold it as ACCEPTED in this one; without this it would keep
        # m so for ever, and bring it back to life when the others have forgotten it.
        self.store(d.m, Phase.COMMITTED, d.lts)  # L26-L27
        s.global_ts[mid] = d.gts  # L28
        s.clock = max(s.clock, d.gts.time)  # L29
        s.accepts.pop(mid, None)
        if not self.is_new(d.gts):  # L25
            return []
        return self.hand_over(d.m, d.gts)

    def hand_over(self, m: Message, gts: Timestamp) -> list[Effect]:
        self.state.max_delivered_gts = gts  # L30
        return [Deliver(m, gts)]  # L31

    def is_new(self, gts: Timestamp) -> bool:
        return self.state.max_delivered_gts < gts

    # Message recovery ---------------------------------------------------------------------

    def retry(self, m: Message, whole_groups: bool = False) -> list[Effect]:  # L32
        assert self.state.phase[m.id] in (Phase.PROPOSED, Phase.ACCEPTED)  # L33
        if whole_groups:  # "if the guess is wrong, … send the message to all the processes"
            return [Send(MulticastMsg(m), self.topology.members(m.dest))]
        leaders = tuple(self.state.cur_leader[g] for g in m.dest)
        return [Send(MulticastMsg(m), leaders)]  # L34

    # Leader recovery ----------------------------------------------------------------------

    def recover(self, above: Ballot) -> list[Effect]:  # L35
        b = Ballot(max(self.state.ballot.n, above.n) + 1, self.me)
        return [Send(NewLeader(b, tuple(self.lives)), self.peers)]  # L36

    def on_new_leader(self, b: Ballot, lives: Lives) -> list[Effect]:  # L37
        s = self.state
        if b <= s.ballot:  # L38
            return []
        s.status = Status.RECOVERING  # L39
        s.ballot = b  # L40
        s.votes = {}
        ack = NewLeaderAck(b, s.cballot, s.clock, self.snapshot(), tuple(self.lives), self.past())
        return [Send(ack, (b.leader,))]  # L41

    def past(self) -> object:
        """What went before; see wbcast_rejoin.py."""
        return None

    def snapshot(self) -> Snapshot:
        s = self.state
        return Snapshot(dict(s.messages), dict(s.phase), dict(s.local_ts), dict(s.global_ts))

    def on_new_leader_ack(self, ack: NewLeaderAck, sender: ProcessId) -> list[Effect]:  # L42
        s = self.state
        if s.status is not Status.RECOVERING or s.ballot != ack.b or s.cballot == ack.b:  # L43
            return []
        s.votes[sender] = ack
        votes = self.countable(s.votes)
        return [] if len(votes) < self.quorum else self.begin_ballot(votes)

    def countable(self, votes: dict[ProcessId, NewLeaderAck]) -> list[NewLeaderAck]:
        return list(votes.values())

    def begin_ballot(self, votes: list[NewLeaderAck]) -> list[Effect]:
        s = self.state
        newest = max(vote.cballot for vote in votes)
        self.adopt(
            self.merged(votes, [v for v in votes if v.cballot == newest]),  # L44-L53
            self.recovered_clock(votes),  # L54
        )
        s.cballot = s.ballot  # L55
        s.synced = {self.me}
        others = tuple(p for p in self.peers if p != self.me)
        return [Send(self.new_state(), others), *self.lead_if_synced()]  # L56

    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        messages: dict[MessageId, Message] = {}
        phase: dict[MessageId, Phase] = {}
        local_ts: dict[MessageId, Timestamp] = {}
        global_ts: dict[MessageId, Timestamp] = {}

        def take(vote: NewLeaderAck, wanted: Phase) -> None:
            had = vote.snapshot
            for mid, known in had.phase.items():
                if known is wanted and mid not in phase:
                    messages[mid] = had.messages[mid]
                    phase[mid] = wanted
                    local_ts[mid] = had.local_ts[mid]
                    if wanted is Phase.COMMITTED:
                        global_ts[mid] = had.global_ts[mid]

        for vote in votes:
            take(vote, Phase.COMMITTED)  # L47-L50
        for vote in J:  # L45
            take(vote, Phase.ACCEPTED)  # L51-L53
        return Snapshot(messages, phase, local_ts, global_ts)

    def recovered_clock(self, votes: list[NewLeaderAck]) -> int:
        return max(vote.clock for vote in votes)

    def adopt(self, snapshot: Snapshot, clock: int) -> None:
        """L44-L54, L61. DEVIATION: what counts as Delivered begins anew with the ballot, as L66
        has it. Kept from an earlier ballot of ours, it would hide from L21 a message that this
        ballot holds as ACCEPTED, and the group would never deliver it."""
        s = self.state
        s.clock = clock
        s.messages = dict(snapshot.messages)
        s.phase = dict(snapshot.phase)
        s.local_ts = dict(snapshot.local_ts)
        s.global_ts = dict(snapshot.global_ts)
        s.acks = {}
        s.pending = [(s.local_ts[mid], mid) for mid, p in s.phase.items() if p < Phase.COMMITTED]
        s.committed = [(gts, mid) for mid, gts in s.global_ts.items()]
        heapify(s.pending)
        heapify(s.committed)

    def new_state(self) -> NewState:
        s = self.state
        return NewState(s.cballot, s.clock, self.snapshot(), tuple(self.lives))

    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:  # L57
        s = self.state
        # DEVIATION: a ballot above ours is joined even if its NEWLEADER never came: it was sent
        # while we were down. This is NEWLEADER and NEW_STATE in one step, without our vote.
        if s.ballot > new.b or s.cballot == new.b:  # L58
            return []
        s.ballot = new.b
        s.status = Status.FOLLOWER  # L59
        s.cballot = new.b  # L60
        self.adopt(new.snapshot, new.clock)  # L61
        if not self.decides():
            s.committed = []
        return [Send(NewStateAck(new.b), (sender,))]  # L62

    def on_new_state_ack(self, b: Ballot, sender: ProcessId) -> list[Effect]:  # L63
        s = self.state
        if s.status is not Status.RECOVERING or s.ballot != b or s.cballot != b:  # L64
            return []
        s.synced.add(sender)
        return self.lead_if_synced()

    def lead_if_synced(self) -> list[Effect]:
        if len(self.state.synced) < self.quorum:
            return []
        self.state.status = Status.LEADER  # L65
        return self.deliver_in_order()  # L66-L68

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        return self.handlers[message.__class__](message, sender)

    def table(self) -> dict[type[Wire], Handler]:
        return {
            MulticastMsg: lambda w, _: self.on_multicast(w.m),
            Accept: lambda w, _: self.on_accept(w),
            AcceptAck: self.on_accept_ack,
            DeliverMsg: lambda w, _: self.on_deliver(w),
            NewLeader: lambda w, _: self.on_new_leader(w.b, w.lives),
            NewLeaderAck: self.on_new_leader_ack,
            NewState: self.on_new_state,
            NewStateAck: lambda w, p: self.on_new_state_ack(w.b, p),
        }
