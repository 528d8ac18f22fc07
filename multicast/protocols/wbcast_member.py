"""A member of a group as it runs: the figure (wbcast.py) with its timers, and with what stands
in the neighbouring files: client sessions, garbage collection, rejoining."""

from __future__ import annotations

from shmcast.multicast.protocols.core import (
    CancelTimer,
    Effect,
    Event,
    GroupId,
    LocalTime,
    Message,
    MessageId,
    Multicast,
    Nominate,
    ProcessId,
    Receive,
    Record,
    Reply,
    Restart,
    Send,
    SetTimer,
    Suspect,
    Timer,
    Timestamp,
    Trust,
    Wire,
)
from shmcast.multicast.protocols.registry import Options, ticks
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Handler, Status, WbCast
from shmcast.multicast.protocols.wbcast_gc import Garbage
from shmcast.multicast.protocols.wbcast_rejoin import (
    Missed,
    Past,
    has_collected,
    newest,
    of_living,
)
from shmcast.multicast.protocols.wbcast_session import AGAIN, Sender, Sessions, backoff
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    Ballot,
    Collect,
    DeliverMsg,
    Done,
    Lives,
    MulticastMsg,
    NewLeaderAck,
    NewState,
    Phase,
    Redirect,
    Rejoin,
    Report,
    Snapshot,
    Stable,
)

RETRY, FOLLOW, COLLECT = "retry", "follow", "collect"  # timers; all of them end
RETRY_TICKS = 20_000
PATIENCE_TICKS = 15_000
COLLECT_TICKS = 10_000
HELD_BYTES_MAX = 8 << 20  # of payloads: whoever leads next must gather all of them from a quorum
LAG_TICKS = 20_000  # for so long is a suspected member waited for before messages are dropped


