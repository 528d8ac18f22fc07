"""The processes of other hosts, for a replica's loop: frames from their links come into the same
inbox as all others, so that the loop waits in one place only."""

from __future__ import annotations

import sys
import time

from shmcast.errors import Corrupt, DeadlineMissed
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run.child import ABOUT_LINK, WELL
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.detector import Leadership
from shmcast.multicast.run.inbox import Outlet, head_of
from shmcast.multicast.run.links import Heard, Links

NS_PER_TICK = 1000
TELL_S = 5.0  # between two words about one peer, however often it changes


class Hosts:
    def __init__(self, config: ClusterConfig, me: ProcessId, incarnation: int, inbox: str) -> None:
        here = config.replicas[me].host
        self._names = {r.proc: r.name for r in config.replicas if r.host != here}
        self._me, self._inbox = config.replicas[me].name, inbox
        self._told: dict[ProcessId | None, tuple[str, float]] = {}  # and when to speak next
        self._outlets: dict[ProcessId, tuple[int, Outlet]] = {}  # used by the links' thread only
        self._ready = False  # the first frames may come before `links` is ours
        self.links = Links(
            config,
            me,
            incarnation,
            self._arrived,
            heartbeat_ns=config.options["heartbeat_ticks"] * NS_PER_TICK,
        )
        self._ready = True

    @property
    def outlived(self) -> int | None:
        """The number of the life of this replica that others know, if that is not this one."""
        return self.links.outlived

    def __contains__(self, process: ProcessId) -> bool:
        return process in self._names

    def look(self, leadership: Leadership) -> list[Heard]:
        """Who was heard last, and when. Ends this life if frames for it were dropped."""
        self.links.show(*leadership)
        self._tell()
        if self.links.error is not None:
            raise self.links.error
        if self.links.unread is not None:
            reader, why = self.links.unread
            raise Corrupt(f"{self._names[reader]} cannot read what this replica sends: {why}")
        if self.links.alone:
            raise DeadlineMissed(
                "this replica was cut off from a majority for so long that what it had for them "
                "found no room: start it again, it takes over another's state"
            )
        missed = [self._names[p] for p in self.links.missed]
        if missed:
            raise DeadlineMissed(
                f"the link from {', '.join(missed)} is cut, and frames on it are lost: start this "
                "replica again, it takes over another's state"
            )
        return self.links.heard()

    def _tell(self) -> None:
        """On stderr, once: what is wrong with a link, and when it is well again."""
        now, found = time.monotonic(), self.links.complaints()
        for process in {*found, *self._told}:
            text, (told, at_s) = found.get(process, WELL), self._told.get(process, (WELL, 0.0))
            if text != told and now >= at_s:
                self._told[process] = text, now + TELL_S
                peer = "strangers" if process is None else self._names[process]
                print(f"{self._me}: {ABOUT_LINK} {peer}: {text}", file=sys.stderr, flush=True)

    def send(self, to: ProcessId, data: bytes) -> None:
        if not self.links.send(to, data):
            raise DeadlineMissed(
                f"the links' thread does not take what is for {self._names[to]}: start this "
                "replica again"
            )

    def waiting_bytes(self, process: ProcessId) -> int:
        return self.links.waiting_bytes(process)

    def stuffed(self) -> list[ProcessId]:
        return self.links.stuffed()

    def refuse(self, process: ProcessId, why: str) -> None:
        """It is told, and ends: what it sends cannot be read."""
        self.links.refuse(process, why)

    def close(self) -> None:
        self.links.close()
        for _, outlet in self._outlets.values():
            outlet.close()

    def _arrived(self, sender: ProcessId, data: bytes) -> bool:
        """In the links' thread. An inbox without room leaves the frame with its sender."""
        if not self._ready:
            return False
        life = self.links.life_of(sender)
        known = self._outlets.get(sender)
        if known is None or known[0] != life:
            if known is not None:
                known[1].close()
            known = self._outlets[sender] = life, Outlet(self._inbox, head_of(sender, life))
        outlet = known[1]
        outlet.flush()
        if outlet.is_behind:
            return False
        outlet.send(data)
        if outlet.gone:  # our own inbox is lost: this life is over, and must not hide it
            self.links.cut_off(sender)
            return False
        return True
