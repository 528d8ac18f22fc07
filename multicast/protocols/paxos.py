"""Multi-Paxos: one replicated log per group (Lamport, "The Part-Time Parliament").

A module for protocols that take consensus as a black box. Towards the layer above:

    Request(Append(value))   at the leader: put it into the log; elsewhere it is lost, and whoever
                             wants it in must ask again
    Replied(Entry)           at every member, slot by slot, without gaps
    Replied(Leads)           here: from now on this member leads, and knows all that was chosen
                             before; the entries it took over are still to come
    Replied(Deposed)         here: another ballot is on

An entry is chosen one round trip after the leader proposed it, and known to the others one delay
later. Each ballot is tried by one process; one that finds no quorum is tried again, higher.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import (
    CancelTimer,
    Effect,
    Event,
    LocalTime,
    MessageId,
    Nominate,
    ProcessId,
    Receive,
    Reply,
    Request,
    Send,
    SetTimer,
    Timer,
    Wire,
)
from shmcast.multicast.protocols.quorum import Tally
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot

PATIENCE_TICKS = 15_000
BACKOFF_MAX = 4
LEAD = "lead"


class Noop:
    """Fills a slot that a dead leader may have used."""

    def __repr__(self) -> str:
        return "noop"


NOOP = Noop()


# What the layer above says and hears ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    value: object


@dataclass(frozen=True, slots=True)
class Entry:
    slot: int
    value: object


@dataclass(frozen=True, slots=True)
class Leads:
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Deposed:
    leader: ProcessId


# Between members --------------------------------------------------------------------------------


def about(value: object) -> tuple[MessageId, ...]:
    named = getattr(value, "about", None)
    return () if named is None else tuple(named())


@dataclass(frozen=True, slots=True)
class Prepare(Wire):  # 1a
    b: Ballot


@dataclass(frozen=True, slots=True)
class Promise(Wire):  # 1b
    b: Ballot
    accepted: Mapping[int, tuple[Ballot, object]]
    chosen: Mapping[int, object]


@dataclass(frozen=True, slots=True)
class Propose(Wire):  # 2a
    b: Ballot
    slot: int
    value: object

    def about(self) -> tuple[MessageId, ...]:
        return about(self.value)


@dataclass(frozen=True, slots=True)
class Accepted(Wire):  # 2b
    b: Ballot
    slot: int


@dataclass(frozen=True, slots=True)
class Chosen(Wire):
    entries: Mapping[int, object]

    def about(self) -> tuple[MessageId, ...]:
        return tuple(mid for value in self.entries.values() for mid in about(value))


@dataclass(slots=True)
class State:
    promised: Ballot  # acceptor: never decreases
    leading: Ballot | None  # leader: the ballot whose first phase is done
    trying: Ballot | None = None  # candidate
    accepted: dict[int, tuple[Ballot, object]] = field(default_factory=dict)
    chosen: dict[int, object] = field(default_factory=dict)
    next_out: int = 0  # the first slot not yet handed to the layer above
    next_slot: int = 0  # the leader's first free slot
    open: dict[int, Tally[Ballot]] = field(default_factory=dict)  # proposed, not yet chosen


class Paxos:
    def __init__(
        self, topology: Topology, me: ProcessId, patience_ticks: int = PATIENCE_TICKS
    ) -> None:
        group = topology.group_of(me)
        assert group is not None, "a client keeps no log"
        self.group = group
        self.peers = topology.groups[group]
        self.others = tuple(p for p in self.peers if p != me)
        self.me = me
        self.patience_ticks = patience_ticks
        self.nominated = self.peers[0]
        self.promises: Tally[Promise] = Tally(self.peers)
        self.failures = 0
        self.armed = False
        self.chosen_at_arming = 0
        first = Ballot(1, self.peers[0])
        self.state = State(first, first if me == first.leader else None)

    # Leader -------------------------------------------------------------------------------

    def append(self, value: object) -> list[Effect]:
        s = self.state
        if s.leading is None:
            return []
        slot, s.next_slot = s.next_slot, s.next_slot + 1
        return self.propose(slot, value)

    def propose(self, slot: int, value: object) -> list[Effect]:
        s = self.state
        assert s.leading is not None
        s.open[slot] = Tally(self.peers)
        return [Send(Propose(s.leading, slot, value), self.peers)]

    def on_accepted(self, b: Ballot, slot: int, sender: ProcessId) -> list[Effect]:
        s = self.state
        tally = s.open.get(slot)
        if s.leading != b or tally is None or not tally.add(sender, b):
            return []
        del s.open[slot]
        self.failures = 0
        entries = {slot: s.accepted[slot][1]}
        return [*self.learn(entries), Send(Chosen(entries), self.others)]

    def prepare(self) -> list[Effect]:
        s = self.state
        s.trying = Ballot(max(s.promised.n, s.trying.n if s.trying else 0) + 1, self.me)
        self.promises = Tally(self.peers)
        return [Send(Prepare(s.trying), self.peers)]

    def on_promise(self, promise: Promise, sender: ProcessId) -> list[Effect]:
        s = self.state
        if promise.b != s.trying or not self.promises.add(sender, promise):
            return []
        s.leading, s.trying = promise.b, None
        s.open = {}
        votes = list(self.promises.votes.values())
        for vote in votes:
            s.chosen.update(vote.chosen)
        values = self.safe_values(votes)
        s.next_slot = max([*values, *s.chosen], default=-1) + 1
        effects: list[Effect] = [*self.hand_out(), Send(Chosen(dict(s.chosen)), self.others)]
        for slot in range(s.next_slot):
            if slot not in s.chosen:
                effects += self.propose(slot, values.get(slot, NOOP))
        return [*effects, Reply(Leads(promise.b))]

    def safe_values(self, votes: list[Promise]) -> dict[int, object]:
        """Of each slot, the value accepted in the highest ballot: it may have been chosen."""
        best: dict[int, tuple[Ballot, object]] = {}
        for vote in votes:
            for slot, (b, value) in vote.accepted.items():
                if slot not in best or best[slot][0] < b:
                    best[slot] = (b, value)
        return {slot: value for slot, (_, value) in best.items()}

    # Acceptor -----------------------------------------------------------------------------

    def on_prepare(self, b: Ballot) -> list[Effect]:
        s = self.state
        if b <= s.promised:
            return []
        s.promised = b
        promise = Promise(b, dict(s.accepted), dict(s.chosen))
        return [*self.step_down(b), Send(promise, (b.leader,))]

    def step_down(self, b: Ballot) -> list[Effect]:
        s = self.state
        if s.leading is None or s.leading >= b:
            return []
        s.leading = None
        s.open = {}
        return [Reply(Deposed(b.leader))]

    def on_propose(self, b: Ballot, slot: int, value: object) -> list[Effect]:
        s = self.state
        if not self.may_accept(b):
            return []
        s.promised = b
        s.accepted[slot] = (b, value)
        return [*self.step_down(b), Send(Accepted(b, slot), (b.leader,))]

    def may_accept(self, b: Ballot) -> bool:
        return b >= self.state.promised

    # Learner ------------------------------------------------------------------------------

    def learn(self, entries: Mapping[int, object]) -> list[Effect]:
        self.state.chosen.update(entries)
        return self.hand_out()

    def hand_out(self) -> list[Effect]:
        s = self.state
        effects: list[Effect] = []
        while s.next_out in s.chosen:
            value = s.chosen[s.next_out]
            if value is not NOOP:
                effects.append(Reply(Entry(s.next_out, value)))
            s.next_out += 1
        return effects

    # Liveness -----------------------------------------------------------------------------

    def watch(self, now: LocalTime) -> list[Effect]:
        """A timer runs while we are nominated and do not lead, or are not answered. One who leads
        without being nominated leaves it to the nominee: else the two would never stop."""
        s = self.state
        waits = self.nominated == self.me and (s.leading is None or bool(s.open))
        if waits == self.armed:
            return []
        self.armed = waits
        self.chosen_at_arming = len(s.chosen)
        if not waits:
            return [CancelTimer(LEAD)]
        after = self.patience_ticks << min(self.failures, BACKOFF_MAX)
        rank = self.peers.index(self.me)  # unequal waits, so that two candidates come apart
        return [SetTimer(LEAD, now + after + rank * self.patience_ticks // 5)]

    def on_timer(self) -> list[Effect]:
        self.armed = False
        if self.state.leading and len(self.state.chosen) > self.chosen_at_arming:
            return []  # busy, not stuck
        self.failures += 1
        return self.prepare()

    def on_nominate(self, group: int, leader: ProcessId) -> list[Effect]:
        if group != self.group:
            return []
        self.nominated = leader
        return self.prepare() if leader == self.me and not self.state.leading else []

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Receive(message, sender):
                effects = self.on_message(message, sender)
            case Request(Append(value)):
                effects = self.append(value)
            case Nominate(group, leader):
                effects = self.on_nominate(group, leader)
            case Timer():
                effects = self.on_timer()
        return effects + self.watch(now)

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        effects: list[Effect] = []
        match message:
            case Propose(b, slot, value):
                effects = self.on_propose(b, slot, value)
            case Accepted(b, slot):
                effects = self.on_accepted(b, slot, sender)
            case Chosen(entries):
                effects = self.learn(entries)
            case Prepare(b):
                effects = self.on_prepare(b)
            case Promise():
                effects = self.on_promise(message, sender)
        return effects
