"""WbCast with one mistake each: normal operation, sessions, garbage collection."""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.protocols.core import (
    Effect,
    GroupId,
    LocalTime,
    Machine,
    Message,
    MessageId,
    ProcessId,
    Send,
    Timestamp,
)
from shmcast.multicast.protocols.registry import Build, Options
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Acks
from shmcast.multicast.protocols.wbcast_gc import Garbage
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_session import Client
from shmcast.multicast.protocols.wbcast_specs import build, build_with
from shmcast.multicast.protocols.wbcast_wire import Accept, MulticastMsg
from shmcast.multicast.sim.mutants import mutant

Change = Callable[[Machine, ProcessId], Machine]


class Impatient(Member):
    def may_deliver(self, gts: Timestamp) -> bool:
        return True


class ClockNotAdvanced(Member):
    def clock_after_accept(self, gts: Timestamp) -> int:
        return self.state.clock


class OwnTimestamp(Member):
    def commit(self, m: Message, gts: Timestamp) -> list[Effect]:
        return super().commit(m, self.state.local_ts[m.id])


class AloneIsEnough(Member):
    def is_accepted(self, acks: Acks) -> bool:
        return self.me in acks.voters[self.g0] and all(acks.voters.values())


class AcceptsAnyBallot(Member):
    def may_accept(self, mine: Accept) -> bool:
        return True


class SecondTimestamp(Member):
    def on_multicast(self, m: Message) -> list[Effect]:
        self.state.phase.pop(m.id, None)
        return super().on_multicast(m)


class DeliversAgain(Member):
    def is_new(self, gts: Timestamp) -> bool:
        return True


class TellsEveryone(Member):
    """ACCEPT goes to all groups; those it does not concern ignore it."""

    def on_multicast(self, m: Message) -> list[Effect]:
        everyone = self.topology.members(tuple(range(len(self.topology.groups))))
        return [
            Send(e.message, everyone) if isinstance(e, Send) else e for e in super().on_multicast(m)
        ]

    def on_accept(self, accept: Accept) -> list[Effect]:
        return super().on_accept(accept) if self.g0 in accept.m.dest else []


class NoMemoryOfThePast(Member):
    def is_forgotten(self, mid: MessageId) -> bool:
        return False


class EarlyGarbage(Garbage):
    def needed_by_none(self, marks: list[Timestamp]) -> Timestamp:
        return marks[0]


class CollectsEarly(Member):
    def new_garbage(self) -> Garbage:
        return EarlyGarbage(self.topology, self.g0)


def sends_once(machine: Machine, process: ProcessId) -> Machine:
    """L2 only: no sender repeats what it has sent."""
    if isinstance(machine, Client | Member):

        def never(now: LocalTime) -> list[Effect]:
            return []

        machine.sender.on_timer = never  # type: ignore[method-assign]
    return machine


def sends_half(machine: Machine, process: ProcessId) -> Machine:
    """Every fourth message goes to its first group only, and is never repeated."""
    if isinstance(machine, Client | Member):
        sender = sends_once(machine, process).sender  # type: ignore[attr-defined]
        whole = sender.multicast

        def half(m: Message, now: LocalTime) -> list[Effect]:
            effects: list[Effect] = whole(m, now)
            if m.id.seq % 4:
                return effects
            first: tuple[GroupId, ...] = m.dest[:1]
            leader = sender.cur_leader[first[0]]
            return [Send(MulticastMsg(m), (leader,)) if isinstance(e, Send) else e for e in effects]

        sender.multicast = half
    return machine


def everyone(change: Change, built: Build) -> Build:
    def broken(process: ProcessId, topology: Topology, options: Options) -> Machine:
        return change(built(process, topology, options), process)

    return broken


MEMBERS: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "impatient",
        "L21 does not wait for pending local timestamps",
        "ordering",
        20,
        Impatient,
    ),
    ("two-orders", "the same as own-timestamp", "uniform-global-total", 20, OwnTimestamp),
    (
        "clock-not-advanced",
        "L14 does not advance the clock past the global timestamp",
        "ordering",
        20,
        ClockNotAdvanced,
    ),
    (
        "own-timestamp",
        "L19 takes the local timestamp, not the maximum",
        "timestamp-order",
        5,
        OwnTimestamp,
    ),
    (
        "alone-is-enough",
        "L17 takes one vote of each group for a quorum",
        "invariant invariant_17",
        5,
        AloneIsEnough,
    ),
    (
        "alone-is-enough-outside",
        "the same, seen by the property",
        "uniform-agreement",
        20,
        AloneIsEnough,
    ),
    (
        "accepts-any-ballot",
        "L11 is not asked: ACCEPTs of old ballots count",
        "invariant invariant_15",
        120,
        AcceptsAnyBallot,
    ),
    (
        "second-timestamp",
        "L5 is not asked: a retried message gets a second local timestamp",
        "invariant invariant_1",
        40,
        SecondTimestamp,
    ),
    (
        "delivers-again",
        "L25 does not look at max_delivered_gts",
        "uniform-integrity",
        20,
        DeliversAgain,
    ),
    (
        "tells-everyone",
        "L9 sends ACCEPT to groups outside dest(m)",
        "genuineness",
        5,
        TellsEveryone,
    ),
    (
        "no-memory",
        "a retried message that was collected counts as new",
        "uniform-integrity",
        40,
        NoMemoryOfThePast,
    ),
    (
        "collects-early",
        "a message is dropped when one member has delivered it",
        "invariant only_the_suspected_are_left_behind",
        40,
        CollectsEarly,
    ),
)

SENDERS: tuple[tuple[str, str, str, int, Change], ...] = (
    ("sends-once", "a sender never repeats a multicast", "multicast-validity", 40, sends_once),
    (
        "sends-half",
        "some multicasts reach their first group only",
        "termination",
        40,
        sends_half,
    ),
)

for name, differs, breaks, seeds, kind in MEMBERS:
    mutant("wbcast", name, differs, breaks=breaks, seeds=seeds, build=build_with(kind))

for name, differs, breaks, seeds, change in SENDERS:
    mutant("wbcast", name, differs, breaks=breaks, seeds=seeds, build=everyone(change, build))
