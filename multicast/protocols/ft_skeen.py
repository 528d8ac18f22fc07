"""Fault-tolerant Skeen: each group is one process of Fig. 1 of paper 000, replicated with Paxos.

The baseline of §IV: consensus is a black box (paxos.py), and the leader of a group does what the
process of Fig. 1 does. "Two round trips from the Paxos leader of a group to a quorum … one to
persist the local timestamp (line 10 in Figure 1) and another to persist the global timestamp and
update the clock (lines 14-15)." "L9" is line 9 of that figure.

    MULTICAST   δ   Local chosen   2δ   PROPOSE   δ   Global chosen   2δ   = 6δ

What the paper leaves out of its sketch, and a change of leaders needs: a leader first appends a
Barrier with its ballot, and a Local of an earlier ballot that comes after it is void. Else a
timestamp that the leader did not know could come back below what it has delivered.

A baseline for comparison: delivered messages are kept for ever, crashed members stay away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import cast

from shmcast.multicast.protocols.core import (
    BOTTOM,
    Ask,
    Deliver,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Machine,
    Message,
    MessageId,
    Multicast,
    Nominate,
    ProcessId,
    Receive,
    Replied,
    Request,
    Send,
    SetTimer,
    Timer,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.ft_skeen_wire import Barrier, DeliverMsg, Global, Local, Propose
from shmcast.multicast.protocols.paxos import (
    PATIENCE_TICKS,
    Append,
    Deposed,
    Entry,
    Leads,
    Paxos,
)
from shmcast.multicast.protocols.registry import (
    Build,
    Invariant,
    Options,
    Spec,
    Tolerates,
    World,
    minority,
    register,
    ticks,
)
from shmcast.multicast.protocols.stack import Stack
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_session import AGAIN, Client, Sender
from shmcast.multicast.protocols.wbcast_wire import Ballot, Done, MulticastMsg, Redirect

RETRY = "retry"
RETRY_TICKS = 30_000


@dataclass(slots=True)
class State:
    """Fig. 1 L1-L5. The first block is what the log says, equal at all members that know as much
    of it; the second is the leader's, and begins anew with its ballot."""

    epoch: Ballot
    clock: int = 0
    messages: dict[MessageId, Message] = field(default_factory=dict)
    local_ts: dict[MessageId, Timestamp] = field(default_factory=dict)
    persisted: dict[MessageId, set[Timestamp]] = field(default_factory=dict)  # Globals chosen
    proposals: dict[MessageId, dict[GroupId, Timestamp]] = field(default_factory=dict)  # L13
    delivered: dict[MessageId, Timestamp] = field(default_factory=dict)  # in order
    max_delivered_gts: Timestamp = BOTTOM

    leading: bool = False
    pending: dict[MessageId, Timestamp] = field(default_factory=dict)  # PROPOSED
    by_lts: list[tuple[Timestamp, MessageId]] = field(default_factory=list)
    asked: dict[MessageId, Timestamp] = field(default_factory=dict)  # Globals appended
    committed: list[tuple[Timestamp, MessageId]] = field(default_factory=list)


