"""WbCast with one line of Fig. 4 left out, or one condition of ours: those that need a second
leader, a second life or a second group to show. For followers of both kinds.

Not here, because nothing they break was found: L18 at a leader that is recovering (what it commits
late, a quorum has accepted), and reports that outlive their ballot (a message that comes back
through one is dropped by `Member.merged`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shmcast.multicast.protocols.core import Effect, GroupId, ProcessId, Timestamp
from shmcast.multicast.protocols.wbcast_acks import AckMember
from shmcast.multicast.protocols.wbcast_gc import Garbage
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_specs import build_with
from shmcast.multicast.protocols.wbcast_wire import (
    AcceptAck,
    Ballot,
    DeliverMsg,
    Lives,
    NewLeaderAck,
    NewState,
    Phase,
    Snapshot,
)
from shmcast.multicast.sim.churn import churn
from shmcast.multicast.sim.dead_vote import dead_vote
from shmcast.multicast.sim.mutants import ENDLESS, mutant

NONE = Ballot(0, 0)


class PromisesAgain(Member):
    def on_new_leader(self, b: Ballot, lives: Lives) -> list[Effect]:
        if self.state.cballot < b < self.state.ballot:
            self.state.ballot = NONE
        return super().on_new_leader(b, lives)


class FollowsTheOld(Member):
    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:
        if self.joined and self.state.cballot < new.b < self.state.ballot:
            self.state.ballot = NONE
        return super().on_new_state(new, sender)


class DeliversOldBallots(Member):
    def on_deliver(self, d: DeliverMsg) -> list[Effect]:
        return super().on_deliver(replace(d, b=self.state.cballot))


class AddsUpVectors(Member):
    def on_accept_ack(self, ack: AcceptAck, sender: ProcessId) -> list[Effect]:
        known = self.state.acks.get(ack.mid, {})
        own = next((bal for bal, acks in known.items() if acks.gts is not None), ack.bal)
        return super().on_accept_ack(replace(ack, bal=own), sender)


class AcceptedFirst(Member):
    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        found = super().merged(votes, J)
        accepted = {
            mid: vote.snapshot.local_ts[mid]
            for vote in J
            for mid, phase in vote.snapshot.phase.items()
            if phase is Phase.ACCEPTED and mid in found.phase
        }
        return Snapshot(
            found.messages,
            {**found.phase, **dict.fromkeys(accepted, Phase.ACCEPTED)},
            {**found.local_ts, **accepted},
            {mid: gts for mid, gts in found.global_ts.items() if mid not in accepted},
        )


class CountsTheDead(Member):
    def countable(self, votes: dict[ProcessId, NewLeaderAck]) -> list[NewLeaderAck]:
        return list(votes.values())


class _StableAtOnce(Garbage):
    def stable_everywhere(self, gts: Timestamp, dest: Iterable[GroupId]) -> bool:
        return True


class CollectsForItself(Member):
    def new_garbage(self) -> Garbage:
        return _StableAtOnce(self.topology, self.g0)


MUTANTS: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "promises-again",
        "L38 is not asked: a ballot below the one that was promised is promised too",
        "invariant invariant_8",
        20,
        PromisesAgain,
    ),
    (
        "follows-the-old",
        "L58 is not asked: the state of a ballot below the one that was promised is taken",
        "invariant invariant_8",
        20,
        FollowsTheOld,
    ),
    (
        "delivers-old-ballots",
        "L25 does not ask for cballot = b",
        "ordering",
        40,
        DeliversOldBallots,
    ),
    (
        "adds-up-vectors",
        "L18: votes of other ballots count at the leader",
        "invariant invariant_17",
        10,
        AddsUpVectors,
    ),
    (
        "accepted-first",
        "L51 before L47: what one voter has committed comes back as accepted",
        ENDLESS,
        60,
        AcceptedFirst,
    ),
    (
        "collects-for-itself",
        "a message is dropped although another group may need it",
        ENDLESS,
        20,
        CollectsForItself,
    ),
)
_BASES: dict[str, tuple[type, ...]] = {"wbcast": (), "wbcast-acks": (AckMember,)}
for _base, _more in _BASES.items():
    for _name, _differs, _breaks, _seeds, _kind in MUTANTS:
        mutant(
            _base,
            _name,
            _differs,
            breaks=_breaks,
            seeds=_seeds,
            build=build_with(type(_kind.__name__, (_kind, *_more), {})),
            scenarios=churn,
        )
    mutant(
        _base,
        "counts-the-dead",
        "a vote counts although its voter has lost its memory since",
        breaks="invariant invariant_2",
        seeds=1,
        build=build_with(type("CountsTheDead", (CountsTheDead, *_more), {})),
        scenarios=dead_vote,
    )
