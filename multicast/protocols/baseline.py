"""Baseline Atomic Multicast at one process (paper 002 §3, Algorithm 1), quasi-genuine.

"L9" is line 9 of the algorithm. Barriers come as null messages or on request (§3.4). A group that
multicasts to one that does not expect it becomes one of its senders first (§5).

    baseline ── fr    fr-mcast, fr-deliver (fr_mcast.py)
             └─ log   propose_g, decide_g (group_log.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import cast

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_delivery import Delivery
from shmcast.multicast.protocols.barrier_entries import (
    Entry,
    Final,
    Initial,
    Join,
    Joined,
    Leave,
    Left,
    Needs,
    WantBarrier,
    WantLeave,
    by_source,
)
from shmcast.multicast.protocols.barrier_stamping import Membership, Tail
from shmcast.multicast.protocols.core import (
    BOTTOM,
    Ask,
    Deliver,
    Delivered,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Replied,
    Request,
    Send,
    SetTimer,
    Start,
    Timer,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.group_log import Append, Follows, Leads, Learned
from shmcast.multicast.protocols.topology import Topology

Item = Initial | WantBarrier | WantLeave
NULL_TIMER = "null"


@dataclass(slots=True)
class State:
    me: ProcessId
    g: GroupId
    delivery: Delivery  # barrier, stamped
    senders: dict[GroupId, set[GroupId]]  # sendersTo as this process knows it; never shrinks
    joined: dict[GroupId, tuple[int, Timestamp]]  # h -> epoch and m_rp.ts of the own group
    decided: Tail
    tail: Tail | None = None  # with what is proposed: at a leader only
    time: int = -1  # the latest that getTime() returned
    fr_count: int = 0
    leave_count: int = 0
    messages: dict[MessageId, Initial] = field(default_factory=dict)  # messages \ decided
    leaves: dict[MessageId, WantLeave] = field(default_factory=dict)
    wants: list[WantBarrier] = field(default_factory=list)
    joining: dict[GroupId, int] = field(default_factory=dict)  # others' m_rq without answer
    ready: list[tuple[Timestamp, int, Item]] = field(default_factory=list)  # to be proposed
    count: int = 0  # keeps items of equal timestamp in order
    last_to: dict[GroupId, Final] = field(default_factory=dict)  # the own group's last message


class Baseline:
    def __init__(self, topology: Topology, me: ProcessId, g: GroupId, config: Config) -> None:
        self.topology = topology
        self.config = config
        members = config.senders_to
        self.state = State(
            me,
            g,
            delivery=Delivery.of(members[g]),  # L4-L5
            senders={h: set(members[h]) for h in range(len(topology.groups))},
            joined={h: (0, BOTTOM) for h, senders in enumerate(members) if g in senders},
            decided=self.empty_tail(g),
        )

    def empty_tail(self, g: GroupId) -> Tail:
        inside = (h for h, senders in enumerate(self.config.senders_to) if g in senders)
        return Tail(g, membership={h: Membership(0, inside=True) for h in inside})

    def on_start(self, now: LocalTime) -> list[Effect]:
        ticks = self.config.null_ticks
        return [SetTimer(NULL_TIMER, now + ticks)] if ticks is not None else []

    # L6-L16 ----------------------------------------------------------------------------------

    def get_time(self, now: LocalTime) -> Timestamp:  # L9
        s = self.state
        s.time = max(now, s.time + 1)
        return Timestamp(s.time, s.me)

    def fr_mcast(self, dest: tuple[GroupId, ...], body: Wire) -> Effect:
        s = self.state
        s.fr_count += 1
        return Ask("fr", Multicast(Message(MessageId(s.me, s.fr_count), dest, body)))

    def on_multicast(self, m: Message, now: LocalTime) -> list[Effect]:  # L6
        s = self.state
        return [self.fr_mcast((s.g,), Initial(m, s.g, self.get_time(now)))]  # L7-L10

    def on_leave(self, h: GroupId, now: LocalTime) -> list[Effect]:
        s = self.state
        assert h != s.g, "a group is always one of its own senders"
        s.leave_count += 1
        mid = MessageId(s.me, s.leave_count)
        return [self.fr_mcast((s.g,), WantLeave(h, self.get_time(now), mid))]

    def on_fr_deliver(self, item: Item, now: LocalTime) -> list[Effect]:  # L11
        return self.enqueue(item, now)

    def enqueue(self, item: Item, now: LocalTime) -> list[Effect]:
        """L13; the same for all that a group has to decide."""
        s = self.state
        match item:
            case Initial(m):
                if s.decided.has(m.id):
                    return []
                s.messages[m.id] = item
            case WantLeave():
                if item.mid.seq <= s.decided.leave_seq.get(item.mid.sender, 0):
                    return []
                s.leaves[item.mid] = item
            case WantBarrier():
                s.wants.append(item)
        if s.tail is None:
            return []
        self.make_ready(item)
        return self.propose(now)

    def make_ready(self, item: Item) -> None:
        s = self.state
        s.count += 1
        heappush(s.ready, (item.ts, s.count, item))

    # L17-L31, at the leader: "to propose a value, a process sends it to the leader" (§6); as all
    # of g fr-deliver every message, the leader has it already --------------------------------

    def on_leads(self, log: Iterable[Entry], now: LocalTime) -> list[Effect]:
        s = self.state
        s.tail = self.empty_tail(s.g)
        for entry in log:
            s.tail.add(entry)
        s.ready = []
        items: list[Item] = [*s.messages.values(), *s.leaves.values(), *s.wants]
        for item in items:
            self.make_ready(item)
        return [*self.answer_joins(now), *self.propose(now)]

    def propose(self, now: LocalTime) -> list[Effect]:  # L17-L20
        s = self.state
        effects: list[Effect] = []
        blocked: set[ProcessId] = set()  # senders whose earlier message waits for a join
        later: list[Item] = []
        while s.tail is not None and s.ready:
            item = heappop(s.ready)[2]  # L23
            match item:
                case Initial():
                    effects += self.propose_message(item, s.tail, blocked, later)
                case WantBarrier():
                    effects += self.propose_barrier(item, s.tail, later)
                case WantLeave(_, _, mid) if mid.seq > s.tail.leave_seq.get(mid.sender, 0):
                    effects.append(self.append(s.tail, s.tail.left(item)))
        for postponed in later:
            self.make_ready(postponed)
        return effects

    def propose_message(
        self, item: Initial, tail: Tail, blocked: set[ProcessId], later: list[Item]
    ) -> list[Effect]:
        sender = item.m.id.sender
        if tail.has(item.m.id):
            return []
        missing = [h for h in item.m.dest if not self.may_address(h, tail)]
        if missing or sender in blocked:
            blocked.add(sender)
            later.append(item)
            return [
                self.append(tail, join)
                for h in missing
                if (join := tail.join(h, item.ts)) is not None
            ]
        floor = max((self.state.joined[h][1] for h in item.m.dest), default=BOTTOM)
        final = tail.stamped(item, floor)  # L24-L26
        return [self.append(tail, final), *self.after_stamping(final)]

    def propose_barrier(self, want: WantBarrier, tail: Tail, later: list[Item]) -> list[Effect]:
        """§3.4: "agree on a barrier with a timestamp greater than m's"."""
        open_ = [h for h in want.h if not tail.reaches(h, want.ts)]
        now_ = tuple(h for h in open_ if self.may_address(h, tail))
        if len(now_) < len(open_):
            later.append(want)  # whoever asked knows of a join that this process will hear of
        return [self.append(tail, tail.barrier(want.ts, now_, want.mid))] if now_ else []

    def may_address(self, h: GroupId, tail: Tail) -> bool:
        """§5: "once m_rp is received by g, it can multicast messages to h"."""
        member, answer = tail.membership.get(h), self.state.joined.get(h)
        if member is None or answer is None:
            return False
        return member.inside and member.epoch == answer[0]

    def append(self, tail: Tail, entry: Entry) -> Effect:
        tail.add(entry)
        return Ask("log", Request(Append(entry)))

    def after_stamping(self, final: Final) -> list[Effect]:
        return []

    def answer_joins(self, now: LocalTime) -> list[Effect]:
        """§5: "they enqueue a request response m_rp to be proposed and eventually decided"."""
        s = self.state
        effects: list[Effect] = []
        for g, epoch in sorted(s.joining.items()):
            if s.tail is None or s.tail.answered.get(g, -1) >= epoch:
                continue
            senders = tuple(sorted({*s.senders[s.g], *s.tail.answered, g}))
            ts = s.tail.after(self.get_time(now))
            to = tuple(h for h in senders if h != s.g)
            effects.append(self.append(s.tail, Joined(g, epoch, senders, ts, to)))
        return effects

    def on_null_timer(self, now: LocalTime) -> list[Effect]:
        """§3.4: "multicast a null message if x does not have any application messages to
        multicast to h for a certain timeout Δ"."""
        s, ticks = self.state, self.config.null_ticks or 0
        effects: list[Effect] = [SetTimer(NULL_TIMER, now + ticks)]
        if s.tail is None:
            return effects
        silent = [
            h
            for h in s.tail.membership
            if self.may_address(h, s.tail) and s.tail.last_to.get(h, BOTTOM).time <= now - ticks
        ]
        if silent:
            null = s.tail.barrier(self.get_time(now), silent)
            effects.append(self.append(s.tail, null))
        return effects

    # L14-L16, L27-L36: what is decided ---------------------------------------------------------

    def on_learned(self, group: GroupId, entry: Entry, now: LocalTime) -> list[Effect]:
        s = self.state
        s.delivery.raise_barrier(group, entry.ts)  # L16, L30
        if group == s.g:
            s.decided.add(entry)  # L29
            s.wants = [w for w in s.wants if not all(s.decided.reaches(h, w.ts) for h in w.h)]
        effects: list[Effect] = []
        match entry:
            case Final():
                effects += self.on_final(group, entry)
            case Join(_, epoch) if group != s.g:
                if s.decided.answered.get(group, -1) < epoch:
                    s.joining[group] = epoch
                effects += self.answer_joins(now)
            case Joined():
                effects += self.on_joined(group, entry, now)
            case Left(_, epoch, _, mid):
                s.leaves.pop(mid, None) if group == s.g else s.delivery.leave(group, epoch)
        return [*effects, *self.deliver()]

    def on_final(self, group: GroupId, final: Final) -> list[Effect]:
        s = self.state
        if s.g in final.m.dest:
            s.delivery.insert(final)  # L15, L28
        if group != s.g:
            return []
        s.messages.pop(final.m.id, None)
        for h in final.m.dest:
            s.last_to[h] = final
        return self.want_barriers(final, self.needs(final))

    def needs(self, final: Final) -> Needs:
        """Every process of g asks: the one that multicast m may be gone."""
        return self.barriers_for(final.m.dest)

    def barriers_for(self, dest: tuple[GroupId, ...]) -> Needs:
        """§3.4: "p requests a barrier to every x in sendersTo(h)". Its own group gives one with
        the message."""
        s = self.state
        if not self.config.requested:
            return ()
        return tuple((x, h) for h in dest for x in sorted(s.senders[h]) if x != s.g)

    def want_barriers(self, final: Final, needs: Needs) -> list[Effect]:
        return [
            Send(WantBarrier(h, final.ts, final.m.id), self.topology.groups[x])
            for x, h in by_source(needs).items()
        ]

    def on_joined(self, h: GroupId, joined: Joined, now: LocalTime) -> list[Effect]:
        """§5. DEVIATION: h tells all its senders, with m_rp, instead of g with m_n. Only h knows
        them all when two groups join at the same time."""
        s = self.state
        newcomers = set(joined.senders) - s.senders[h]
        s.senders[h].update(joined.senders)
        effects: list[Effect] = []
        if h == s.g:
            s.delivery.join(joined.g, joined.epoch, joined.ts)
            if s.joining.get(joined.g, -1) <= joined.epoch:
                s.joining.pop(joined.g, None)
        if joined.g == s.g:
            s.joined[h] = (joined.epoch, joined.ts)
            effects += self.propose(now)
        if h in s.last_to:
            # "q checks among the history of messages from its group …": the last covers all.
            needs = tuple((x, h) for x, _ in self.barriers_for((h,)) if x in newcomers)
            effects += self.want_barriers(s.last_to[h], needs)
        return effects

    def deliver(self) -> list[Effect]:  # L32-L36
        return [e for final in self.state.delivery.deliverable() for e in self.delivered(final)]

    def delivered(self, final: Final) -> list[Effect]:
        return [Deliver(final.m, final.ts)]

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                return self.on_multicast(m, now)
            case Delivered(Message(payload=item)) | Receive(item):
                return self.on_fr_deliver(cast("Item", item), now)
            case Replied(what):
                return self.on_log(what, now)
            case Request(Leave(h)):
                return self.on_leave(h, now)
            case Timer() | Start():
                return self.on_time(event, now)
        return []

    def on_log(self, what: object, now: LocalTime) -> list[Effect]:
        match what:
            case Learned(group, value):
                return self.on_learned(group, cast("Entry", value), now)
            case Leads(log):
                return self.on_leads(cast("tuple[Entry, ...]", log), now)
            case Follows():
                self.state.tail = None
        return []

    def on_time(self, event: Timer | Start, now: LocalTime) -> list[Effect]:
        return self.on_start(now) if isinstance(event, Start) else self.on_null_timer(now)
