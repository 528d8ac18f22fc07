"""Garbage collection: a delivered message is forgotten once nobody can need it again.

Its own group needs it until every member has committed it: a leader to come may have to repeat
the DELIVER. The other destination groups need it until a quorum of each has committed it: until
then a new leader there may have to collect votes for it once more. Both are marks in the order
of global timestamps:

    member --Report--> leader --Collect--> own group      all members have committed up to here
                       leader --Stable---> other groups   a quorum has

A report counts DELIVERs handled in the leader's own ballot. A delivery in an earlier ballot is
not enough: that member may hold the message as ACCEPTED now, and bring it back to life.
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
    collect: Timestamp = BOTTOM  # every member of the own group has committed up to here
    stable: dict[GroupId, Timestamp] = field(default_factory=dict)  # of the other groups
    reports: dict[ProcessId, Timestamp] = field(default_factory=dict)  # at a leader
    announced: Timestamp = BOTTOM  # the last mark sent as Stable

    def new_ballot(self) -> None:
        self.handled = BOTTOM
        self.announced = BOTTOM
        self.reports = {}

    def report(self, cballot: Ballot) -> list[Effect]:
        return [Send(Report(cballot, self.handled), (cballot.leader,))]

    def on_report(self, state: State, gts: Timestamp, sender: ProcessId) -> list[Effect]:
        self.reports[sender] = max(gts, self.reports.get(sender, BOTTOM))
        peers = self.topology.groups[self.g0]
        marks = sorted((self.reports.get(p, BOTTOM) for p in peers), reverse=True)
        return [
            *self.announce(state, marks[majority(len(peers)) - 1]),
            *self.collect_up_to(self.whole_group(marks)),
        ]

    def whole_group(self, marks: list[Timestamp]) -> Timestamp:
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

    def collect_up_to(self, mark: Timestamp) -> list[Effect]:
        if mark <= self.collect:
            return []
        return [Send(Collect(mark), self.topology.groups[self.g0])]

    def on_stable(self, state: State, g: GroupId, gts: Timestamp) -> list[Effect]:
        self.stable[g] = max(gts, self.stable.get(g, BOTTOM))
        return self.drop(state)

    def on_collect(self, state: State, gts: Timestamp) -> list[Effect]:
        self.collect = max(gts, self.collect)
        return self.drop(state)

    def drop(self, state: State) -> list[Effect]:
        garbage = [
            mid
            for mid, gts in state.global_ts.items()
            if gts <= self.collect and self.stable_everywhere(gts, state.messages[mid].dest)
        ]
        for mid in garbage:
            del state.messages[mid], state.phase[mid], state.local_ts[mid], state.global_ts[mid]
            state.accepts.pop(mid, None)
            state.acks.pop(mid, None)
        return []

    def stable_everywhere(self, gts: Timestamp, dest: Iterable[GroupId]) -> bool:
        return all(g == self.g0 or gts <= self.stable.get(g, BOTTOM) for g in dest)
