"""Client sessions: a multicast is retried until every destination has it, and delivered once.

A sender numbers its messages. It repeats one to the leaders it knows, after a timeout to whole
groups, until the leader of each destination group has answered Done. With every message it says
below which number it needs no more answers, so a member remembers of the past only what some
sender may still ask about.

A leader that was replaced, and does not know it, must not believe that: what was delivered without
it would count as forgotten, and be lost when it leads again. So the number travels with the message
that it came with, in its DELIVER. Who commits a message in a ballot knows that no later ballot had
begun when the message came; what was finished by then is in the state of that ballot, or was
delivered in it, in either case below the message. Who handles its DELIVER has delivered all that.

The upper half of a number is the sender's *epoch*. One that comes back without its memory begins a
new one: it knows nothing of what it left unfinished, and must not declare that finished. Somebody
would take it for forgotten while another group still waits for its votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

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
EPOCH_SHIFT = 32
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


class Session(NamedTuple):
    sender: ProcessId
    epoch: int


def session_of(sender: ProcessId, seq: int) -> Session:
    return Session(sender, seq >> EPOCH_SHIFT)


@dataclass(slots=True)
class Sessions:
    """What a member has delivered, as far as somebody may still ask."""

    finished: dict[Session, int] = field(default_factory=dict)
    delivered: dict[Session, set[int]] = field(default_factory=dict)

    def is_done(self, mid: MessageId) -> bool:
        """Delivered here, or below `finished`: then an absent one is not new, but forgotten."""
        session = session_of(*mid)
        if mid.seq < self.finished.get(session, 0):
            return True
        return mid.seq in self.delivered.get(session, ())

    def add(self, mid: MessageId) -> None:
        self.delivered.setdefault(session_of(*mid), set()).add(mid.seq)

    def finish(self, sender: ProcessId, below: int) -> None:
        session = session_of(sender, below)
        if below <= self.finished.get(session, 0):
            return
        self.finished[session] = below
        self._forget(session, below)

    def _forget(self, session: Session, below: int) -> None:
        kept = {seq for seq in self.delivered.get(session, ()) if seq >= below}
        if kept:
            self.delivered[session] = kept
        else:
            self.delivered.pop(session, None)

    def merge(self, other: Sessions) -> None:
        for session, seqs in other.delivered.items():
            self.delivered.setdefault(session, set()).update(seqs)
        for session, below in other.finished.items():
            self.finish(session.sender, below)
        for session, below in list(self.finished.items()):
            self._forget(session, below)

    def copy(self) -> Sessions:
        return Sessions(dict(self.finished), {p: set(s) for p, s in self.delivered.items()})

    @property
    def size(self) -> int:
        return sum(len(s) for s in self.delivered.values())
