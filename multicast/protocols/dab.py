"""Dynamic Atomic Broadcast (paper 003): members come, go and fail; all deliver slices of one order.

This file is the process: slots and flushes, joining and leaving, detection of failures (§6, Fig.
4). The order is in dab_ordering.py, agreement on failures in dab_manager.py and below it.

    application   Join, Leave, Multicast          JoinOK, LeaveOK, Deliver
                        |                                 ^
                  +-----------+  fail, join, leave  +----------+
                  |   Dab     | ------------------> | Manager  |  First Round, consensus
                  | Ordering  | <------------------ |          |
                  +-----------+      decision       +----------+
                        |  one Flush per slot
"""

from __future__ import annotations

from enum import Enum

from shmcast.multicast.protocols.core import (
    CancelTimer,
    Effect,
    Event,
    LocalTime,
    Message,
    Multicast,
    ProcessId,
    Receive,
    Record,
    Reply,
    Request,
    Send,
    SetTimer,
    Start,
    Timer,
)
from shmcast.multicast.protocols.dab_bounds import Timing
from shmcast.multicast.protocols.dab_manager import Decision, Manager, Output
from shmcast.multicast.protocols.dab_messages import (
    Control,
    Doubt,
    Expelled,
    Flush,
    Join,
    JoinNotice,
    JoinOK,
    Leave,
    LeaveOK,
    Life,
    Part,
    Refused,
)
from shmcast.multicast.protocols.dab_ordering import Ordering, Peer

FIRST_SLOT = 1  # of the members that a run begins with
SLOT, JOIN, MANAGER = "slot", "join", "manager"
WATCHED_BEFORE_JOIN = 3  # slots


class State(Enum):
    IDLE = "idle"
    WAITING = "waiting"  # preJoin: agreements on our last life must end first
    JOINING = "joining"  # preActive: the join slot is known
    MEMBER = "member"
    LEAVING = "leaving"