class Member(WbCast):
    def __init__(self, topology: Topology, me: ProcessId, options: Options) -> None:
        super().__init__(topology, me)
        self.retry_ticks = ticks(options, "retry_ticks", RETRY_TICKS)
        self.patience_ticks = ticks(options, "patience_ticks", PATIENCE_TICKS)
        self.collect_ticks = ticks(options, "collect_ticks", COLLECT_TICKS)
        self.lag_ticks = ticks(options, "lag_ticks", LAG_TICKS)
        self.now = 0
        self.rank = self.peers.index(me)
        self.sender = Sender(topology, self.state.cur_leader, self.retry_ticks)
        self.sessions = Sessions()
        self.declared: dict[MessageId, int] = {}  # `finished` of what we have proposed
        self.garbage = self.new_garbage()
        self.timers: set[str] = set()  # those armed
        self.retries: dict[MessageId, tuple[LocalTime, int]] = {}  # when next, attempts so far
        self.nominated = self.peers[0]  # by leader selection
        self.joined = True  # False: memory lost, no vote yet
        self.told = tuple(self.lives)  # the lives that our own ballot began with
        self.failures = 0  # to find or to be a leader, in a row
        self.suspected: dict[ProcessId, LocalTime] = {}  # since when

    def new_garbage(self) -> Garbage:
        return Garbage(self.topology, self.g0)

    def arm(self, name: str, after: int) -> list[Effect]:
        if name in self.timers:
            return []
        self.timers.add(name)
        return [SetTimer(name, self.now + after)]

    # Sessions -----------------------------------------------------------------------------

    def on_request(self, msg: MulticastMsg, sender: ProcessId) -> list[Effect]:
        """MULTICAST of a sender, or of a leader that retries (L2, L34)."""
        s, m = self.state, msg.m
        if s.status is not Status.LEADER:
            # DEVIATION: in the paper nobody answers; we name the leader we know.
            if not self.joined or s.ballot.leader in (self.me, sender):
                return []
            return [Send(Redirect(m.id, self.g0, s.ballot.leader), (sender,))]
        own = sender == m.id.sender
        done = [Send(Done(m.id, self.g0), (sender,))] if own else []
        if self.is_forgotten(m.id):
            return [*done]
        if own and m.id not in s.phase:
            self.declared[m.id] = msg.finished
        effects = self.on_multicast(m)
        if s.phase[m.id] < Phase.COMMITTED:
            return effects + self.retry_later(m.id)
        delivered = s.global_ts[m.id] <= s.max_delivered_gts
        return [*effects, *done] if delivered else effects

    def is_forgotten(self, mid: MessageId) -> bool:
        return mid not in self.state.phase and self.sessions.is_done(mid)

    def deliver_msg(self, m: Message, lts: Timestamp, gts: Timestamp) -> DeliverMsg:
        return DeliverMsg(m, self.state.cballot, lts, gts, self.declared.pop(m.id, 0))

    def on_deliver(self, d: DeliverMsg) -> list[Effect]:
        s = self.state
        if s.status is Status.RECOVERING or s.cballot != d.b:
            return []
        effects = super().on_deliver(d)
        self.garbage.handled = d.gts
        self.sessions.finish(d.m.id.sender, d.finished)
        return effects + self.arm(COLLECT, self.collect_ticks)

    def hand_over(self, m: Message, gts: Timestamp) -> list[Effect]:
        effects = super().hand_over(m, gts)
        self.sessions.add(m.id)
        if self.state.status is Status.LEADER:
            effects.append(Send(Done(m.id, self.g0), (m.id.sender,)))
        return effects

    def on_accept(self, accept: Accept) -> list[Effect]:
        mid = accept.m.id
        if not self.joined or self.is_forgotten(mid):
            return []  # forgotten: everybody who could need our vote has committed it
        if accept.bal > self.known_ballot(mid, accept.g):
            self.state.cur_leader[accept.g] = accept.bal.leader
        return super().on_accept(accept)

    def known_ballot(self, mid: MessageId, g: GroupId) -> Ballot:
        known = self.state.accepts.get(mid, {}).get(g)
        return Ballot(0, 0) if known is None else known.bal

    # Message recovery ---------------------------------------------------------------------

    def retry_later(self, mid: MessageId) -> list[Effect]:
        if mid not in self.retries:
            self.retries[mid] = (self.now + self.retry_ticks, 0)
        return self.arm(RETRY, self.retry_ticks)

    def on_retry_timer(self) -> list[Effect]:
        s = self.state
        if s.status is not Status.LEADER:
            self.retries = {}
            return []
        effects: list[Effect] = []
        for mid, (due, attempts) in list(self.retries.items()):
            if s.phase.get(mid, Phase.START) not in (Phase.PROPOSED, Phase.ACCEPTED):
                del self.retries[mid]
            elif due <= self.now:
                effects += self.retry(s.messages[mid], whole_groups=attempts > 0)
                after = backoff(self.retry_ticks, attempts)
                self.retries[mid] = (self.now + after, attempts + 1)
        if not self.retries:
            return effects
        soonest = min(due for due, _ in self.retries.values())
        return effects + self.arm(RETRY, soonest - self.now)

    # Leader recovery ----------------------------------------------------------------------

    def on_nominate(self, group: GroupId, leader: ProcessId) -> list[Effect]:
        self.state.cur_leader[group] = leader
        if group != self.g0:
            return []
        self.nominated = leader
        if leader == self.me and self.joined and self.state.status is not Status.LEADER:
            return [*self.recover(self.state.ballot), *self.watch()]
        return self.watch()

    def on_new_leader(self, b: Ballot, lives: Lives) -> list[Effect]:
        self.lives = list(newest(tuple(self.lives), lives))
        if not self.joined:
            self.state.ballot = max(self.state.ballot, b)  # a promise without a vote
            return []
        return super().on_new_leader(b, lives) + self.watch()

    def countable(self, votes: dict[ProcessId, NewLeaderAck]) -> list[NewLeaderAck]:
        return of_living(votes, self.peers, tuple(self.lives))

    def begin_ballot(self, votes: list[NewLeaderAck]) -> list[Effect]:
        self.garbage.new_ballot()
        self.declared = {}
        self.told = tuple(self.lives)
        missed = [effect for vote in votes for effect in self.take_over(vote.past)]
        return missed + super().begin_ballot(votes)

    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        """DEVIATION: L51-L53 without what a voter has collected. One that was left behind may
        hold it as ACCEPTED; the other groups have forgotten it and would never vote again."""
        found = super().merged(votes, J)
        gone = [
            mid
            for mid, phase in found.phase.items()
            if phase is Phase.ACCEPTED and any(has_collected(vote, mid) for vote in votes)
        ]
        return found.without(gone)

    def new_state(self) -> NewState:
        s = self.state
        return NewState(s.cballot, s.clock, self.snapshot(), self.told, self.past())

    def past(self) -> Past:
        s, garbage = self.state, self.garbage
        return Past(
            s.max_delivered_gts, garbage.dropped, self.sessions.copy(), dict(garbage.stable)
        )

    def take_over(self, past: object) -> list[Effect]:
        """What others remember of collected messages. If they have dropped one that we have not
        delivered, we were suspected for long and left behind. Votes and promises are still good;
        to the application we are as one that crashed and came back."""
        if not isinstance(past, Past):
            return []
        s, garbage = self.state, self.garbage
        self.sessions.merge(past.sessions)
        for g, gts in past.stable.items():
            garbage.stable[g] = max(gts, garbage.stable.get(g, gts))
        garbage.dropped = max(garbage.dropped, past.dropped)
        if not self.has_missed(past):
            return []
        s.max_delivered_gts = past.dropped
        gone = Record("crash", detail="left behind")
        return [gone, Record("restart"), Record("join-ok"), Reply(Missed(past.dropped))]

    def has_missed(self, past: Past) -> bool:
        return past.dropped > self.state.max_delivered_gts

    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:
        s = self.state
        back: list[Effect] = []
        if not self.joined:
            if new.lives[self.rank] != self.lives[self.rank] or new.b < s.ballot:
                return []  # begun before we came back, or already overtaken
            back = self.join(new)
        effects = super().on_new_state(new, sender)
        if effects:
            self.garbage.new_ballot()
            self.declared = {}
            s.cur_leader[self.g0] = sender
            effects = self.take_over(new.past) + effects
        return back + effects + self.watch()

    def join(self, new: NewState) -> list[Effect]:
        assert isinstance(new.past, Past)
        self.joined = True
        self.state.max_delivered_gts = new.past.delivered
        return [Record("join-ok")]

    def lead_if_synced(self) -> list[Effect]:
        effects = super().lead_if_synced()
        if self.state.status is not Status.LEADER:
            return effects
        s = self.state
        s.cur_leader[self.g0] = self.me
        for mid, phase in s.phase.items():
            if phase is Phase.ACCEPTED:
                effects += self.retry(s.messages[mid]) + self.retry_later(mid)
        return effects + self.watch()

    # Staying together ---------------------------------------------------------------------

    def watch(self) -> list[Effect]:
        """Keeps a timer running while we do not follow the nominated leader."""
        s = self.state
        if self.joined and s.status is not Status.RECOVERING and s.cballot.leader == self.nominated:
            self.failures = 0
            if FOLLOW not in self.timers:
                return []
            self.timers.discard(FOLLOW)
            return [CancelTimer(FOLLOW)]
        # Members wait unequally long, so that two candidates do not disturb each other for ever.
        after = backoff(self.patience_ticks, self.failures) + self.rank * self.patience_ticks // 5
        return self.arm(FOLLOW, after)

    def on_follow_timer(self) -> list[Effect]:
        self.failures += 1
        if self.joined and self.nominated == self.me:
            return [*self.recover(self.state.ballot), *self.watch()]
        return [*self.ask_to_rejoin(), *self.watch()]

    def ask_to_rejoin(self) -> list[Effect]:
        others = tuple(p for p in self.peers if p != self.me)
        return [Send(Rejoin(self.lives[self.rank], self.state.ballot), others)]

    def on_rejoin(self, life: int, ballot: Ballot, sender: ProcessId) -> list[Effect]:
        s, rank = self.state, self.peers.index(sender)
        self.lives[rank] = max(life, self.lives[rank])
        # One who is nominated and asks has lost its memory: somebody must lead until it is back.
        leads = s.status is Status.LEADER or self.nominated in (self.me, sender)
        if not leads or not self.joined:
            return []
        if s.status is Status.RECOVERING and s.ballot.leader == self.me and s.ballot > ballot:
            return []  # under way; the timer sees to it that it succeeds
        if ballot <= s.cballot and self.told[rank] >= life:
            return []
        return self.recover(ballot)

    def on_restart(self, life: int, saved: object) -> list[Effect]:
        self.lives[self.rank] = life
        self.joined = False
        self.state.status = Status.RECOVERING
        return [*self.ask_to_rejoin(), *self.watch(), *self.sender.resume(saved, self.now)]

    # Dispatch -----------------------------------------------------------------------------

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        self.now = now
        match event:
            case Receive(message, sender):
                return self.on_message(message, sender)
            case Timer(name):
                return self.on_timer(str(name))
            case Multicast(m):
                return self.sender.multicast(m, now)
            case Nominate(group, leader):
                return self.on_nominate(group, leader)
            case Restart(life, saved):
                return self.on_restart(life, saved)
            case Suspect(process):
                self.suspected.setdefault(process, now)
            case Trust(process):
                self.suspected.pop(process, None)
        return []

    def table(self) -> dict[type[Wire], Handler]:
        return {
            **super().table(),
            MulticastMsg: self.on_request,
            Done: lambda w, _: self.sender.on_done(w.mid, w.g),
            Redirect: lambda w, _: self.sender.on_redirect(w),
            Report: self.on_report,
            Stable: lambda w, _: self.garbage.on_stable(self.state, w.g, w.gts),
            Collect: lambda w, _: self.garbage.on_collect(self.state, w),
            Rejoin: lambda w, p: self.on_rejoin(w.life, w.ballot, p),
        }

    def on_report(self, report: Report, sender: ProcessId) -> list[Effect]:
        s = self.state
        if s.status is not Status.LEADER or s.cballot != report.b:
            return []
        return self.garbage.on_report(s, report, sender, self.absent())

    def absent(self) -> set[ProcessId]:
        """Suspected for long; or for a moment, when what is kept for them takes too much room."""
        patience = self.lag_ticks if self.held_bytes() <= HELD_BYTES_MAX else 0
        return {p for p, since in self.suspected.items() if self.now - since >= patience}

    def held_bytes(self) -> int:
        if not self.suspected:
            return 0
        payloads = (m.payload for m in self.state.messages.values())
        return sum(len(payload) for payload in payloads if isinstance(payload, bytes))

    def on_timer(self, name: str) -> list[Effect]:
        if name == AGAIN:
            return self.sender.on_timer(self.now)
        self.timers.discard(name)
        if name == RETRY:
            return self.on_retry_timer()
        if name == FOLLOW:
            return self.on_follow_timer()
        if self.state.status is Status.RECOVERING:
            return []  # the next leader repeats its DELIVERs, and we report then
        return self.garbage.report(self.state.cballot)
