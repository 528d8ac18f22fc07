"""What a group decides, in order: consensus within a group (paper 002 §2.2), as §6 builds it.

A module for stack.py: Paxos with a leader that has run phase 1 before values are proposed.
Instances run in parallel, one per value. "The destinations are learners": phase 2B goes to the
group and to the groups that a value is for.

A new leader takes over the longest log of the highest ballot that a quorum knows, as a whole. So
what is decided at one place fixes all places before it, which lets a leader stamp values while it
proposes them and number them for each learning group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from shmcast.multicast.protocols.core import (
    Effect,
    Event,
    GroupId,
    LocalTime,
    MessageId,
    Nominate,
    ProcessId,
    Receive,
    Reply,
    Request,
    Send,
    Start,
    Wire,
)
from shmcast.multicast.protocols.quorum import Tally, majority
from shmcast.multicast.protocols.topology import Topology


class Value(Protocol):
    @property
    def to(self) -> tuple[GroupId, ...]:
        """The other groups that learn it."""

    def about(self) -> tuple[MessageId, ...]: ...


class Ballot(NamedTuple):
    round: int
    leader: ProcessId


class Slot(NamedTuple):
    number: int
    value: Value
    places: tuple[int, ...]  # beside value.to: its number among what that group learns


Log = tuple[Slot, ...]


# What the layer above says and hears -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Asked of a leader only; a value that is lost with its leader must be asked for again."""

    value: Value


@dataclass(frozen=True, slots=True)
class Leads:
    """This process may append from now on, after these values."""

    log: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Follows:
    """This process may not append any more."""


@dataclass(frozen=True, slots=True)
class Learned:
    """`group` decided `value`: of the own group every value, of another those for this one."""

    group: GroupId
    value: Value


# Messages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accept(Wire):
    """Phase 2A."""

    bal: Ballot
    slot: Slot

    def about(self) -> tuple[MessageId, ...]:
        return self.slot.value.about()


@dataclass(frozen=True, slots=True)
class Accepted(Wire):
    """Phase 2B, to all learners."""

    bal: Ballot
    g: GroupId
    slots: Log

    def about(self) -> tuple[MessageId, ...]:
        return tuple(mid for slot in self.slots for mid in slot.value.about())


@dataclass(frozen=True, slots=True)
class NewLeader(Wire):
    """Phase 1A."""

    bal: Ballot


@dataclass(frozen=True, slots=True)
class Promise(Wire):
    """Phase 1B: the log as of ballot `cbal`."""

    bal: Ballot
    cbal: Ballot
    log: Log


@dataclass(frozen=True, slots=True)
class NewLog(Wire):
    bal: Ballot
    log: Log


@dataclass(frozen=True, slots=True)
class Refused(Wire):
    """A higher ballot is promised."""

    bal: Ballot


@dataclass(slots=True)
class Learner:
    """Votes on the slots of one group, from the first one not learned yet."""

    next: int = 0
    votes: dict[tuple[int, Ballot], set[ProcessId]] = field(default_factory=dict)
    chosen: dict[int, Value] = field(default_factory=dict)


@dataclass(slots=True)
class State:
    me: ProcessId
    g: GroupId
    nominated: ProcessId
    promised: Ballot
    cbal: Ballot  # the ballot that `log` is of
    log: list[Slot] = field(default_factory=list)
    leading: bool = False
    numbers: dict[GroupId, int] = field(default_factory=lambda: defaultdict(int))
    candidate: Ballot | None = None  # the ballot that `promises` are for
    promises: Tally[Promise] = field(init=False)
    learners: dict[GroupId, Learner] = field(default_factory=lambda: defaultdict(Learner))


