"""The event loop of a replica: drives one protocol machine, unchanged, over real time and frames.

One turn: wait for frames until the next timer or beat; handle all that came; fire what is due;
show that we live and look who else does; let requests in; send what all this made, few frames for
each receiver. Nothing leaves before its turn is over. Without a majority it holds still: it fires
nothing and lets nobody in (reach.py).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from shmcast.errors import Corrupt, DeadlineMissed, Incompatible
from shmcast.multicast.checks.trace import DELIVER
from shmcast.multicast.protocols.core import (
    BOTTOM,
    OPTIMISTIC,
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Message,
    Multicast,
    ProcessId,
    Receive,
    Record,
    Reply,
    Restart,
    Save,
    Send,
    SetTimer,
    Start,
    Timer,
    TimerName,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.wbcast_rejoin import Missed
from shmcast.multicast.run import records
from shmcast.multicast.run.api import Delivery, Place
from shmcast.multicast.run.config import ClusterConfig, Replica
from shmcast.multicast.run.detector import Detector
from shmcast.multicast.run.edge import Edge
from shmcast.multicast.run.front import Front, place_of
from shmcast.multicast.run.handover import Handover, Item
from shmcast.multicast.run.life import OwnLife
from shmcast.multicast.run.membership import Membership, machine_of
from shmcast.multicast.run.options import for_messages_of
from shmcast.multicast.run.peers import Peers
from shmcast.multicast.run.sessions import Sessions
from shmcast.multicast.run.transport import CLIENTS_FROM
from shmcast.multicast.run.wire import RECORDS, Codec, kind_of

if TYPE_CHECKING:
    from shmcast.multicast.run.recording import Recorder

NS_PER_TICK = 1000
LATE_NS = 200_000  # while a peer is behind, its backlog is tried again after this; then doubled
GIVE_TICKS = 1000  # while a snapshot is on its way, there may be room for more after this
LATE_NS_MAX = 10_000_000

Sink = Callable[[Item], None]


def ticks_now() -> int:
    return time.monotonic_ns() // NS_PER_TICK


class Loop:
    """Owned by one thread. `accepting` says whether the application keeps up."""

    def __init__(
        self,
        config: ClusterConfig,
        replica: Replica,
        life: OwnLife,
        *,
        sink: Sink,
        accepting: Callable[[], bool],
        trace: Recorder | None = None,
    ) -> None:
        self.config, self.me, self.life = config, replica.proc, life
        self.sink, self.accepting, self.trace = sink, accepting, trace
        topology = config.topology
        self.names = tuple(group.name for group in config.groups)
        self.known_names: dict[tuple[int, ...], tuple[str, ...]] = {}
        self.now = ticks_now()
        options = for_messages_of(config.options, config.message_size)
        self.machine = machine_of(config.engine, self.me, topology, options)
        self.codec = Codec(config.engine, topology)
        self.edge = Edge(self.machine)
        self.detector = Detector(topology, self.me, config.options["suspect_ticks"], self.now)
        self.front = Front(topology, self.me, self.detector.group, life.incarnation)
        self.sessions = Sessions()
        self.early = Sessions()  # of optimistic deliveries
        self.peers = Peers(config, self.me, life, self.detector, self._crashed)
        self.handover = Handover(
            self.detector,
            life.incarnation,
            self.names[self.detector.group],
            enter=self.front.marker,
            send=self.peers.send,
            room_for=self.peers.room_for,
            put=sink,
            deliver=self._deliver_request,
        )
        self.membership: Membership | None = None
        if config.engine == "dab":
            self.membership = Membership(self.machine, self._handle, founds=self.handover.found)
            self.front.pipeline, self.front.requests_max = config.options["burst"], 1
        elif life.incarnation == 0:
            self.handover.found()
        self.last_ts, self.same_ts = BOTTOM, 0  # messages of one slot and sender are counted
        self.beat_ticks = config.options["heartbeat_ticks"]
        self.next_beat = self.now
        self.timers: dict[TimerName, int] = {}
        self.timer_heap: list[tuple[int, int, TimerName]] = []
        self.timer_count = 0
        self.holds_still = False
        self.late_ns = LATE_NS
        self.local: deque[Receive] = deque()
        self.outgoing: dict[ProcessId, list[Wire]] = {}
        self.answers: dict[int, list[records.Record]] = {}
        self.refused = 0  # frames that nobody of ours can have written

    def begin(self) -> None:
        life = self.life.incarnation
        self._handle(Start() if life == 0 else Restart(life))
        if self.membership is not None:
            self.membership.join(life)
        self._beat()
        self._send_all()

    def turn(self) -> None:
        frames = self.peers.receive(self._wait_ns())
        self.now = ticks_now()
        if self.peers.someone_appeared():
            self._beat()
        for sender, data in frames:
            self._frame(sender, data)
        if not self.holds_still:
            self._fire_timers()
        if self.now >= self.next_beat:
            self._beat()
        if self.is_member and not self.holds_still:
            for message in self.front.take():
                self._handle(Multicast(message))
        if self.handover.is_giving:
            self.handover.give()
        self._send_all()

    @property
    def is_member(self) -> bool:
        return self.membership is None or self.membership.joined

    def leave(self, deadline: int) -> None:
        """Takes its leave of those who count on it, if the engine has such a thing."""
        if self.membership is None:
            return
        self.now = ticks_now()
        self.membership.leave()
        while not self.membership.left and ticks_now() < deadline:
            self.turn()

    def _wait_ns(self) -> int:
        due = self.next_beat
        if self.timer_heap and not self.holds_still:
            due = min(due, self.timer_heap[0][0])
        if self.handover.is_giving:
            due = min(due, self.now + GIVE_TICKS)
        wait_ns = max(0, due - ticks_now()) * NS_PER_TICK
        return min(wait_ns, self.late_ns) if self.peers.behind else wait_ns

    # What comes in -----------------------------------------------------------------------

    def _frame(self, sender: ProcessId, data: bytes) -> None:
        try:
            if kind_of(data) == RECORDS:
                for record in records.decode(data):
                    self._record(sender, record)
            elif sender in self.detector.peers:
                for wire in self.codec.decode(data):
                    self.edge.check(wire)
                    self._handle(Receive(wire, sender))
            else:
                raise Corrupt(f"{sender} is no replica, and speaks like one")
        except (Corrupt, Incompatible) as error:
            # What it said is lost to us: from here on it must not count on our having heard it.
            self.refused += 1
            self.peers.cut_off(sender, str(error))

    def _record(self, sender: ProcessId, record: records.Record) -> None:
        if isinstance(record, records.Request) and sender == record.client >= CLIENTS_FROM:
            if len(record.payload) > self.config.message_size:
                raise Corrupt(f"client {sender} asks for more than message_size; Client refuses it")
            accepting = self.handover.is_complete and self.accepting()
            answer = self.front.request(record, self.sessions, accepting)
            if answer is not None:
                self.answers.setdefault(sender, []).append(answer)
        elif isinstance(record, records.SnapshotChunk) and sender in self.detector.peers:
            self._take_over(self.handover.chunk(record, self.now))
        elif isinstance(record, records.Declined) and sender in self.detector.peers:
            self.handover.declined(record, self.now)

    def _fire_timers(self) -> None:
        heap = self.timer_heap
        while heap and heap[0][0] <= self.now:
            at, _, name = heappop(heap)
            if self.timers.get(name) == at:
                del self.timers[name]
                if self.membership is not None:
                    self.membership.check(name, at, self.now)
                self._handle(Timer(name))

    def _beat(self) -> None:
        self.next_beat = self.now + self.beat_ticks
        self.life.show_complete(self.handover.is_complete)
        if self.trace is not None:
            self.trace.look()
        for event in self.peers.look(self.now):
            self._handle(event)
        if self.is_member:
            self._take_over(self.handover.tick(self.now))
        if self.membership is None:  # dab knows by itself who takes part
            self.holds_still = not (self.detector.has_quorum() and self.peers.has_room())

    def _take_over(self, sessions: Sessions | None) -> None:
        if sessions is not None:
            self.sessions = sessions
            self.handover.deliver_kept()

    def _crashed(self, process: ProcessId, incarnation: int) -> None:
        if self.trace is not None:
            self.trace.witness_crash(process, incarnation)

    # What goes out -----------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        machine, local = self.machine, self.local
        self._carry_out(machine.handle(event, self.now))
        while local:  # a message to oneself arrives at once
            self._carry_out(machine.handle(local.popleft(), self.now))

    def _carry_out(self, effects: list[Effect]) -> None:
        outgoing, me = self.outgoing, self.me
        for effect in effects:
            if isinstance(effect, Send):
                for to in effect.to:
                    if to == me:
                        self.local.append(Receive(effect.message, me))
                    elif to in outgoing:
                        outgoing[to].append(effect.message)
                    else:
                        outgoing[to] = [effect.message]
            elif isinstance(effect, Deliver):
                self._deliver(effect)
            else:
                self._other(effect)

    def _other(self, effect: Effect) -> None:
        match effect:
            case SetTimer(name, at):
                self.timers[name] = at
                self.timer_count += 1
                heappush(self.timer_heap, (at, self.timer_count, name))
            case CancelTimer(name):
                self.timers.pop(name, None)
            case Reply(Missed()):
                raise DeadlineMissed(
                    "this replica was suspected for long, and the others have dropped messages "
                    "that it has not delivered: start it again, it takes over another's state"
                )
            case Reply(what) if self.membership is not None:
                self.membership.answered(what)
            case Record(kind, None, "", detail) if self.membership is not None and self.trace:
                self.trace.event(kind, detail=detail)
            case Save() | Record() | Reply():
                # Clients ask again for what an entry forgot, and senders' numbers never repeat
                # (front.py): nothing needs to outlive this process.
                pass
            case _:
                raise TypeError(f"{self.config.engine} asks for {effect}, which nobody can do here")

    def _deliver(self, deliver: Deliver) -> None:
        message, ts = deliver.message, deliver.ts
        assert ts is not None
        if deliver.layer == OPTIMISTIC:
            self._deliver_early(message, ts)
            return
        handover, dest = self.handover, message.dest
        if self.membership is not None:
            self.same_ts = self.same_ts + 1 if ts == self.last_ts else 0
            self.last_ts = ts
        for index, entered in enumerate(records.composite(message.payload), self.same_ts):
            if entered.__class__ is records.Request and handover.is_complete:
                self._deliver_request(entered, place_of(*ts, index), dest)
            elif isinstance(entered, records.Marker):
                handover.marker_stands(entered, self.sessions, self.now)
            elif isinstance(entered, records.Request):
                handover.keep(entered, place_of(*ts, index), dest, self.now)
        self.front.delivered(message.id)

    def _deliver_request(
        self, request: records.Request, place: Place, dest: tuple[int, ...]
    ) -> None:
        client, seq = request.client, request.seq
        first: Place | None = place
        if self.sessions.is_first(client, seq, place):
            if self.trace is not None:
                self.trace.event(DELIVER, message_id=(client, seq), dest=dest, ts=place)
            groups = self.known_names.get(dest) or self.group_names(dest)
            self.sink(Delivery(request.payload, place, groups, client, seq))
        else:
            first = self.sessions.place(client, seq)
        answer = self.front.answer(client, seq, first or place)
        if answer is not None:
            self.answers.setdefault(client, []).append(answer)

    def _deliver_early(self, message: Message, ts: Timestamp) -> None:
        groups = self.group_names(message.dest)
        for index, entered in enumerate(records.composite(message.payload)):
            if not isinstance(entered, records.Request):
                continue
            client, seq = entered.client, entered.seq
            place = place_of(*ts, index)
            if not self.early.is_first(client, seq, place):
                continue  # asked for through two entries
            if self.trace is not None:
                self.trace.event(
                    DELIVER, message_id=(client, seq), dest=message.dest, ts=place, layer=OPTIMISTIC
                )
            self.sink(Delivery(entered.payload, place, groups, client, seq, optimistic=True))

    def group_names(self, dest: tuple[int, ...]) -> tuple[str, ...]:
        found = self.known_names.get(dest)
        if found is None:
            if len(self.known_names) > 4096:
                self.known_names.clear()
            found = self.known_names[dest] = tuple(self.names[g] for g in dest)
        return found

    def _send_all(self) -> None:
        """A lone client's answer first: nobody else waits for what follows its delivery. When
        several wait, the replicas go on first, with larger batches."""
        peers = self.peers
        if len(self.answers) == 1:
            self._send_answers()
        if self.outgoing:
            outgoing, self.outgoing = self.outgoing, {}
            encoded: dict[tuple[int, ...], list[bytes]] = {}
            for to, wires in outgoing.items():
                same = tuple(map(id, wires))  # most frames go to several: encoded once
                frames = encoded.get(same)
                if frames is None:
                    frames = encoded[same] = self.codec.frames(wires)
                for data in frames:
                    peers.send(to, data)
        self._send_answers()
        if peers.flush() or not peers.behind:
            self.late_ns = LATE_NS
        else:
            self.late_ns = min(2 * self.late_ns, LATE_NS_MAX)

    def _send_answers(self) -> None:
        answers, self.answers = self.answers, {}
        for client, given in answers.items():
            self.peers.answer(client, records.encode(given))

    def close(self) -> None:
        self.peers.close()
