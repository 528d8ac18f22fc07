"""Baseline Atomic Multicast with one mistake each; broken/optimistic.py reuses them."""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_delivery import Delivery
from shmcast.multicast.protocols.barrier_entries import (
    Barrier,
    Entry,
    Final,
    Initial,
    Needs,
    WantBarrier,
)
from shmcast.multicast.protocols.barrier_specs import NULL_TICKS, build_with
from shmcast.multicast.protocols.barrier_stamping import Tail
from shmcast.multicast.protocols.baseline import Baseline, Item
from shmcast.multicast.protocols.core import (
    BOTTOM,
    Deliver,
    Effect,
    GroupId,
    LocalTime,
    Message,
    ProcessId,
    SetTimer,
    Timestamp,
)
from shmcast.multicast.protocols.group_log import Ballot, GroupLog, Learner, Log, Promise, Slot
from shmcast.multicast.protocols.registry import Options
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.mutants import mutant


class ForgetfulSender(Baseline):
    """Multicasts every third message to nobody."""

    def on_multicast(self, m: Message, now: LocalTime) -> list[Effect]:
        return super().on_multicast(m, now) if m.id.seq % 3 else []


class DeafToRequests(Baseline):
    def on_fr_deliver(self, item: Item, now: LocalTime) -> list[Effect]:
        return [] if isinstance(item, WantBarrier) else super().on_fr_deliver(item, now)


class AsksNobody(Baseline):
    def barriers_for(self, dest: tuple[GroupId, ...]) -> Needs:
        return ()


class NoNullMessages(Baseline):
    def on_null_timer(self, now: LocalTime) -> list[Effect]:
        return [e for e in super().on_null_timer(now) if isinstance(e, SetTimer)]


class NullTimestampIgnored(Baseline):
    """Takes a null message for a barrier against all that was sent up to now."""

    def on_learned(self, group: GroupId, entry: Entry, now: LocalTime) -> list[Effect]:
        if isinstance(entry, Barrier) and entry.mid is None:
            self.state.delivery.raise_barrier(group, Timestamp(now, 0))
        return super().on_learned(group, entry, now)


class SkipsSome(Baseline):
    """The last group keeps every third message for itself."""

    def delivered(self, final: Final) -> list[Effect]:
        last = self.state.g == len(self.topology.groups) - 1
        return [] if last and final.m.id.seq % 3 == 1 else super().delivered(final)


class DeliversTwice(Baseline):
    def delivered(self, final: Final) -> list[Effect]:
        return [*super().delivered(final), Deliver(final.m, final.ts)]


class NotFifo(Baseline):
    """Every other message of a sender is proposed after the one that follows it."""

    def __init__(self, topology: Topology, me: ProcessId, g: GroupId, config: Config) -> None:
        super().__init__(topology, me, g, config)
        self.kept: dict[ProcessId, Initial] = {}

    def enqueue(self, item: Item, now: LocalTime) -> list[Effect]:
        if not isinstance(item, Initial):
            return super().enqueue(item, now)
        sender = item.m.id.sender
        if item.m.id.seq % 2:
            self.kept[sender] = item
            return []
        effects = super().enqueue(item, now)
        earlier = self.kept.pop(sender, None)
        return effects if earlier is None else [*effects, *super().enqueue(earlier, now)]


class NoBarriers(Delivery):
    def may_deliver(self, ts: Timestamp) -> bool:
        return True


class OneSenderLess(Delivery):
    """Does not wait for the last of its senders."""

    def may_deliver(self, ts: Timestamp) -> bool:
        last = max(self.senders)
        return all(ts <= sender.barrier for h, sender in self.senders.items() if h != last)


class DeliversWithoutBarriers(Baseline):
    delivery: type[Delivery] = NoBarriers

    def __init__(self, topology: Topology, me: ProcessId, g: GroupId, config: Config) -> None:
        super().__init__(topology, me, g, config)
        self.state.delivery = self.delivery.of(config.senders_to[g])


class ForgetsOneSender(DeliversWithoutBarriers):
    delivery = OneSenderLess


class AnyOrder(Baseline):
    """L33: not the smallest timestamp but the latest arrival first."""

    def deliver(self) -> list[Effect]:
        ready = self.state.delivery.deliverable()
        return [e for final in reversed(ready) for e in self.delivered(final)]


@dataclass(slots=True)
class DeafTail(Tail):
    """The own barriers do not count for the timestamps that follow."""

    def add(self, entry: Entry) -> None:
        before = self.last
        Tail.add(self, entry)
        if isinstance(entry, Barrier):
            self.last = before


@dataclass(slots=True)
class InitialTail(Tail):
    def after(self, ts: Timestamp, floor: Timestamp = BOTTOM) -> Timestamp:
        return ts


class BreaksItsBarriers(Baseline):
    tail: type[Tail] = DeafTail

    def empty_tail(self, g: GroupId) -> Tail:
        return self.tail(g, membership=super().empty_tail(g).membership)


