"""The faults in their order, done to real processes and real segments, while traffic goes on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shmcast.cli.demo.cast import Actor, Cast
from shmcast.cli.demo.show import Audience
from shmcast.cli.demo.worker import PLANT_BOXES
from shmcast.cli.watch import Watch
from shmcast.errors import ShmcastError
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import (
    Kill,
    continue_process,
    intact_copies,
    kill_copy,
    kill_process,
    stop_process,
)
from shmcast.mailbox.mailbox import Mailbox
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
_TICK_S = 0.1
_HUNT_S = 4.0  # for a moment in the middle of a send
_STALL_S = 0.025


@dataclass(slots=True)
class Act:
    """One announced thing, and what it did to the others."""

    title: str
    start_ns: int = 0
    end_ns: int = 0
    outcome: str = ""
    pause_ns: int = 0


class Worst:
    """Of all that was seen: a counter in a copy is gone when that copy is."""

    def __init__(self) -> None:
        self.send_ns = 0
        self.delivery_ns = 0
        self.excused: set[int] = set()  # processes that we ourselves made late

    def note(self, stats: MailboxStats) -> None:
        mine = [s.worst_ns for s in stats.senders if s.pid and s.pid not in self.excused]
        self.send_ns = max([self.send_ns, *mine])
        self.delivery_ns = max([self.delivery_ns, *(r.worst_ns for r in stats.receivers)])


class Stage:
    """A mailbox, a domain with two mailboxes, and who works on them."""

    def __init__(self, folder: Path, audience: Audience, act_s: float) -> None:
        self.audience = audience
        self.act_s = act_s
        self.acts: list[Act] = []
        self.worst = Worst()
        self.box_name = f"demo-{os.getpid()}"
        self.plant_name = f"demo-{os.getpid()}-plant"
        self.cast = Cast(folder)
        self.watch = Watch(self.box_name, self.plant_name)

    def open(self) -> None:
        self.box = Mailbox.create(
            self.box_name, copies=COPIES, message_size=256, capacity=256, bounds=BOUNDS
        )
        self.plant = Domain.create(self.plant_name, copies=COPIES, bounds=BOUNDS)
        for name in PLANT_BOXES:
            self.plant.create_mailbox(name, message_size=256, capacity=256)
        receivers = [("receive", self.box_name)] * 2
        receivers += [("receive", f"{self.plant_name}/{name}") for name in PLANT_BOXES]
        self.cast.engage(*receivers)  # before any sender, so that everything is due to them
        self.cast.engage(
            *[("send", self.box_name)] * 2,
            *[("send", f"{self.plant_name}/")] * 2,
        )

    def close(self) -> None:
        """Nothing stays: no process, no segment."""
        self.cast.end()
        self.watch.close()
        for name, opened in ((self.box_name, "box"), (self.plant_name, "plant")):
            if hasattr(self, opened):
                getattr(self, opened).close()
            with contextlib.suppress(ShmcastError, OSError):
                Domain.remove(name)

    def play(self, title: str, deed: Callable[[], str]) -> None:
        act = Act(title, time.monotonic_ns())
        self.acts.append(act)
        self.audience.announce(act.title)
        act.outcome = deed()
        self.audience.tell(act.outcome)
        self.let_pass(self.act_s)
        act.end_ns = time.monotonic_ns()

    def let_pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            self.audience.picture(self.watch.sample())
            for box in (self.box, *map(self.plant.mailbox, PLANT_BOXES)):
                self.worst.note(box.stats())
            self.cast.check()
            time.sleep(min(_TICK_S, left_s))

    def fault_now(self) -> None:
        """The pause is counted from here, not from the preparations."""
        self.acts[-1].start_ns = time.monotonic_ns()

    # ---- the acts ----

    def kill_receiver(self) -> str:
        victim = self.cast.playing("receive", self.box_name)[1]
        self.fault_now()
        self._kill(victim)
        (new,) = self.cast.engage(("receive", self.box_name))
        return f"{victim.name} is dead; {new.name} joined while traffic went on"

    def kill_sender(self) -> str:
        victim = self.cast.playing("send", self.box_name)[0]
        caught = self._catch_in_a_send(victim)
        self.fault_now()
        self._kill(victim)
        where = "in the middle of a send" if caught else "in mid-stream"
        (new,) = self.cast.engage(("send", self.box_name))
        return f"{victim.name} died {where}; {new.name} took its place"

    def kill_copies(self, number: int, how: Kill) -> str:
        self.fault_now()
        for opened in (self.box, self.plant):
            kill_copy(opened, number, how)
        self.let_pass(min(0.2, self.act_s))
        return f"intact copies: {intact_copies(self.box)} and {intact_copies(self.plant)}"

    def replace_copies(self) -> str:
        self.fault_now()
        replaced = self.box.replace() + self.plant.replace()
        return (
            f"{replaced} replaced; intact: {intact_copies(self.box)}, {intact_copies(self.plant)}"
        )

    def stop_sender(self) -> str:
        victim = self.cast.playing("send", self.box_name)[0]
        before = victim.rejected()
        self._catch_in_a_send(victim)
        self.worst.excused.add(victim.pid)
        self.fault_now()
        self.let_pass((BOUNDS.send_ns + BOUNDS.poll_ns) / 1e9 * 1.5)
        continue_process(victim.pid)
        victim.tell("calm")
        self.let_pass(0.1)
        told = victim.rejected() - before
        if told:
            return f"{victim.name} was late and was told so: {told} rejected, delivered to nobody"
        return f"{victim.name} was stopped after its message had been accepted: nothing to reject"

    def _kill(self, victim: Actor) -> None:
        victim.was_killed = True
        kill_process(victim.pid)

    def _received(self) -> int:
        return sum(receiver.messages for receiver in self.box.stats().receivers)

    def _stalls(self) -> bool:
        """Nobody receives anything for a while: they wait for a send that does not move."""
        count, end = self._received(), time.monotonic() + _STALL_S
        while time.monotonic() < end:
            time.sleep(0.001)
            if self._received() != count:
                return False
        return True

    def _catch_in_a_send(self, victim: Actor) -> bool:
        """Leaves the victim stopped, if possible where its send is announced and not finished:
        nothing stamped later may be delivered then, which shows."""
        victim.tell("hurry")
        end = time.monotonic() + _HUNT_S
        while time.monotonic() < end:
            time.sleep(0.003)
            stop_process(victim.pid)
            time.sleep(0.004)  # the others read what was finished before
            if self._stalls():
                return True
            continue_process(victim.pid)
        stop_process(victim.pid)
        return False


def perform(stage: Stage) -> None:
    stage.open()
    stage.play(
        "traffic: 2 senders, 2 receivers, 3 copies; 2 senders to 2 mailboxes at once",
        lambda: "nothing fails yet",
    )
    stage.play("kill a receiver", stage.kill_receiver)
    stage.play("kill a sender", stage.kill_sender)
    stage.play("truncate copy 0", lambda: stage.kill_copies(0, Kill.TRUNCATE))
    stage.play("corrupt copy 1: one copy is left", lambda: stage.kill_copies(1, Kill.CORRUPT))
    stage.play("replace the failed copies", stage.replace_copies)
    stage.play("stop a sender beyond its bound, then continue it", stage.stop_sender)
    stage.cast.finish()