class Dab:
    manager_kind: type[Manager] = Manager
    ordering_kind: type[Ordering] = Ordering

    def __init__(
        self,
        me: ProcessId,
        processes: tuple[ProcessId, ...],
        timing: Timing,
        *,
        initially: tuple[ProcessId, ...],
        burst_max: int | None = None,
    ) -> None:
        self.me = me
        self.processes = processes
        self.timing = timing
        self.initially = initially
        self.burst_max = burst_max  # AppMaxBurst, in messages per slot
        self.become_idle()

    def become_idle(self) -> None:
        self.state = State.IDLE
        self.incarnation = -1
        self.joins_at = 0  # J
        self.slot = 0  # sendingSlot
        self.leaves_in: int | None = None
        self.data: list[Message] = []
        self.control: list[Control] = []
        self.ordering = self.ordering_kind(self.processes, FIRST_SLOT)
        self.manager = self.manager_kind(self.me, self.timing, FIRST_SLOT)
        self.retired: dict[Life, int] = {}  # lives that left, and their last slot
        self.wakes_at: LocalTime | None = None

    @property
    def delivers(self) -> bool:
        return self.state in (State.MEMBER, State.LEAVING)

    # Joining and leaving ------------------------------------------------------------------

    def on_start(self, now: LocalTime) -> list[Effect]:
        if self.me not in self.initially:
            return []
        self.incarnation = 0
        self.know_join_slot(FIRST_SLOT)
        for process in self.initially:
            self.ordering.add((process, 0), FIRST_SLOT, FIRST_SLOT - 1)
            self.manager.join(process, FIRST_SLOT)
        return self.start_clock(now)

    def start_clock(self, now: LocalTime) -> list[Effect]:
        self.slot = self.timing.slot(now)
        return [SetTimer(SLOT, (self.slot + 1) * self.timing.theta)]

    def know_join_slot(self, slot: int) -> None:
        self.state = State.JOINING
        self.joins_at = slot
        self.ordering.slot = slot
        self.manager.join_slot = slot
        self.manager.join(self.me, slot)

    def on_join(self, incarnation: int, now: LocalTime) -> list[Effect]:
        """DEVIATION: Fig. 4 reserves only after the wait, so that a joiner's answers to other
        joiners are never sent. It flushes from the start, without marks."""
        if self.state is not State.IDLE:
            return []
        self.become_idle()
        self.state = State.WAITING
        self.incarnation = incarnation
        self.ordering.newest[self.me] = incarnation
        return [
            Record("join", detail=str(incarnation)),
            *self.start_clock(now),
            SetTimer(JOIN, now + self.join_wait()),
        ]

    def join_wait(self) -> int:
        return self.timing.join_wait

    def send_join(self, now: LocalTime) -> list[Effect]:
        self.know_join_slot(self.timing.join_slot(now))
        life = (self.me, self.incarnation)
        self.ordering.add(life, self.joins_at, self.joins_at - 1)
        self.control.append(JoinNotice(life, self.joins_at))
        return [self.flush(now, mark=False)]

    def on_leave(self) -> list[Effect]:
        if self.state is not State.MEMBER:
            return []
        self.state = State.LEAVING
        self.leaves_in = self.slot
        return [Record("leave")]

    def leave_ok(self) -> list[Effect]:
        incarnation = self.incarnation
        return [*self.stop(), Record("leave-ok"), Reply(LeaveOK(incarnation))]

    def stop(self) -> list[Effect]:
        self.become_idle()
        return [CancelTimer(name) for name in (SLOT, JOIN, MANAGER)]

    # Slots --------------------------------------------------------------------------------

    def on_multicast(self, m: Message, now: LocalTime) -> list[Effect]:
        """A message that comes at the very tick where a slot begins belongs to that slot."""
        due = self.state is not State.IDLE and self.timing.slot(now) > self.slot
        before = self.end_slot(now) if due else []
        return [*before, *self.accept(m)]

    def accept(self, m: Message) -> list[Effect]:
        if self.state is not State.MEMBER:
            return self.refuse(m, "not a member")
        if self.burst_max is not None and len(self.data) >= self.burst_max:
            return self.refuse(m, "above the burst agreed on")
        self.data.append(m)
        return []

    def refuse(self, m: Message, why: str) -> list[Effect]:
        return [Record("refuse", m), Reply(Refused(m.id, why))]

    def end_slot(self, now: LocalTime) -> list[Effect]:
        """An idle member flushes as well: its mark is what the others wait for."""
        ended = self.slot
        effects: list[Effect] = []
        for output in self.manager.say_again(now):
            assert not isinstance(output, Decision)
            self.control.append(output)
        if self.delivers:
            effects.append(self.flush(now, mark=True))
        elif self.control:
            effects.append(self.flush(now, mark=False))
        if self.leaves_in is not None and ended > self.leaves_in:
            return [*effects, *self.leave_ok()]
        self.slot += 1
        deadline = (ended + 1) * self.timing.theta + self.timing.delta + self.timing.gamma
        effects += [
            SetTimer(SLOT, (self.slot + 1) * self.timing.theta),
            SetTimer((SLOT, ended), deadline),
        ]
        if self.state is State.JOINING and self.slot >= self.joins_at:
            self.state = State.MEMBER
            effects += [
                Record("join-ok", detail=str(self.incarnation)),
                Reply(JoinOK(self.incarnation)),
            ]
        return effects

    def flush(self, now: LocalTime, *, mark: bool) -> Effect:
        flush = Flush(
            self.incarnation,
            self.slot,
            tuple(self.data) if mark else (),
            tuple(self.control),
            mark,
            leaves=mark and self.leaves_in == self.slot,
        )
        self.control = []
        self.manager.flushed(now)
        if mark:
            self.data = []
        return Send(flush, self.processes)

    # Receiving ----------------------------------------------------------------------------

    def on_flush(self, sender: ProcessId, flush: Flush, now: LocalTime) -> list[Effect]:
        if self.state is State.IDLE:
            return []
        effects: list[Effect] = []
        if flush.mark:
            effects += self.on_mark((sender, flush.incarnation), flush, now)
        for control in flush.control:
            effects += self.on_control(sender, control, now)
        return [*effects, *self.deliver()]

    def on_mark(self, life: Life, flush: Flush, now: LocalTime) -> list[Effect]:
        peer = self.ordering.find(life)
        if peer is None:
            return self.on_stranger(life, flush)
        if not self.ordering.receive(peer, flush):
            return []
        if peer.retired and life not in self.retired:
            # The mark that the cursor waits for may lie behind an agreement that waits for this
            # process: it is skipped now, not when the cursor gets there.
            self.retired[life] = peer.last
            if peer.process != self.me:
                return self.obey(self.manager.leave(peer.process, now), now)
        return []

    def on_stranger(self, life: Life, flush: Flush) -> list[Effect]:
        """A mark of an unknown life: a joiner meets those that it will join; a member has missed
        a join, which the network should not let happen (§10)."""
        if not self.ordering.is_news(life) or self.state is State.WAITING:
            return []
        watched_from = self.joins_at - WATCHED_BEFORE_JOIN
        if flush.slot < watched_from:
            return []
        self.ordering.receive(self.ordering.add(life, flush.slot, flush.slot - 1), flush)
        self.manager.join(life[0], flush.slot)
        if flush.slot == watched_from:
            return []
        return [Reply(Doubt(f"p{life[0]} is here, and its join was never heard of"))]

    def on_control(self, sender: ProcessId, control: Control, now: LocalTime) -> list[Effect]:
        if isinstance(control, JoinNotice):
            return self.on_join_notice(control)
        if sender == self.me or self.state in (State.IDLE, State.WAITING):
            return []
        if control.about == (self.me, self.incarnation):
            return self.expelled()
        if isinstance(control, Part) and control.about in self.retired:
            return self.obey(self.manager.help(control.about, self.retired[control.about]), now)
        return self.obey(self.manager.receive(sender, control, now), now)

    def on_join_notice(self, notice: JoinNotice) -> list[Effect]:
        """News is passed on, once: all the living hear of a join, or none. DEVIATION: the echo
        carries the whole notice, and only a larger incarnation is news."""
        if self.state is not State.IDLE and self.ordering.is_news(notice.who):
            self.ordering.add(notice.who, notice.slot, notice.slot - 1)
            self.manager.join(notice.who[0], notice.slot)
            self.control.append(notice)
        return []

    def expelled(self) -> list[Effect]:
        """§10: others agree on our end, so we are outside the model; going on could differ."""
        incarnation = self.incarnation
        return [*self.stop(), Record("leave-ok", detail="expelled"), Reply(Expelled(incarnation))]

    # Failures -----------------------------------------------------------------------------

    def on_deadline(self, slot: int, now: LocalTime) -> list[Effect]:
        watched_from = self.joins_at - WATCHED_BEFORE_JOIN
        if self.state in (State.IDLE, State.WAITING):
            return []
        if not self.delivers and slot <= watched_from:
            return self.forget_absent(slot, now) if slot == watched_from else []
        effects: list[Effect] = []
        for peer in self.ordering.overdue(slot, self.me):
            effects += self.report(peer, now)
        return [*effects, *self.deliver()]

    def forget_absent(self, slot: int, now: LocalTime) -> list[Effect]:
        """Whoever was to be a member by now and is silent was gone before we came."""
        effects: list[Effect] = []
        for peer in self.ordering.overdue(slot, self.me):
            self.ordering.remove(peer)
            effects += self.obey(self.manager.leave(peer.process, now), now)
        return effects

    def report(self, peer: Peer, now: LocalTime) -> list[Effect]:
        """DEVIATION: one that ended before our join slot is gone for us at once, also if it
        completed the slot before (Fig. 5 asks for less): we help, and would get no decision."""
        peer.reported = True
        if peer.last < self.joins_at:
            peer.end(self.joins_at - 1)
        note = Record("note", detail=f"p{peer.process} ended with slot {peer.last}")
        return [note, *self.obey(self.manager.fail(peer.life, peer.last, now), now)]

    def obey(self, outputs: list[Output], now: LocalTime) -> list[Effect]:
        """What the manager wants said goes into the next flush; what it decided is done."""
        effects: list[Effect] = []
        for output in outputs:
            if not isinstance(output, Decision):
                self.control.append(output)
                continue
            effects.append(Record("note", detail=f"decided {output.about} {output.value}"))
            peer = self.ordering.find(output.about)
            if peer is not None:
                peer.end(output.value)
        return effects

    def set_alarm(self, now: LocalTime) -> list[Effect]:
        """DEVIATION: timers in whole ticks of the local clock; the paper's automata have them
        implicitly, in their preconditions."""
        at = self.manager.next_wake(now)
        if at is None or at == self.wakes_at:
            return []
        self.wakes_at = at
        return [SetTimer(MANAGER, at)]

    def deliver(self) -> list[Effect]:
        return list(self.ordering.deliver()) if self.delivers else []

    # Dispatch -----------------------------------------------------------------------------

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        effects = self.dispatch(event, now)
        return [*effects, *self.set_alarm(now)]

    def dispatch(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Receive(Flush() as flush, sender):
                return self.on_flush(sender, flush, now)
            case Multicast(m):
                return self.on_multicast(m, now)
            case Request(what):
                return self.on_request(what, now)
            case Timer(name):
                return self.on_timer(name, now)
            case Start():
                return self.on_start(now)
        return []

    def on_request(self, what: object, now: LocalTime) -> list[Effect]:
        match what:
            case Join(incarnation):
                return self.on_join(incarnation, now)
            case Leave():
                return self.on_leave()
        return []

    def on_timer(self, name: object, now: LocalTime) -> list[Effect]:
        match name:
            case "slot":
                return self.end_slot(now)
            case "join":
                return self.send_join(now)
            case "manager":
                return [*self.obey(self.manager.wake(now), now), *self.deliver()]
            case ("slot", int(slot)):
                return self.on_deadline(slot, now)
        return []