class KeepsInitialTimestamps(BreaksItsBarriers):
    tail = InitialTail


class SharedTimestamps(Baseline):
    def get_time(self, now: LocalTime) -> Timestamp:
        return Timestamp(super().get_time(now).time // 500, 0)


# Mistakes of the log ----------------------------------------------------------------------------


class OneVoteIsEnough(GroupLog):
    def count(
        self, learner: Learner, group: GroupId, bal: Ballot, slot: Slot, voter: ProcessId
    ) -> None:
        for member in self.topology.groups[group]:
            super().count(learner, group, bal, slot, member)


class NobodyVotesAgain(GroupLog):
    def on_new_log(self, bal: Ballot, log: Log) -> list[Effect]:
        effects = super().on_new_log(bal, log)
        return effects[-1:] if bal.leader == self.state.me else []


class KeepsItsOwnLog(GroupLog):
    """What a follower accepted in an earlier ballot stays, whatever the new leader's log says."""

    def on_new_log(self, bal: Ballot, log: Log) -> list[Effect]:
        mine = self.state.log
        effects = super().on_new_log(bal, log)
        if len(mine) > len(self.state.log):
            self.state.log = mine
        return effects

    def on_accept(self, bal: Ballot, slot: Slot) -> list[Effect]:
        if bal == self.state.cbal == self.state.promised:
            self.state.log.append(slot)
        return self.accepted((slot,))


class LeadsFromAnyLog(GroupLog):
    """Takes the shortest log of its quorum instead of the longest of the highest ballot."""

    def on_promise(self, promise: Promise, voter: ProcessId) -> list[Effect]:
        return super().on_promise(Promise(promise.bal, promise.cbal, promise.log[:1]), voter)


Broken = tuple[str, str, str, int, type[Baseline]]

BROKEN: tuple[Broken, ...] = (
    ("forgetful-sender", "L10 is left out sometimes", "multicast-validity", 10, ForgetfulSender),
    ("skips-some", "a group does not deliver some", "uniform-agreement", 10, SkipsSome),
    ("delivers-twice", "L36 forgets", "uniform-integrity", 5, DeliversTwice),
    ("not-fifo", "L23 takes another than the smallest", "uniform-global-fifo", 10, NotFifo),
    (
        "no-barriers",
        "L34 waits for nobody",
        "uniform-global-total",
        30,
        DeliversWithoutBarriers,
    ),
    ("one-sender-less", "L34 leaves out a sender", "timestamp-order", 30, ForgetsOneSender),
    ("any-order", "L33 takes what came last", "ordering", 30, AnyOrder),
    ("keeps-initial", "L25-L26 are left out", "timestamp-order", 30, KeepsInitialTimestamps),
    ("shared-timestamps", "getTime() is not unique", "timestamp-order", 20, SharedTimestamps),
)
REQUESTS: tuple[Broken, ...] = (
    ("deaf", "barrier requests are ignored", "termination", 10, DeafToRequests),
    (
        "breaks-barriers",
        "L30 does not bind its own group",
        "timestamp-order",
        60,
        BreaksItsBarriers,
    ),
    ("asks-nobody", "no barrier is requested", "termination", 10, AsksNobody),
)
INSIDE: tuple[Broken, ...] = (
    (
        "keeps-initial-inside",
        "the same, seen by the invariant",
        "invariant log_grows_in_timestamp",
        30,
        KeepsInitialTimestamps,
    ),
)
NULL: tuple[Broken, ...] = (
    ("no-null-messages", "null messages are not sent", "termination", 10, NoNullMessages),
    ("null-timestamp", "what a null message says", "timestamp-order", 150, NullTimestampIgnored),
)
LOGS: tuple[tuple[str, str, str, int, type[GroupLog]], ...] = (
    ("one-vote", "one 2B message decides", "uniform-agreement", 300, OneVoteIsEnough),
    ("no-second-vote", "a new leader's log is not voted on", "termination", 100, NobodyVotesAgain),
    (
        "keeps-its-log",
        "a follower's old log outlives a new leader's",
        "invariant logs_of_one_ballot_agree",
        300,
        KeepsItsOwnLog,
    ),
    ("any-log", "a new leader forgets what is decided", "uniform-agreement", 100, LeadsFromAnyLog),
)


def break_all(protocol: str, options: Options, kinds: tuple[Broken, ...]) -> None:
    for name, differs, breaks, seeds, kind in kinds:
        mutant(protocol, name, differs, breaks=breaks, seeds=seeds, build=build_with(kind, options))


break_all("baseline", {}, (*BROKEN, *REQUESTS, *INSIDE))
break_all("baseline-null", {"null_ticks": NULL_TICKS}, (*BROKEN, *NULL))
for name, differs, breaks, seeds, log in LOGS:
    mutant(
        "baseline",
        name,
        differs,
        breaks=breaks,
        seeds=seeds,
        build=build_with(Baseline, {}, log=log),
    )
