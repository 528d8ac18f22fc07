"""Garbage collection: a delivered message is forgotten once nobody can need it again.

Its own group needs it until every member has committed it: a leader to come may have to repeat
the DELIVER. The other destination groups need it until a quorum of each has committed it: until
then a new leader there may have to collect votes for it once more. Both are marks in the order
of global timestamps:

    member --Report--> leader --Collect--> own group      all members have committed up to here
                       leader --Stable---> other groups   a quorum has

A report counts DELIVERs handled in the leader's own ballot. A delivery in an earlier ballot is
not enough: that member may hold the message as ACCEPTED now, and bring it back to life. For the
same reason a Collect speaks of its ballot only, and marks begin anew with each.

Memory must not grow while a member is down. One that has been suspected for `lag_ticks`, or until
HELD_BYTES_MAX of payloads are kept, is not waited for, as long as a quorum is. If it has crashed it
will begin a new life behind all that. If it lives, links bring it every DELIVER of its ballot; only
if it changes ballots before it has handled them does it miss something for good. It notices by
`dropped`, the highest timestamp that was dropped anywhere, which votes and NEW_STATE carry: see
`Member.take_over`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import (
    BOTTOM,
    Effect,
    GroupId,
    ProcessId,
    Send,
    Timestamp,
)
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import State
from shmcast.multicast.protocols.wbcast_wire import Ballot, Collect, Report, Stable


@dataclass(slots=True)
class Garbage:
    topology: Topology
    g0: GroupId
    handled: Timestamp = BOTTOM  # of the last DELIVER in the current ballot
    collect: Timestamp = BOTTOM  # everyone waited for has committed up to here in this ballot
    dropped: Timestamp = BOTTOM  # the highest that was dropped, here or where we have our state of
    stable: dict[GroupId, Timestamp] = field(default_factory=dict)  # of the other groups
    reports: dict[ProcessId, Timestamp] = field(default_factory=dict)  # at a leader
    announced: Timestamp = BOTTOM  # the last mark sent as Stable

    def new_ballot(self) -> None:
        self.handled = BOTTOM
        self.collect = BOTTOM
        self.announced = BOTTOM
        self.reports = {}

    def report(self, cballot: Ballot) -> list[Effect]:
        return [Send(Report(cballot, self.handled), (cballot.leader,))]

    def on_report(
        self, state: State, report: Report, sender: ProcessId, absent: set[ProcessId]
    ) -> list[Effect]:
        self.reports[sender] = max(report.gts, self.reports.get(sender, BOTTOM))
        peers = self.topology.groups[self.g0]
        quorum = majority(len(peers))
        effects = self.announce(state, self.marks(peers)[quorum - 1])
        waited_for = tuple(p for p in peers if p not in absent)
        if len(waited_for) >= quorum:
            effects += self.collect_up_to(report.b, self.needed_by_none(self.marks(waited_for)))
        return effects

    def marks(self, members: tuple[ProcessId, ...]) -> list[Timestamp]:
        """Highest first."""
        return sorted((self.reports.get(p, BOTTOM) for p in members), reverse=True)

    def needed_by_none(self, marks: list[Timestamp]) -> Timestamp:
        return marks[-1]

    def announce(self, state: State, mark: Timestamp) -> list[Effect]:
        """To those groups only that share one of the messages in question: we stay genuine."""
        if mark <= self.announced:
            return []
        others = sorted(
            {
                g
                for mid, gts in state.global_ts.items()
                if self.announced < gts <= mark
                for g in state.messages[mid].dest
                if g != self.g0
            }
        )
        self.announced = mark
        if not others:
            return []
        return [Send(Stable(self.g0, mark), self.topology.members(tuple(others)))]

    def collect_up_to(self, b: Ballot, mark: Timestamp) -> list[Effect]:
        if mark <= self.collect:
            return []
        return [Send(Collect(b, mark), self.topology.groups[self.g0])]

    def on_stable(self, state: State, g: GroupId, gts: Timestamp) -> list[Effect]:
        self.stable[g] = max(gts, self.stable.get(g, BOTTOM))
        return self.drop(state)

    def on_collect(self, state: State, collect: Collect) -> list[Effect]:
        if collect.b != state.cballot:
            return []
        self.collect = max(collect.gts, self.collect)
        return self.drop(state)

    def drop(self, state: State) -> list[Effect]:
        garbage = [
            mid
            for mid, gts in state.global_ts.items()
            if gts <= self.collect and self.stable_everywhere(gts, state.messages[mid].dest)
        ]
        for mid in garbage:
            self.dropped = max(self.dropped, state.global_ts[mid])
            del state.messages[mid], state.phase[mid], state.local_ts[mid], state.global_ts[mid]
            state.accepts.pop(mid, None)
            state.acks.pop(mid, None)
        return []

    def stable_everywhere(self, gts: Timestamp, dest: Iterable[GroupId]) -> bool:
        return all(g == self.g0 or gts <= self.stable.get(g, BOTTOM) for g in dest)
