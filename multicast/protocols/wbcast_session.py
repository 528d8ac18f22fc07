"""Client sessions: a multicast is retried until every destination has it, and delivered once.

A sender numbers its messages. It repeats one to the leaders it knows, after a timeout to whole
groups, until the leader of each destination group has answered Done. With every message it says
below which number it needs no more answers, so a member remembers of the past only what some
sender may still ask about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    Restart,
    Save,
    Send,
    SetTimer,
    Timer,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Done, MulticastMsg, Redirect

AGAIN = "again"
BACKOFF_MAX = 4  # doublings of the wait between two attempts


def backoff(ticks: int, attempts: int) -> int:
    return ticks << min(attempts, BACKOFF_MAX)


@dataclass(slots=True)
class Waiting:
    m: Message
    missing: set[GroupId]
    due: LocalTime
    attempts: int = 0


class Sender:
    """L1-L2 of Fig. 4, and what "omitted from the pseudocode" there."""

    def __init__(
        self, topology: Topology, cur_leader: dict[GroupId, ProcessId], retry_ticks: int
    ) -> None:
        self.topology = topology
        self.cur_leader = cur_leader
        self.retry_ticks = retry_ticks
        self.waiting: dict[int, Waiting] = {}  # by sequence number, in its order
        self.next_seq = 1
        self.armed = False

    def multicast(self, m: Message, now: LocalTime) -> list[Effect]:  # L1
        self.next_seq = m.id.seq + 1
        self.waiting[m.id.seq] = Waiting(m, set(m.dest), now + self.retry_ticks)
        leaders = tuple(self.cur_leader[g] for g in m.dest)
        # Saved first: what a sender does not remember after a crash was never sent.
        saved = Save(tuple(w.m for w in self.waiting.values()))
        return [saved, Send(MulticastMsg(m, self.finished), leaders), *self.arm()]  # L2

    @property
    def finished(self) -> int:
        return next(iter(self.waiting), self.next_seq)

    def arm(self) -> list[Effect]:
        if self.armed or not self.waiting:
            return []
        self.armed = True
        return [SetTimer(AGAIN, min(w.due for w in self.waiting.values()))]

    def on_done(self, mid: MessageId, g: GroupId) -> list[Effect]:
        waiting = self.waiting.get(mid.seq)
        if waiting is None:
            return []
        waiting.missing.discard(g)
        if not waiting.missing:
            del self.waiting[mid.seq]
        if self.waiting or not self.armed:
            return []
        self.armed = False
        return [CancelTimer(AGAIN)]

    def on_redirect(self, redirect: Redirect) -> list[Effect]:
        g, leader = redirect.g, redirect.leader
        if self.cur_leader[g] == leader:
            return []  # tried already; the timer will try everybody
        self.cur_leader[g] = leader
        waiting = self.waiting.get(redirect.mid.seq)
        if waiting is None or waiting.m.id != redirect.mid or g not in waiting.missing:
            return []
        return [Send(MulticastMsg(waiting.m, self.finished), (leader,))]

    def on_timer(self, now: LocalTime) -> list[Effect]:
        self.armed = False
        effects: list[Effect] = []
        for waiting in self.waiting.values():
            if waiting.due <= now:
                waiting.attempts += 1
                waiting.due = now + backoff(self.retry_ticks, waiting.attempts)
                groups = tuple(g for g in waiting.m.dest if g in waiting.missing)
                everyone = self.topology.members(groups)
                effects.append(Send(MulticastMsg(waiting.m, self.finished), everyone))
        return effects + self.arm()

    def resume(self, saved: object, now: LocalTime) -> list[Effect]:
        """After a crash: what may be unfinished is tried again, at once."""
        if not isinstance(saved, tuple):
            return []
        for m in saved:
            self.waiting[m.id.seq] = Waiting(m, set(m.dest), now)
            self.next_seq = m.id.seq + 1
        return self.on_timer(now)


class Client:
    """A process outside all groups."""

    def __init__(self, topology: Topology, retry_ticks: int) -> None:
        first = {g: members[0] for g, members in enumerate(topology.groups)}
        self.sender = Sender(topology, first, retry_ticks)

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        sender = self.sender
        match event:
            case Receive(Done(mid, g), _):
                return sender.on_done(mid, g)
            case Receive(Redirect() as redirect, _):
                return sender.on_redirect(redirect)
            case Multicast(m):
                return sender.multicast(m, now)
            case Timer():
                return sender.on_timer(now)
            case Nominate(group, leader):
                sender.cur_leader[group] = leader
            case Restart(_, saved):
                return sender.resume(saved, now)
        return []


@dataclass(slots=True)
class Sessions:
    """What a member has delivered, as far as somebody may still ask."""

    finished: dict[ProcessId, int] = field(default_factory=dict)
    delivered: dict[ProcessId, set[int]] = field(default_factory=dict)

    def is_done(self, mid: MessageId) -> bool:
        """Delivered here. Of a message below `finished` the sender knows that a quorum of every
        destination group holds it: so an absent one is not new, but forgotten."""
        if mid.seq < self.finished.get(mid.sender, 0):
            return True
        return mid.seq in self.delivered.get(mid.sender, ())

    def add(self, mid: MessageId) -> None:
        self.delivered.setdefault(mid.sender, set()).add(mid.seq)

    def finish(self, sender: ProcessId, below: int) -> None:
        if below <= self.finished.get(sender, 0):
            return
        self.finished[sender] = below
        self._forget(sender, below)

    def _forget(self, sender: ProcessId, below: int) -> None:
        kept = {seq for seq in self.delivered.get(sender, ()) if seq >= below}
        if kept:
            self.delivered[sender] = kept
        else:
            self.delivered.pop(sender, None)

    def merge(self, other: Sessions) -> None:
        for sender, seqs in other.delivered.items():
            self.delivered.setdefault(sender, set()).update(seqs)
        for sender, below in other.finished.items():
            self.finish(sender, below)
        for sender, below in list(self.finished.items()):
            self._forget(sender, below)

    def copy(self) -> Sessions:
        return Sessions(dict(self.finished), {p: set(s) for p, s in self.delivered.items()})

    @property
    def size(self) -> int:
        return sum(len(s) for s in self.delivered.values())
