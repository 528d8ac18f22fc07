"""WbCast with one mistake each in what happens when a leader or a memory is lost."""

from __future__ import annotations

from dataclasses import replace

from shmcast.multicast.protocols.core import Effect, Message, MessageId, ProcessId, Timestamp
from shmcast.multicast.protocols.registry import Options
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Status
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_rejoin import Past
from shmcast.multicast.protocols.wbcast_session import Sessions
from shmcast.multicast.protocols.wbcast_specs import build_with
from shmcast.multicast.protocols.wbcast_wire import (
    Ballot,
    DeliverMsg,
    Lives,
    MulticastMsg,
    NewLeaderAck,
    NewState,
    Phase,
    Snapshot,
)
from shmcast.multicast.sim.churn import churn, memory_loss
from shmcast.multicast.sim.left_behind import left_behind
from shmcast.multicast.sim.mutants import mutant
from shmcast.multicast.sim.old_leader import old_leader


class LeadsUnsynchronised(Member):
    def lead_if_synced(self) -> list[Effect]:
        self.state.synced = set(self.peers)
        return super().lead_if_synced()


class RecoversFromAnyBallot(Member):
    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        return super().merged(votes, votes)


class RecoversCommittedOnly(Member):
    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        return super().merged(votes, [])


class RecoversFromFirstReply(Member):
    """The state of later replies is skipped."""

    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        return super().merged(votes[:1], [vote for vote in votes[:1] if vote in J])


class BelievesAtOnce(Member):
    def on_request(self, msg: MulticastMsg, sender: ProcessId) -> list[Effect]:
        if self.state.status is Status.LEADER and sender == msg.m.id.sender:
            self.sessions.finish(sender, msg.finished)
        return super().on_request(msg, sender)


class SaysNothing(Member):
    def has_missed(self, past: Past) -> bool:
        return False


class KeepsItsOwnSessions(Member):
    def take_over(self, past: object) -> list[Effect]:
        if isinstance(past, Past):
            past = replace(past, sessions=Sessions())
        return super().take_over(past)


class ClockNotRestored(Member):
    def recovered_clock(self, votes: list[NewLeaderAck]) -> int:
        return 0


class OwnVoteIsEnough(Member):
    def countable(self, votes: dict[ProcessId, NewLeaderAck]) -> list[NewLeaderAck]:
        return super().countable(votes) * self.quorum


class StaysInTheOldBallot(Member):
    """L39 leaves the status as it is: who has promised a new ballot still serves the old one."""

    def on_new_leader(self, b: Ballot, lives: Lives) -> list[Effect]:
        before = self.state.status
        effects = super().on_new_leader(b, lives)
        if b.leader != self.me and self.state.cballot.leader == self.me:
            self.state.status = before
        return effects


class KeepsState(Member):
    """L61 keeps the follower's own arrays."""

    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:
        s = self.state
        had, clock = self.snapshot(), s.clock
        joined = self.joined
        effects = super().on_new_state(new, sender)
        if effects and joined:
            self.adopt(had, clock)
            s.committed = []
        return effects


class KeepsDelivered(Member):
    """Fig. 4 to the letter: Delivered is never reset."""

    def __init__(self, topology: Topology, me: ProcessId, options: Options) -> None:
        super().__init__(topology, me, options)
        self.delivered: set[MessageId] = set()

    def deliver_msg(self, m: Message, lts: Timestamp, gts: Timestamp) -> DeliverMsg:
        self.delivered.add(m.id)
        return super().deliver_msg(m, lts, gts)

    def commit(self, m: Message, gts: Timestamp) -> list[Effect]:
        if m.id not in self.delivered:
            return super().commit(m, gts)
        self.state.global_ts[m.id] = gts
        self.state.phase[m.id] = Phase.COMMITTED
        return self.deliver_in_order()


class VotesWithoutMemory(Member):
    def on_restart(self, life: int, saved: object) -> list[Effect]:
        effects = super().on_restart(life, saved)
        self.joined = True
        self.state.status = Status.FOLLOWER
        return effects


RECOVERY: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "clock-not-restored",
        "L54 is left out: a new leader starts at 0",
        "invariant invariant_2",
        10,
        ClockNotRestored,
    ),
)
CHURN: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "recovers-committed-only",
        "L51-L53 are left out: accepted messages are lost",
        "ordering",
        10,
        RecoversCommittedOnly,
    ),
    (
        "own-vote-is-enough",
        "L42 takes the candidate's own vote for a quorum",
        "ordering",
        10,
        OwnVoteIsEnough,
    ),
    (
        "stays-in-the-old-ballot",
        "L39 is left out: a deposed leader goes on",
        "ordering",
        20,
        StaysInTheOldBallot,
    ),
    (
        "recovers-from-first-reply",
        "L44-L53 read the first NEWLEADER_ACK only",
        "ordering",
        10,
        RecoversFromFirstReply,
    ),
    ("keeps-state", "L61 keeps the follower's own arrays", "ordering", 20, KeepsState),
    (
        "leads-unsynchronised",
        "L63 is left out: no synchronisation before leading",
        "ordering",
        100,
        LeadsUnsynchronised,
    ),
    (
        "recovers-from-any-ballot",
        "L45 is left out: J is everybody",
        "invariant invariant_5",
        100,
        RecoversFromAnyBallot,
    ),
    (
        "keeps-delivered",
        "Delivered is not reset when a ballot begins",
        "uniform-agreement",
        120,
        KeepsDelivered,
    ),
)

MEMORY_LOSS: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "votes-without-memory",
        "a member that lost its memory takes part at once",
        "invariant invariant_2",
        20,
        VotesWithoutMemory,
    ),
)
LEFT_BEHIND: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "says-nothing",
        "a member that was left behind goes on as if it had missed nothing",
        "ordering",
        20,
        SaysNothing,
    ),
    (
        "keeps-its-own-sessions",
        "a member that was left behind does not learn what was delivered meanwhile",
        "invariant invariant_2",
        20,
        KeepsItsOwnSessions,
    ),
)

OLD_LEADER: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "believes-at-once",
        "a leader that was replaced believes a sender that its messages are finished",
        "uniform-agreement",
        1,
        BelievesAtOnce,
    ),
)

for name, differs, breaks, seeds, kind in RECOVERY:
    mutant("wbcast", name, differs, breaks=breaks, seeds=seeds, build=build_with(kind))
for table, scenarios in (
    (CHURN, churn),
    (MEMORY_LOSS, memory_loss),
    (LEFT_BEHIND, left_behind),
    (OLD_LEADER, old_leader),
):
    for name, differs, breaks, seeds, kind in table:
        mutant(
            "wbcast",
            name,
            differs,
            breaks=breaks,
            seeds=seeds,
            build=build_with(kind),
            scenarios=scenarios,
        )
