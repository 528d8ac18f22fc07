"""The other processes, as a replica's loop sees them: who lives, and how to reach whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shmcast.errors import Corrupt, DeadlineMissed, Incompatible
from shmcast.multicast.protocols.core import Event, LocalTime, ProcessId
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.detector import Detector, Leadership
from shmcast.multicast.run.inbox import (
    SENDERS,
    Inbox,
    Outlet,
    Reader,
    client_inbox_name,
    head_of,
    inbox_name,
    remove_inbox,
)
from shmcast.multicast.run.life import Life, OwnLife, PeerLife
from shmcast.multicast.run.reach import leaves_majorities
from shmcast.multicast.run.transport import Frame

if TYPE_CHECKING:
    from shmcast.multicast.run.hosts import Hosts

SLOT_BYTES = 8 << 10
CAPACITY = 32  # slots for each sender
REQUEST_HEAD_BYTES = 64 << 10  # the most that a client's frame has besides its payload
NS_PER_TICK = 1000
SWEEP_TICKS = 1_000_000  # how often clients that died are looked for
UNHURRIED_BYTES_MAX = 4 << 20  # on its way to one peer
UNBORN_BYTES_MAX = 16 << 20


class Peers:
    def __init__(
        self,
        config: ClusterConfig,
        me: ProcessId,
        life: OwnLife,
        detector: Detector,
        crashed: Callable[[ProcessId, int], None],
    ) -> None:
        """`crashed` is told of each life that ended without an end of its own."""
        self.config, self.me, self.own, self.detector = config, me, life, detector
        self._crashed = crashed
        self._buried: dict[ProcessId, int] = {}  # the last life that is known to be over
        here = config.replicas[me].host
        self._local = {
            r.proc: PeerLife(config, r.proc)
            for r in config.replicas
            if r.proc != me and r.host == here
        }
        for peer in self._local.values():
            peer.refuse_another_release()
        incarnation = life.incarnation
        if incarnation:
            remove_inbox(inbox_name(config.name, me, incarnation - 1))
        self.inbox = Inbox(
            inbox_name(config.name, me, incarnation),
            copies=config.copies,
            slot_bytes=SLOT_BYTES,
            capacity=CAPACITY,
            senders=SENDERS,
            client_bytes_max=config.message_size + REQUEST_HEAD_BYTES,
        )
        self._head = head_of(me, incarnation)
        self._beats: dict[ProcessId, int] = {}
        self._lives: dict[ProcessId, int] = {}  # whose inbox an outlet leads to
        self._outlets: dict[ProcessId, Outlet] = {}
        # With dab nobody has missed anything before it joins.
        unborn = () if config.engine == "dab" else self._local
        self._unborn: dict[ProcessId, list[bytes]] = {p: [] for p in unborn}
        self._unborn_bytes = dict.fromkeys(self._local, 0)
        self._clients: dict[int, Outlet] = {}
        self._late: set[Outlet] = set()  # that have a backlog
        self._next_sweep = detector.now + SWEEP_TICKS
        self._looked = detector.now
        self._remote = None if config.one_host else self._hosts()

    def _hosts(self) -> Hosts:
        from shmcast.multicast.run.hosts import Hosts  # needs the extra `hosts`

        return Hosts(self.config, self.me, self.own.incarnation, self.inbox.name)

    def receive(self, timeout_ns: int) -> Sequence[Frame]:
        return self.inbox.receive(timeout_ns)

    def someone_appeared(self) -> bool:
        """A replica of this host speaks in a life that we have not met. `look` before its frames
        are handled: an answer to it must not go to the life before."""
        appeared = self.inbox.appeared
        if not appeared:
            return False
        found = not appeared.isdisjoint(self._local)
        appeared.clear()
        return found

    # Who lives ---------------------------------------------------------------------------

    def look(self, now: LocalTime) -> list[Event]:
        """Shows that we live, and looks who else does."""
        detector = self.detector
        events: list[Event] = []
        for process, peer in self._local.items():
            life = peer.read()
            if life is not None and life.has_begun:
                events += self._seen(process, peer, life)
        leadership = detector.leaders[detector.group]
        if self._remote is not None:
            self._remember(self._remote.outlived)
            for heard in self._remote.look(leadership):
                shown = Leadership(heard.epoch, heard.leader)
                at = heard.at_ns // NS_PER_TICK
                events += detector.heard(heard.process, heard.life, at, shown)
        away, self._looked = now - self._looked, now
        if 2 * away > detector.suspect_ticks:
            detector.excuse(away, now)
        events += detector.passed(now)
        leadership = detector.leaders[detector.group]
        self.own.beat(now * NS_PER_TICK, *leadership)
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_TICKS
            self._sweep()
        return events

    def _remember(self, outlived: int | None) -> None:
        """The others know a life of this replica that its host has forgotten. Under a number of its
        past, and without a memory, it must not vote."""
        if outlived is None:
            return
        self.own.begin_after(outlived)
        raise DeadlineMissed(
            f"{self.config.replicas[self.me].name} has lived before, the others remember its life "
            f"{outlived}, and this host has forgotten it, as after a reboot: start this replica "
            "again, it takes over another's state"
        )

    def _seen(self, process: ProcessId, peer: PeerLife, life: Life) -> list[Event]:
        has_beaten = life.beat_ns > self._beats.get(process, 0)
        is_known = self._lives.get(process) == life.incarnation
        if not (has_beaten and is_known) and peer.is_dead(life):  # one that beats lives
            self._bury(process, life)
            return self.detector.died(process, life.incarnation)
        if not is_known:
            self._meet(process, life.incarnation)
        if self._outlets[process].gone:  # it may beat for a moment until it finds out
            return self.detector.died(process, life.incarnation)
        if not has_beaten:
            return []
        self._beats[process] = life.beat_ns
        shown = Leadership(life.epoch, life.leader)
        return self.detector.heard(process, life.incarnation, life.beat_ns // NS_PER_TICK, shown)

    def _meet(self, process: ProcessId, incarnation: int) -> None:
        """A life that we have not met: its inbox is there, it shows itself only after that."""
        old = self._outlets.pop(process, None)
        if old is not None:
            old.close()
        self._lives[process] = incarnation
        outlet = Outlet(inbox_name(self.config.name, process, incarnation), self._head)
        self._outlets[process] = outlet
        if incarnation == 0:
            for data in self._unborn.pop(process, ()):
                outlet.send(data)
            if outlet.is_behind:
                self._late.add(outlet)
        self._unborn.pop(process, None)

    def _bury(self, process: ProcessId, life: Life) -> None:
        if life.incarnation <= self._buried.get(process, -1):
            return
        self._buried[process] = life.incarnation
        self._unborn.pop(process, None)
        if self._lives.get(process) == life.incarnation:
            self._outlets[process].close()
        remove_inbox(inbox_name(self.config.name, process, life.incarnation))
        if not life.ended:
            self._crashed(process, life.incarnation)

    def _sweep(self) -> None:
        for client, outlet in list(self._clients.items()):
            found = outlet.reader()
            if found is Reader.LIVES:
                continue
            if found is Reader.DIED:
                self._crashed(client, 0)
            outlet.cut_off()
            del self._clients[client]

    # Sending -----------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        return bool(self._late)

    def send(self, to: ProcessId, data: bytes) -> None:
        """A process that does not live takes everything; for one that has not lived yet it is
        kept, because a first life must not have missed anything."""
        outlet = self._outlets.get(to)
        if outlet is not None:
            outlet.send(data)
            if outlet.is_behind:
                self._late.add(outlet)
        elif self._remote is not None and to in self._remote:
            self._remote.send(to, data)
        elif to in self._unborn:
            kept = self._unborn[to]
            kept.append(data)
            self._unborn_bytes[to] += len(data)
            if self._unborn_bytes[to] > UNBORN_BYTES_MAX:
                self._stillborn(to)

    def _stillborn(self, process: ProcessId) -> None:
        """Its first life is over before it began: it will come as one that missed something."""
        try:
            OwnLife(self.config, process).close()
        except (FileExistsError, Corrupt, Incompatible):
            return  # it is being born right now, or cannot be
        del self._unborn[process]

    def answer(self, client: int, data: bytes) -> None:
        outlet = self._clients.get(client)
        if outlet is None or outlet.gone:
            outlet = Outlet(client_inbox_name(self.config.name, client), self._head)
            self._clients[client] = outlet
        outlet.send(data)
        if outlet.is_behind:
            self._late.add(outlet)

    def flush(self) -> bool:
        """True: something left that had found no room."""
        moved = False
        for outlet in list(self._late):
            moved |= outlet.flush()
            if not outlet.is_behind:
                self._late.discard(outlet)
        return moved

    def room_for(self, process: ProcessId) -> bool:
        """For what has no hurry; one that does not live takes everything."""
        outlet = self._outlets.get(process)
        if outlet is not None:
            return outlet.backlog_bytes <= UNHURRIED_BYTES_MAX
        return self._remote is None or self._remote.waiting_bytes(process) <= UNHURRIED_BYTES_MAX

    def has_room(self) -> bool:
        """False: what is on its way to a majority of some group must arrive first."""
        stuffed = {p for p, outlet in self._outlets.items() if outlet.is_stuffed}
        stuffed |= {p for p in self._unborn if 2 * self._unborn_bytes[p] > UNBORN_BYTES_MAX}
        if self._remote is not None:
            stuffed.update(self._remote.stuffed())
        return not stuffed or leaves_majorities(self.config.topology, stuffed)

    def cut_off(self, process: ProcessId, why: str) -> None:
        """What it sent cannot be read: it must not count on our having heard it, and ends."""
        if self._remote is not None and process in self._remote:
            self._remote.refuse(process, why)
        for outlets in (self._outlets, self._clients):
            if process in outlets:
                outlets[process].cut_off()

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
        for outlet in [*self._outlets.values(), *self._clients.values()]:
            outlet.close()
        for peer in self._local.values():
            peer.close()
        self.inbox.close()