class GroupLog:
    def __init__(self, topology: Topology, me: ProcessId, g: GroupId) -> None:
        self.topology = topology
        self.members = topology.groups[g]
        first = Ballot(0, self.members[0])
        self.state = State(me, g, self.members[0], first, first)

    def on_start(self) -> list[Effect]:
        """§6: "the leader optimizes latency by executing Phase 1 before a value is proposed"."""
        return self.lead() if self.state.me == self.members[0] else []

    # Phase 2 ---------------------------------------------------------------------------------

    def append(self, value: Value) -> list[Effect]:
        s = self.state
        if not s.leading:
            return []
        places = tuple(s.numbers[h] for h in value.to)
        for h in value.to:
            s.numbers[h] += 1
        slot = Slot(len(s.log), value, places)
        s.log.append(slot)
        return [
            Send(Accept(s.cbal, slot), tuple(p for p in self.members if p != s.me)),
            *self.accepted((slot,)),
        ]

    def on_accept(self, bal: Ballot, slot: Slot) -> list[Effect]:
        s = self.state
        if bal < s.promised:
            return self.refuse(bal)
        if bal != s.cbal:
            return []
        assert slot.number == len(s.log), "links are FIFO, and so is a ballot"
        s.log.append(slot)
        return self.accepted((slot,))

    def accepted(self, slots: Log) -> list[Effect]:
        s = self.state
        if len(slots) == 1:
            learners = self.topology.members((s.g, *slots[0].value.to))
            return [Send(Accepted(s.cbal, s.g, slots), learners)]
        effects: list[Effect] = [Send(Accepted(s.cbal, s.g, slots), self.members)]
        for h in sorted({h for slot in slots for h in slot.value.to}):
            theirs = tuple(slot for slot in slots if h in slot.value.to)
            effects.append(Send(Accepted(s.cbal, s.g, theirs), self.topology.groups[h]))
        return effects

    def on_accepted(self, message: Accepted, voter: ProcessId) -> list[Effect]:
        learner = self.state.learners[message.g]
        for slot in message.slots:
            self.count(learner, message.g, message.bal, slot, voter)
        effects: list[Effect] = []
        while (value := learner.chosen.pop(learner.next, None)) is not None:
            learner.next += 1
            effects.append(Reply(Learned(message.g, value)))
        return effects

    def count(
        self, learner: Learner, group: GroupId, bal: Ballot, slot: Slot, voter: ProcessId
    ) -> None:
        mine = self.state.g
        number = slot.number if group == mine else slot.places[slot.value.to.index(mine)]
        if number < learner.next or number in learner.chosen:
            return
        voters = learner.votes.setdefault((number, bal), set())
        voters.add(voter)
        if len(voters) >= majority(len(self.topology.groups[group])):
            learner.chosen[number] = slot.value
            for key in [key for key in learner.votes if key[0] == number]:
                del learner.votes[key]

    # Phase 1 ---------------------------------------------------------------------------------

    def on_nominate(self, leader: ProcessId) -> list[Effect]:
        s = self.state
        s.nominated = leader
        return self.campaign(self.highest) if leader == s.me and not s.leading else []

    @property
    def highest(self) -> Ballot:
        s = self.state
        return max(s.promised, s.candidate or s.promised)

    def campaign(self, above: Ballot) -> list[Effect]:
        s = self.state
        s.candidate = Ballot(above.round + 1, s.me)
        s.promises = Tally(self.members)
        return [Send(NewLeader(s.candidate), self.members)]

    def on_new_leader(self, bal: Ballot) -> list[Effect]:
        s = self.state
        if bal <= s.promised:
            return self.refuse(bal)
        s.promised = bal
        effects: list[Effect] = [*self.step_down()]
        effects.append(Send(Promise(bal, s.cbal, tuple(s.log)), (bal.leader,)))
        if s.nominated == s.me != bal.leader:
            # Leader selection counts on this process: if the other one dies, nobody is told.
            effects += self.campaign(self.highest)
        return effects

    def refuse(self, bal: Ballot) -> list[Effect]:
        """Also of what a leader proposes: it may not hear of the higher ballot otherwise, if that
        one's candidate died among its receivers."""
        return [Send(Refused(self.state.promised), (bal.leader,))]

    def step_down(self) -> list[Effect]:
        was, self.state.leading = self.state.leading, False
        return [Reply(Follows())] if was else []

    def on_promise(self, promise: Promise, voter: ProcessId) -> list[Effect]:
        s = self.state
        if promise.bal != s.candidate or not s.promises.add(voter, promise):
            return []
        best = max(s.promises.votes.values(), key=lambda p: (p.cbal, len(p.log)))
        return [Send(NewLog(promise.bal, best.log), self.members)]

    def on_new_log(self, bal: Ballot, log: Log) -> list[Effect]:
        s = self.state
        if bal < s.promised:
            return self.refuse(bal)
        s.promised = s.cbal = bal
        s.log = list(log)
        # Votes of the ballots before may be lost with their voters: all vote again.
        effects = self.accepted(log) if log else []
        return [*effects, *self.lead()] if bal.leader == s.me else effects

    def on_refused(self, bal: Ballot) -> list[Effect]:
        """`bal` is not promised here: its candidate still asks, and gets this process's log then.
        Who leads a lower ballot ends it now, else it would take the log of `bal` for its own."""
        s = self.state
        if bal <= self.highest:
            return []  # about a ballot that is given up already
        effects = self.step_down()
        return [*effects, *self.campaign(bal)] if s.nominated == s.me else effects

    def lead(self) -> list[Effect]:
        s = self.state
        s.leading = True
        s.numbers.clear()
        for slot in s.log:
            for h in slot.value.to:
                s.numbers[h] += 1
        return [Reply(Leads(tuple(slot.value for slot in s.log)))]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Receive(message, sender):
                return self.on_message(message, sender)
            case Request(Append(value)):
                return self.append(value)
            case Nominate(group, leader) if group == self.state.g:
                return self.on_nominate(leader)
            case Start():
                return self.on_start()
        return []

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        match message:
            case Accepted():
                return self.on_accepted(message, sender)
            case Accept(bal, slot):
                return self.on_accept(bal, slot)
            case NewLeader(bal):
                return self.on_new_leader(bal)
            case Promise():
                return self.on_promise(message, sender)
            case NewLog(bal, log):
                return self.on_new_log(bal, log)
            case Refused(bal):
                return self.on_refused(bal)
        raise AssertionError(f"not a message of this layer: {message}")
