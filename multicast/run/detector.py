"""Failure detector and leader selection: pure, fed with what was heard, asked for what to say.

Silence longer than a peer's timeout makes it suspected; a suspicion that proves wrong doubles that
timeout, so that a host which stays as late as it is makes finitely many; a long time without one
halves it. A death that the kernel reports needs no timeout. Time in which we ourselves did not look
is charged to nobody (`excuse`).

Leadership of a group is a pair (epoch, leader). Members show theirs; everybody adopts the highest
epoch it sees, and of two with the same epoch the lower leader. Who suspects the leader begins the
next epoch with the first member it trusts, if it trusts a majority: one that is alone would only
disturb the others when it is back. So members that see each other soon agree, and a leader that
merely came back does not take over again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from shmcast.multicast.protocols.core import (
    Event,
    GroupId,
    LocalTime,
    Nominate,
    ProcessId,
    Suspect,
    Trust,
)
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.topology import Topology

DOUBLINGS_MAX = 6
CALM = 100  # timeouts without a mistake, after which a timeout is halved again
BIRTH_DOUBLINGS = 5  # so much longer is waited for one that has not been heard of yet


class Leadership(NamedTuple):
    epoch: int
    leader: ProcessId

    def beats(self, other: Leadership) -> bool:
        return (self.epoch, -self.leader) > (other.epoch, -other.leader)


@dataclass(slots=True)
class Peer:
    heard: LocalTime
    incarnation: int = -1  # -1: not heard of yet
    suspected: bool = False
    mistakes: int = 0
    mistaken: LocalTime = 0  # when the last one was made, or forgiven


@dataclass(slots=True)
class Detector:
    topology: Topology
    me: ProcessId
    suspect_ticks: int
    now: LocalTime
    peers: dict[ProcessId, Peer] = field(default_factory=dict)
    leaders: dict[GroupId, Leadership] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, members in enumerate(self.topology.groups):
            self.leaders[group] = Leadership(0, members[0])
        self.peers = {p: Peer(self.now) for p in self.topology.processes if p != self.me}

    @property
    def group(self) -> GroupId:
        found = self.topology.group_of(self.me)
        assert found is not None
        return found

    def heard(
        self, process: ProcessId, incarnation: int, now: LocalTime, shown: Leadership | None = None
    ) -> list[Event]:
        """`process` showed that it is alive, in this life."""
        peer = self.peers[process]
        if incarnation < peer.incarnation:
            return []  # an echo of an earlier life
        events: list[Event] = []
        reborn = peer.incarnation >= 0 and incarnation > peer.incarnation
        peer.incarnation = incarnation
        peer.heard = now
        if peer.suspected:
            peer.suspected = False
            if not reborn:
                peer.mistakes, peer.mistaken = min(peer.mistakes + 1, DOUBLINGS_MAX), now
            events += [Trust(process), *self._replace_leader()]
        elif peer.mistakes and now - peer.mistaken > CALM * (self.suspect_ticks << peer.mistakes):
            peer.mistakes, peer.mistaken = peer.mistakes - 1, now
        if shown is not None:
            events += self._adopt(process, shown)
        return events

    def died(self, process: ProcessId, incarnation: int) -> list[Event]:
        """The kernel, or its link, says that this life is over."""
        peer = self.peers[process]
        if incarnation < peer.incarnation or peer.suspected:
            return []
        peer.incarnation = incarnation
        peer.suspected = True
        return [Suspect(process), *self._replace_leader()]

    def passed(self, now: LocalTime) -> list[Event]:
        """Time has passed: whose silence is too long?"""
        events: list[Event] = []
        for process, peer in self.peers.items():
            doublings = peer.mistakes if peer.incarnation >= 0 else BIRTH_DOUBLINGS
            if not peer.suspected and now - peer.heard > self.suspect_ticks << doublings:
                peer.suspected = True
                events.append(Suspect(process))
        return events + self._replace_leader() if events else events

    def excuse(self, ticks: int, now: LocalTime) -> None:
        """We did not look for so long: what was said meanwhile may not have reached us yet."""
        for peer in self.peers.values():
            peer.heard = min(now, peer.heard + ticks)

    def has_quorum(self) -> bool:
        """Is a majority of our group trusted, ourselves included?"""
        members = self.topology.groups[self.group]
        return len(self.trusted(members)) >= majority(len(members))

    def is_suspected(self, process: ProcessId) -> bool:
        return process != self.me and self.peers[process].suspected

    def trusted(self, processes: Iterable[ProcessId]) -> list[ProcessId]:
        return [p for p in processes if not self.is_suspected(p)]

    def _adopt(self, process: ProcessId, shown: Leadership) -> list[Event]:
        group = self.topology.group_of(process)
        assert group is not None
        if shown.leader not in self.topology.groups[group]:
            return []
        if not shown.beats(self.leaders[group]):
            return []
        self.leaders[group] = shown
        return [Nominate(group, shown.leader), *self._replace_leader()]

    def _replace_leader(self) -> list[Event]:
        """Of our own group; the other groups choose for themselves."""
        epoch, leader = self.leaders[self.group]
        if not self.is_suspected(leader) or not self.has_quorum():
            return []
        living = self.trusted(self.topology.groups[self.group])
        chosen = Leadership(epoch + 1, living[0])  # we ourselves at the least
        self.leaders[self.group] = chosen
        return [Nominate(self.group, chosen.leader)]
