"""The faults in their order, done to real processes and real segments, while traffic goes on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shmcast.cli.demo.cast import Actor, Cast, Part, StageAccident, opening_parts
from shmcast.cli.demo.logs import DELIVERY, Log, What
from shmcast.cli.demo.replica import lives_of, log_of
from shmcast.cli.demo.scene import BoxScene, GroupScene, Order, Scene
from shmcast.cli.demo.show import Audience
from shmcast.cli.demo.troupe import Troupe
from shmcast.cli.demo.worker import BOXES, GROUPS
from shmcast.cli.output import millis
from shmcast.cli.sampling import Row, Watch
from shmcast.errors import ShmcastError
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import (
    Kill,
    continue_process,
    intact_copies,
    kill_copy,
    stop_process,
)
from shmcast.mailbox.records import MailboxStats
from shmcast.realtime.bounds import NS_PER_MS, Bounds

COPIES = 3
# Wide enough for an ordinary, loaded machine without real-time scheduling.
BOUNDS = Bounds(
    copies=COPIES,
    write_ns=60 * NS_PER_MS,
    flag_ns=20 * NS_PER_MS,
    decide_ns=5 * NS_PER_MS,
    read_ns=10 * NS_PER_MS,
    clear_ns=5 * NS_PER_MS,
)
DELIVERY_BOUND_NS = BOUNDS.latency_ns("eager") + BOUNDS.receive_ns("eager") + BOUNDS.poll_ns
TITLES = (
    "traffic: one order over two mailboxes, and over two groups",
    "kill a receiver",
    "kill a sender in the middle of a send",
    "kill a copy: truncate its segment",
    "kill a second copy: overwrite it with noise",
    "replace the failed copies",
    "kill the leader of a group",
)
_DONE = {Kill.TRUNCATE: "truncated", Kill.CORRUPT: "overwritten with noise"}
_TICK_S = 0.1
_HUNTS_MAX = 40  # for a moment in the middle of a send
_STALL_S = 0.025
_WAIT_S = 60.0


@dataclass(slots=True)
class Act:
    """One announced thing, and what it did to the others."""

    title: str
    places: tuple[str, ...] = BOXES  # whose pauses count
    start_ns: int = 0
    end_ns: int = 0
    outcome: str = ""
    pause_ns: int = 0


class Worst:
    """Of all that was seen: a counter in a copy is gone when that copy is."""

    def __init__(self) -> None:
        self.send_ns = 0
        self.delivery_ns = 0

    def note(self, stats: MailboxStats) -> None:
        self.send_ns = max([self.send_ns, *(s.worst_ns for s in stats.senders if s.pid)])
        self.delivery_ns = max([self.delivery_ns, *(r.worst_ns for r in stats.receivers)])


class Stage:
    """A domain with two mailboxes, a cluster of two groups, and who works on them."""

    def __init__(self, folder: Path, audience: Audience, act_s: float) -> None:
        self.folder = folder
        self.audience = audience
        self.act_s = act_s
        self.acts: list[Act] = []
        self.worst = Worst()
        self.copies_killed: list[tuple[int, str]] = []
        self.began_ns = 0
        self.name = f"demo-{os.getpid()}"
        self.cast = Cast(folder)
        self.troupe = Troupe(folder, f"{self.name}-c")
        self._watch = Watch(self.name)
        self._rows: dict[str, Row] = {}
        self._orders = {place: Order() for place in (*BOXES, *GROUPS)}

    def open(self) -> None:
        self.domain = Domain.create(self.name, copies=COPIES, bounds=BOUNDS)
        for box in BOXES:
            self.domain.create_mailbox(box, message_size=256, capacity=256)
        receivers, senders = opening_parts(self.name, self.troupe.file)
        total = len(receivers) + len(senders) + len(self.troupe.config.replicas)

        def progress() -> None:
            ready = sum(actor.ready_ns > 0 for actor in self.cast.actors) + self.troupe.alive()
            self.audience.working("starting processes", ready, total)

        progress()
        self.troupe.start()
        # Receivers before any sender, so that everything is due to them.
        self.cast.engage(receivers, tick=progress)
        for _ in self._until(self.troupe.is_complete, "the cluster to come up"):
            progress()
        self.began_ns = time.monotonic_ns()
        self.cast.engage(senders, tick=progress)
        self.audience.working("", 0, 0)

    def close(self) -> None:
        """Nothing stays: no process, no segment."""
        self.cast.end()
        self.troupe.end()
        self._watch.close()
        if hasattr(self, "domain"):
            self.domain.close()
        with contextlib.suppress(ShmcastError, OSError):
            Domain.remove(self.name)

    def play(self, title: str, deed: Callable[[], str], places: tuple[str, ...] = BOXES) -> None:
        act = Act(title, places, time.monotonic_ns())
        self.acts.append(act)
        self.audience.announce(act.title)
        self.let_pass(min(0.5, self.act_s / 4))  # to be read before it happens
        self.fault_now()
        act.outcome = deed()
        self.audience.tell(act.outcome)
        self.let_pass(self.act_s)
        act.end_ns = time.monotonic_ns()

    def let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            self.look()
            time.sleep(min(_TICK_S, left_s))

    def look(self) -> None:
        self.audience.picture(self.scene())
        for box in map(self.domain.mailbox, BOXES):
            self.worst.note(box.stats())
        self.cast.check()
        self.troupe.check()

    def _until(self, condition: Callable[[], bool], what: str) -> Iterator[None]:
        end = time.monotonic() + _WAIT_S
        while not condition():
            if time.monotonic() > end:
                raise StageAccident(f"waited {_WAIT_S:.0f} s in vain for {what}")
            self.troupe.check()
            yield
            time.sleep(0.02)

    def fault_now(self) -> None:
        """The pause is counted from here, not from the preparations."""
        self.acts[-1].start_ns = time.monotonic_ns()

    def scene(self) -> Scene:
        boxes = []
        for found in self._watch.sample():
            row, box = found, found.name.partition("/")[2]
            logs = {
                f"{a.name}-{a.part.life}": a.log for a in self.cast.of("receive") if a.box == box
            }
            self._orders[box].look(logs)
            # The dead take their figures with them; the audience has seen them.
            before = self._rows.get(box, row)
            row = self._rows[box] = replace(
                row,
                send_worst_ns=max(row.send_worst_ns, before.send_worst_ns),
                delivery_worst_ns=max(row.delivery_worst_ns, before.delivery_worst_ns),
                delivery_bound_ns=DELIVERY_BOUND_NS,  # until a receiver has it in hand
            )
            boxes.append(BoxScene(row, box, self._orders[box].checked, self._orders[box].is_one))
        groups = []
        for group in GROUPS:
            order = self._orders[group]
            order.look(self._logs_of(group))
            standing = self.troupe.standing(group)
            groups.append(GroupScene(standing, order.checked, order.is_one, order.per_s))
        return Scene(boxes, groups, self.worst.send_ns, self.worst.delivery_ns)

    def _logs_of(self, group: str) -> dict[str, Log]:
        return {
            f"{replica.name}-{life}": Log(log_of(self.folder, replica.name, life), DELIVERY)
            for replica in self.troupe.members(group)
            for life in lives_of(self.folder, replica.name)
        }

    # ---- the acts ----

    def kill_receiver(self) -> str:
        victim = self.cast.playing("receive", BOXES[0])[1]
        self.fault_now()
        victim.kill()
        self.cast.engage([replace(victim.part, life=victim.part.life + 1)], tick=self.look)
        return f"{victim.name} died; another joined while traffic went on"

    def kill_sender(self) -> str:
        victim = self.cast.playing("send")[0]
        waited = self._catch_in_a_send(victim)
        self.fault_now()
        victim.kill()
        is_sending = victim.is_sending()
        others = self.cast.of("send")
        number = max(a.part.number for a in others) + 1
        name = f"sender.{len(others) + 1}"
        self.cast.engage([Part("send", self.name, number, name)], tick=self.look)
        where = "it was in the middle of a send" if is_sending else "it was between two sends"
        also = ", which the others saw and waited for" if is_sending and waited else ""
        return f"{name} took {victim.name}'s place; {where}{also}"

    def kill_copies(self, number: int, how: Kill) -> str:
        self.fault_now()
        self.copies_killed.append((time.monotonic_ns(), f"copy {number}, {_DONE[how]}"))
        kill_copy(self.domain, number, how)
        self.let_pass(min(0.2, self.act_s))
        left = intact_copies(self.domain)
        return f"{len(left)} of {COPIES} copies are intact"

    def replace_copies(self) -> str:
        self.fault_now()
        replaced = self.domain.replace()
        intact = len(intact_copies(self.domain))
        return f"{replaced} new ones under traffic; {intact} of {COPIES} intact"

    def kill_leader(self) -> str:
        group = GROUPS[0]
        for _ in self._until(self.troupe.is_complete, "everybody to be there"):
            self.look()
        leader = self.troupe.standing(group).leader
        self.fault_now()
        self.troupe.kill(leader)
        start = time.monotonic_ns()
        for _ in self._until(
            lambda: self.troupe.standing(group).leader not in ("", leader), "another leader"
        ):
            self.look()
        took = millis(time.monotonic_ns() - start)
        heir = self.troupe.standing(group).leader
        for _ in self._until(self.troupe.is_complete, f"{leader} to come back"):
            self.look()
        return f"{heir} led after {took}; {leader} came back as another process"

    def _received(self) -> list[int]:
        stats = [self.domain.mailbox(box).stats() for box in BOXES]
        return [sum(receiver.messages for receiver in one.receivers) for one in stats]

    def _stalls(self) -> bool:
        """At one of the mailboxes nobody receives anything for a while: they wait for a send that
        does not move."""
        count, end = self._received(), time.monotonic() + _STALL_S
        while time.monotonic() < end:
            time.sleep(0.001)
            if all(now != then for now, then in zip(self._received(), count, strict=True)):
                return False
        return True

    def _catch_in_a_send(self, victim: Actor) -> bool:
        """Leaves the victim stopped in a send. True: where it is announced and not finished, so
        that nothing stamped later may be delivered, which shows."""
        victim.tell("hurry")
        for hunt in range(_HUNTS_MAX):
            time.sleep(0.003)
            stop_process(victim.pid)
            if victim.is_sending():
                time.sleep(0.004)  # the others read what was finished before
                if self._stalls():
                    return True
                if hunt > _HUNTS_MAX // 2:  # any send will do
                    return False
            continue_process(victim.pid)
            if hunt % 8 == 7:
                self.look()
        stop_process(victim.pid)
        return False

    def finish(self) -> None:
        """Senders first; then everybody gets what is left."""
        self.audience.working("everybody reads to the end", 0, 0)
        self.cast.finish("send", "ask")
        for _ in self._until(self._is_all_delivered, "the last deliveries"):
            self.look()
        self.cast.finish("receive")
        self.look_once_more()

    def look_once_more(self) -> None:
        self.audience.picture(self.scene())
        self.audience.working("", 0, 0)

    def _is_all_delivered(self) -> bool:
        """At every replica: the last acknowledged message of each client for its group."""
        wanted: dict[str, list[tuple[int, int]]] = {group: [] for group in GROUPS}
        for client in self.cast.of("ask"):
            rows = client.log.all()
            for bit, group in enumerate(GROUPS):
                mine = rows[(rows["what"] == What.ACKNOWLEDGED) & (rows["to"] >> bit & 1 == 1)]
                if len(mine):
                    wanted[group].append((client.part.number, int(mine[-1]["number"])))
        for replica in self.troupe.config.replicas:
            lives = lives_of(self.folder, replica.name)
            if not lives:
                return False
            rows = Log(log_of(self.folder, replica.name, lives[-1]), DELIVERY).all()
            for tag, number in wanted[replica.group]:
                if not np.any((rows["tag"] == tag) & (rows["number"] == number)):
                    return False
        return True


def perform(stage: Stage) -> None:
    stage.open()
    everywhere = (*BOXES, *GROUPS)
    deeds: list[tuple[Callable[[], str], tuple[str, ...]]] = [
        (lambda: "no fault yet", everywhere),
        (stage.kill_receiver, BOXES),
        (stage.kill_sender, BOXES),
        (lambda: stage.kill_copies(0, Kill.TRUNCATE), BOXES),
        (lambda: stage.kill_copies(1, Kill.CORRUPT), BOXES),
        (stage.replace_copies, BOXES),
        (stage.kill_leader, GROUPS[:1]),
    ]
    for title, (deed, places) in zip(TITLES, deeds, strict=True):
        stage.play(title, deed, places)
    stage.finish()