class FtSkeen:
    """The layer above "paxos"."""

    def __init__(self, topology: Topology, me: ProcessId, retry_ticks: int = RETRY_TICKS) -> None:
        g0 = topology.group_of(me)
        assert g0 is not None
        self.topology, self.me, self.g0 = topology, me, g0
        self.peers = topology.groups[g0]
        self.cur_leader = {g: members[0] for g, members in enumerate(topology.groups)}
        self.retry_ticks = retry_ticks
        self.sender = Sender(topology, self.cur_leader, retry_ticks)
        self.armed = False
        self.ballot: Ballot | None = None  # that Paxos gave us to lead, and has not taken back
        first = Ballot(1, self.peers[0])
        self.state = State(first, leading=me == first.leader)

    def on_multicast(self, m: Message, sender: ProcessId) -> list[Effect]:  # L8
        s = self.state
        if not s.leading:
            leader = self.cur_leader[self.g0]
            return [Send(Redirect(m.id, self.g0, leader), (sender,))] if leader != self.me else []
        if m.id in s.local_ts:
            done = [Send(Done(m.id, self.g0), (m.id.sender,))] if m.id in s.delivered else []
            return [*self.propose(m), *done]
        if m.id in s.pending:
            return []
        s.clock += 1  # L9
        lts = Timestamp(s.clock, self.g0)  # L10
        self.wait_for(m, lts)  # L11
        return [Ask("paxos", Request(Append(Local(s.epoch, m, lts)))), *self.on_assigned(m, lts)]

    def on_assigned(self, m: Message, lts: Timestamp) -> list[Effect]:
        return []

    def wait_for(self, m: Message, lts: Timestamp) -> None:
        s = self.state
        s.messages[m.id] = m
        s.pending[m.id] = lts
        heappush(s.by_lts, (lts, m.id))

    def on_local(self, entry: Local) -> list[Effect]:
        s, m = self.state, entry.m
        if not self.is_current(entry) or m.id in s.local_ts:
            return []
        s.messages[m.id] = m
        s.local_ts[m.id] = entry.lts
        s.clock = max(s.clock, entry.lts.time)
        return self.propose(m) if s.leading else []

    def is_current(self, entry: Local) -> bool:
        return entry.epoch == self.state.epoch

    def propose(self, m: Message) -> list[Effect]:  # L12
        proposal = Propose(m, self.g0, self.state.local_ts[m.id])
        return [Send(proposal, self.topology.members(m.dest))]

    def on_propose(self, p: Propose) -> list[Effect]:  # L13
        self.state.proposals.setdefault(p.m.id, {})[p.g] = p.lts
        return self.advance(p.m) if self.state.leading else []

    def advance(self, m: Message) -> list[Effect]:
        """Persists the global timestamp as soon as it is known, commits when that is done."""
        s = self.state
        if m.id not in s.pending or m.id not in s.local_ts:
            return []
        proposals = s.proposals.get(m.id, {})
        if len(proposals) < len(m.dest):
            return []
        gts = max(proposals.values())  # L14
        if gts in s.persisted.get(m.id, ()):
            return self.commit(m, gts)
        return self.persist(m, gts)

    def persist(self, m: Message, gts: Timestamp) -> list[Effect]:
        if self.state.asked.get(m.id) == gts:
            return []
        self.state.asked[m.id] = gts
        return [Ask("paxos", Request(Append(Global(m, gts))))]

    def on_global(self, m: Message, gts: Timestamp) -> list[Effect]:
        s = self.state
        s.clock = self.clock_after(gts)  # L15
        s.persisted.setdefault(m.id, set()).add(gts)
        return self.advance(m) if s.leading else []

    def clock_after(self, gts: Timestamp) -> int:
        return max(self.state.clock, gts.time)

    def commit(self, m: Message, gts: Timestamp) -> list[Effect]:
        s = self.state
        del s.pending[m.id]  # L16
        heappush(s.committed, (gts, m.id))
        return self.deliver_in_order()

    def deliver_in_order(self) -> list[Effect]:  # L17-L24
        s = self.state
        effects: list[Effect] = []
        while s.committed and self.may_deliver(s.committed[0][0]):
            gts, mid = heappop(s.committed)
            effects.append(Send(DeliverMsg(s.messages[mid], gts), self.peers))
        return effects

    def may_deliver(self, gts: Timestamp) -> bool:
        """L20-L21, with timestamps that are not yet chosen: only the leader knows those."""
        s = self.state
        while s.by_lts and s.pending.get(s.by_lts[0][1]) != s.by_lts[0][0]:
            heappop(s.by_lts)
        return not s.by_lts or s.by_lts[0][0] > gts

    def on_deliver(self, m: Message, gts: Timestamp) -> list[Effect]:
        s = self.state
        if gts <= s.max_delivered_gts:
            return []  # a new leader repeats
        s.max_delivered_gts = gts
        s.messages[m.id] = m
        s.delivered[m.id] = gts
        done = [Send(Done(m.id, self.g0), (m.id.sender,))] if s.leading else []
        return [Deliver(m, gts), *done]

    # Change of leaders --------------------------------------------------------------------

    def on_leads(self, ballot: Ballot) -> list[Effect]:
        self.ballot = ballot
        return [Ask("paxos", Request(Append(Barrier(ballot))))]

    def on_deposed(self, leader: ProcessId) -> None:
        self.ballot = None
        self.state.leading = False
        self.cur_leader[self.g0] = leader

    def on_barrier(self, epoch: Ballot) -> list[Effect]:
        s = self.state
        if epoch < s.epoch:
            return []
        s.epoch = epoch
        self.cur_leader[self.g0] = epoch.leader
        # Our barrier may become known to us when somebody else leads and has adopted it.
        return self.take_over() if epoch == self.ballot else []

    def take_over(self) -> list[Effect]:
        s = self.state
        s.leading = True
        s.pending, s.by_lts, s.asked, s.committed = {}, [], {}, []
        effects: list[Effect] = [
            Send(DeliverMsg(s.messages[mid], gts), self.peers) for mid, gts in s.delivered.items()
        ]
        waiting = [mid for mid in s.local_ts if mid not in s.delivered]
        for mid in waiting:
            self.wait_for(s.messages[mid], s.local_ts[mid])
        for mid in waiting:
            m = s.messages[mid]
            effects += [*self.propose(m), *self.ask_again(m), *self.advance(m)]
        return effects

    def ask_again(self, m: Message) -> list[Effect]:
        others = self.topology.members(tuple(g for g in m.dest if g != self.g0))
        return [Send(MulticastMsg(m), others)] if others else []

    def on_retry_timer(self) -> list[Effect]:
        s = self.state
        self.armed = False
        if not s.leading:
            return []
        effects: list[Effect] = []
        for mid in s.pending:
            effects += self.ask_again(s.messages[mid])
            if mid in s.local_ts:
                effects += self.propose(s.messages[mid])
        return effects

    # Dispatch -----------------------------------------------------------------------------

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Receive(message, sender):
                effects = self.on_message(message, sender)
            case Replied(what, _):
                effects = self.on_log(what)
            case Multicast(m):
                effects = self.sender.multicast(m, now)
            case Timer(name) if name == AGAIN:
                effects = self.sender.on_timer(now)
            case Timer():
                effects = self.on_retry_timer()
            case Nominate(group, leader):
                self.cur_leader[group] = leader
        if self.state.pending and self.state.leading and not self.armed:
            self.armed = True
            effects = [*effects, SetTimer(RETRY, now + self.retry_ticks)]
        return effects

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        effects: list[Effect] = []
        match message:
            case MulticastMsg(m):
                effects = self.on_multicast(m, sender)
            case Propose():
                effects = self.on_propose(message)
            case DeliverMsg(m, gts):
                effects = self.on_deliver(m, gts)
            case Done(mid, g):
                effects = self.sender.on_done(mid, g)
            case Redirect():
                effects = self.sender.on_redirect(message)
        return effects

    def on_log(self, what: object) -> list[Effect]:
        effects: list[Effect] = []
        match what:
            case Entry(_, Local() as local):
                effects = self.on_local(local)
            case Entry(_, Global(m, gts)):
                effects = self.on_global(m, gts)
            case Entry(_, Barrier(epoch)):
                effects = self.on_barrier(epoch)
            case Leads(ballot):
                effects = self.on_leads(ballot)
            case Deposed(leader):
                self.on_deposed(leader)
        return effects


