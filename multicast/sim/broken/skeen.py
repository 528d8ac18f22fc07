"""Skeen's protocol with one mistake each."""

from __future__ import annotations

from shmcast.multicast.protocols.core import (
    Deliver,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Machine,
    Message,
    Multicast,
    ProcessId,
    Send,
    Timestamp,
)
from shmcast.multicast.protocols.registry import Build, Options
from shmcast.multicast.protocols.skeen import Client, Skeen
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.mutants import mutant


class ForgetsClock(Skeen):
    def clock_after(self, gts: Timestamp) -> int:
        return self.state.clock


class Impatient(Skeen):
    def may_deliver(self, gts: Timestamp) -> bool:
        return True


class DeliversTwice(Skeen):
    def deliver_in_order(self) -> list[Effect]:
        return [e for effect in super().deliver_in_order() for e in (effect, effect)]


class SkipsSome(Skeen):
    """The last group keeps every third message for itself."""

    def deliver_in_order(self) -> list[Effect]:
        last = len(self.topology.groups) - 1
        return [
            effect
            for effect in super().deliver_in_order()
            if not isinstance(effect, Deliver) or self.state.g0 != last or effect.message.id.seq % 3
        ]


class NoGroupInTimestamp(Skeen):
    def on_propose(self, m: Message, g: GroupId, lts: Timestamp) -> list[Effect]:
        return super().on_propose(m, g, Timestamp(lts.time, 0))


class OwnTimestamp(Skeen):
    """Takes the first proposal for the global timestamp instead of the maximum of all."""

    def on_propose(self, m: Message, g: GroupId, lts: Timestamp) -> list[Effect]:
        first = next(iter(self.state.lts.get(m.id, {}).values()), lts)
        return super().on_propose(m, g, first)


class TellsEveryone(Skeen):
    """PROPOSE goes to all groups; those it does not concern ignore it."""

    def on_multicast(self, m: Message) -> list[Effect]:
        everyone = self.topology.members(tuple(range(len(self.topology.groups))))
        return [
            Send(effect.message, everyone) if isinstance(effect, Send) else effect
            for effect in super().on_multicast(m)
        ]

    def on_propose(self, m: Message, g: GroupId, lts: Timestamp) -> list[Effect]:
        return super().on_propose(m, g, lts) if self.state.g0 in m.dest else []


class DeliversOutside(TellsEveryone):
    """As above, and those it does not concern deliver it as well."""

    def on_propose(self, m: Message, g: GroupId, lts: Timestamp) -> list[Effect]:
        if self.state.g0 in m.dest:
            return super().on_propose(m, g, lts)
        return [Deliver(m, lts)] if g == m.dest[-1] else []


class ForgetfulSender:
    """Multicasts every fourth message to nobody. Serves as member and as client."""

    def __init__(self, inner: Machine) -> None:
        self.inner = inner

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        if isinstance(event, Multicast) and event.message.id.seq % 4 == 0:
            return []
        return self.inner.handle(event, now)


class HalfSender(ForgetfulSender):
    """Multicasts every fourth message to its first group only."""

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        effects = self.inner.handle(event, now)
        if isinstance(event, Multicast) and event.message.id.seq % 4 == 0:
            return [Send(e.message, e.to[:1]) for e in effects if isinstance(e, Send)]
        return effects


def members_are(kind: type[Skeen]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        g0 = topology.group_of(process)
        return Client(topology) if g0 is None else kind(topology, g0)

    return build


def everyone_is(kind: type[ForgetfulSender]) -> Build:
    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        return kind(members_are(Skeen)(process, topology, options))

    return build


mutant(
    "skeen",
    "forgets-clock",
    "L15 does not advance the clock past the global timestamp",
    breaks="ordering",
    seeds=20,
    build=members_are(ForgetsClock),
)
mutant(
    "skeen",
    "forgets-clock-inside",
    "the same, seen by the invariant",
    breaks="invariant clock_covers_commits",
    seeds=5,
    build=members_are(ForgetsClock),
)
mutant(
    "skeen",
    "impatient",
    "L20-L21 do not wait for pending local timestamps",
    breaks="uniform-global-total",
    seeds=20,
    build=members_are(Impatient),
)
mutant(
    "skeen",
    "delivers-twice",
    "L19 is not asked whether m is delivered",
    breaks="uniform-integrity",
    seeds=5,
    build=members_are(DeliversTwice),
)
mutant(
    "skeen",
    "delivers-outside",
    "a group outside dest(m) delivers m",
    breaks="uniform-integrity",
    seeds=5,
    build=members_are(DeliversOutside),
)
mutant(
    "skeen",
    "skips-some",
    "a group does not deliver some of its messages",
    breaks="uniform-agreement",
    seeds=5,
    build=members_are(SkipsSome),
)
mutant(
    "skeen",
    "no-group-in-timestamp",
    "timestamps of two groups may be equal",
    breaks="timestamp-order",
    seeds=10,
    build=members_are(NoGroupInTimestamp),
)
mutant(
    "skeen",
    "first-timestamp",
    "L14 takes the first proposal that arrives, not the maximum",
    breaks="timestamp-order",
    seeds=10,
    build=members_are(OwnTimestamp),
)
mutant(
    "skeen",
    "tells-everyone",
    "L12 sends PROPOSE to groups outside dest(m)",
    breaks="genuineness",
    seeds=5,
    build=members_are(TellsEveryone),
)
mutant(
    "skeen",
    "forgetful-sender",
    "L7 sends some messages to nobody",
    breaks="multicast-validity",
    seeds=5,
    build=everyone_is(ForgetfulSender),
)
mutant(
    "skeen",
    "half-sender",
    "L7 sends some messages to their first group only",
    breaks="termination",
    seeds=5,
    build=everyone_is(HalfSender),
)
