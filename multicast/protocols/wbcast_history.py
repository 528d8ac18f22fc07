"""What WbCast's invariants must know of a run beyond its present state: the messages sent, and
what their senders held at that moment. Fed step by step; a step costs what it changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import (
    Event,
    GroupId,
    LocalTime,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Restart,
    Send,
    Suspect,
    Timestamp,
    Trust,
    Wire,
)
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.registry import World
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    Ballot,
    Ballots,
    Collect,
    DeliverMsg,
    NewLeaderAck,
    NewState,
    NewStateAck,
    Phase,
)

LocalTS = dict[MessageId, Timestamp]


@dataclass(slots=True)
class Vote:
    """The premise of invariants 2, 5, 17 and 19: who of group `g` acknowledged m with Bal."""

    mid: MessageId
    g: GroupId
    bal: Ballots
    own: Ballot  # Bal(g)
    lts: Timestamp  # Lts(g)
    gts: Timestamp
    voters: set[ProcessId] = field(default_factory=set)
    leader_had: LocalTS | None = None  # LocalTS of leader(Bal(g)) when it acknowledged
    leader_at: int = 0  # the step of that


@dataclass(slots=True)
class Sync:
    """The premise of invariant 18: a NEW_STATE and who acknowledged it."""

    b: Ballot
    local_ts: LocalTS
    gts: Timestamp | None  # the highest in it: the lower ones ask for less
    at: int
    voters: set[ProcessId] = field(default_factory=set)


@dataclass(slots=True)
class Sent:
    """A DELIVER, and the step that sent it first."""

    d: DeliverMsg
    g: GroupId
    at: int


@dataclass(slots=True)
class Collected:
    """A COLLECT, and whom its leader need not wait for: it has suspected them for long."""

    mark: Timestamp
    absent: frozenset[ProcessId]


@dataclass(slots=True)
class Step:
    """What the last step did, as far as invariants care."""

    process: ProcessId = -1
    machine: Member | None = None  # None: it crashed, or is a client
    touched: tuple[MessageId, ...] = ()
    ballot_changed: bool = False
    accepts: list[Accept] = field(default_factory=list)
    acks: list[AcceptAck] = field(default_factory=list)
    delivers: list[Sent] = field(default_factory=list)
    accepted: list[Vote] = field(default_factory=list)  # those that became quorums


@dataclass(slots=True)
class History:
    topology: Topology
    steps: int = 0
    last: Step = field(default_factory=Step)
    multicast: set[MessageId] = field(default_factory=set)
    accepts: dict[tuple[MessageId, GroupId, Ballot], Timestamp] = field(default_factory=dict)
    held: dict[tuple[GroupId, Ballot], LocalTS] = field(default_factory=lambda: defaultdict(dict))
    """By a leader in its ballot, at any time."""
    votes: dict[tuple[MessageId, GroupId, Ballots], Vote] = field(default_factory=dict)
    accepted: dict[GroupId, dict[Ballot, list[Vote]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By a quorum of the group; by Bal(g)."""
    by_message: dict[MessageId, list[Vote]] = field(default_factory=lambda: defaultdict(list))
    delivers: dict[MessageId, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    syncs: dict[tuple[GroupId, Ballot], Sync] = field(default_factory=dict)
    cballots: dict[ProcessId, Ballot] = field(default_factory=dict)
    suspected: dict[ProcessId, dict[ProcessId, LocalTime]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By whom, whom, and since when on the own clock."""
    committed: dict[tuple[GroupId, MessageId], set[ProcessId]] = field(
        default_factory=lambda: defaultdict(set)
    )
    """Who has held it as COMMITTED."""
    collects: dict[GroupId, list[Collected]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, world: World) -> None:
        assert world.step is not None
        self.steps += 1
        machine = world.machines.get(world.step.process)
        step = Step(world.step.process, machine if isinstance(machine, Member) else None)
        self.last = step
        event = world.step.event
        if isinstance(event, Multicast):
            self.multicast.add(event.message.id)
        if step.machine is not None:
            self._opinions(step.machine, event)
            self._changes(step, step.machine, event.message if isinstance(event, Receive) else None)
        for effect in world.step.effects:
            if isinstance(effect, Send):
                self._sent(step, effect.message, effect.to)

    def _opinions(self, machine: Member, event: Event) -> None:
        match event:
            case Suspect(process):
                self.suspected[machine.me].setdefault(process, machine.now)
            case Trust(process):
                self.suspected[machine.me].pop(process, None)
            case Restart():
                self.suspected[machine.me] = {}

    def _changes(self, step: Step, machine: Member, message: Wire | None) -> None:
        s = machine.state
        if self.cballots.get(step.process) != s.cballot:
            self.cballots[step.process] = s.cballot
            step.ballot_changed = True
        if step.ballot_changed or isinstance(message, NewLeaderAck | NewState | NewStateAck):
            step.touched = tuple(s.phase)
        elif message is not None:
            step.touched = message.about()
        for mid in step.touched:
            if s.phase.get(mid) is Phase.COMMITTED:
                self.committed[machine.g0, mid].add(step.process)
        if s.cballot.leader == step.process:
            held = self.held[machine.g0, s.cballot]
            for mid in step.touched:
                if mid in s.local_ts:
                    held[mid] = s.local_ts[mid]

    def _sent(self, step: Step, message: Wire, to: tuple[ProcessId, ...]) -> None:
        g = self.topology.group_of(step.process)
        if g is None:
            return
        match message:
            case Accept():
                step.accepts.append(message)
                self.held[g, message.bal].setdefault(message.m.id, message.lts)
            case AcceptAck():
                step.acks.append(message)
                self._vote(step, message)
            case DeliverMsg():
                step.delivers.append(Sent(message, g, self.steps))
            case NewState(b, _, snapshot, _):
                top = max(snapshot.global_ts.values(), default=None)
                self.syncs[g, b] = Sync(b, dict(snapshot.local_ts), top, self.steps, {step.process})
            case Collect(_, mark):
                self.collects[g].append(Collected(mark, self._absent(step)))
            case NewStateAck(b):
                self.syncs[g, b].voters.add(step.process)

    def _absent(self, step: Step) -> frozenset[ProcessId]:
        """Campaigns keep no payloads, so HELD_BYTES_MAX shortens no patience."""
        machine = step.machine
        if machine is None:
            return frozenset()
        since = self.suspected[step.process].items()
        return frozenset(p for p, at in since if machine.now - at >= machine.lag_ticks)

    def was_collected(self, g: GroupId, mid: MessageId) -> bool:
        """A quorum of the group has committed it, and a COLLECT of the group went past it."""
        gts = next((sent.d.gts for sent in self.delivers[mid] if sent.g == g), None)
        enough = len(self.committed[g, mid]) >= majority(len(self.topology.groups[g]))
        return gts is not None and enough and any(c.mark >= gts for c in self.collects[g])

    def may_miss(self, process: ProcessId, gts: Timestamp) -> bool:
        """Whether what was dropped up to `gts` was not to wait for this process."""
        g = self.topology.group_of(process)
        assert g is not None
        return any(c.mark >= gts and process in c.absent for c in self.collects[g])

    def _vote(self, step: Step, ack: AcceptAck) -> None:
        key = (ack.mid, ack.g, ack.bal)
        vote = self.votes.get(key)
        if vote is None:
            vote = self.votes[key] = self._new_vote(ack)
        if step.process in vote.voters:
            return
        vote.voters.add(step.process)
        if step.process == vote.own.leader and step.machine is not None:
            vote.leader_had = dict(step.machine.state.local_ts)
            vote.leader_at = self.steps
        if len(vote.voters) == majority(len(self.topology.groups[ack.g])):
            step.accepted.append(vote)
            self.accepted[ack.g].setdefault(vote.own, []).append(vote)
            self.by_message[ack.mid].append(vote)

    def _new_vote(self, ack: AcceptAck) -> Vote:
        """Bal is in the order of dest(m); each of its ballots sent one ACCEPT (invariant 1)."""
        lts: dict[GroupId, Timestamp] = {}
        own = ack.bal[0]
        for bal in ack.bal:
            g = self.topology.group_of(bal.leader)
            assert g is not None
            lts[g] = self.accepts[ack.mid, g, bal]
            if g == ack.g:
                own = bal
        return Vote(ack.mid, ack.g, ack.bal, own, lts[ack.g], max(lts.values()))

    def accepted_below(self, g: GroupId, b: Ballot) -> Iterator[Vote]:
        for own, votes in self.accepted[g].items():
            if own < b:
                yield from votes

    def remember(self) -> None:
        """After the invariants of this step have been checked against those before it."""
        for accept in self.last.accepts:
            self.accepts.setdefault((accept.m.id, accept.g, accept.bal), accept.lts)
        for sent in self.last.delivers:
            self.delivers[sent.d.m.id].append(sent)