def build_with(kind: type[FtSkeen]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        retry_ticks = ticks(options, "retry_ticks", RETRY_TICKS)
        if topology.group_of(process) is None:
            return Stack.linear(("skeen", Client(topology, retry_ticks)))
        patience_ticks = ticks(options, "patience_ticks", PATIENCE_TICKS)
        return Stack.linear(
            ("skeen", kind(topology, process, retry_ticks)),
            ("paxos", Paxos(topology, process, patience_ticks)),
        )

    return build


def logs_agree() -> Invariant:
    """Consensus: no two members know different values of one slot. Each slot is compared when
    a member has learned it and all before it."""
    known: dict[ProcessId, int] = {}

    def checked(world: World) -> None:
        assert world.step is not None
        me = world.step.process
        machine = world.machines.get(me)
        group = world.topology.group_of(me)
        if group is None or not isinstance(machine, Stack):
            return
        mine = cast("Paxos", machine["paxos"]).state
        for slot in range(known.get(me, 0), mine.next_out):
            value = mine.chosen[slot]
            for process in world.topology.groups[group]:
                other = world.machines.get(process)
                if isinstance(other, Stack):
                    theirs = cast("Paxos", other["paxos"]).state.chosen.get(slot, value)
                    assert theirs == value, f"slot {slot}"
        known[me] = mine.next_out

    checked.__name__ = "logs_agree"
    return checked


PROMISES = (
    "multicast-validity",
    "uniform-agreement",
    "uniform-integrity",
    "termination",
    "ordering",
    "uniform-global-total",
    "timestamp-order",
    "genuineness",
)
TOLERATES = Tolerates(
    crashes_per_group=minority, client_crashes=True, partitions=True, nominations=True
)
SHAPES = (
    Topology.regular(groups=2, replicas=3, clients=2),
    Topology.regular(groups=3, replicas=3, clients=3),
    Topology.regular(groups=1, replicas=5, clients=2),
)

PROTOCOL = register(
    Spec(
        name="ft-skeen",
        build=build_with(FtSkeen),
        promises=PROMISES,
        tolerates=TOLERATES,
        shapes=SHAPES,
        invariants=lambda: [logs_agree()],
    )
)
