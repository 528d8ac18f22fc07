"""Layers on layers: a FIFO layer on a flooding one, and a module that stands on two."""

from dataclasses import dataclass

import pytest

from shmcast.multicast.checks.table import check
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Event,
    Machine,
    Message,
    MessageId,
    Multicast,
    Receive,
    Replied,
    Reply,
    Request,
    Restart,
    Save,
    Send,
    SetTimer,
    Start,
    Timer,
    Wire,
)
from shmcast.multicast.protocols.registry import Options, Spec
from shmcast.multicast.protocols.stack import Module, Stack, Tagged
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Uniform


@dataclass(frozen=True, slots=True)
class Copy(Wire):
    m: Message


class Flood:
    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Multicast(m):
                return [Send(Copy(m), (0, 1, 2))]
            case Receive(Copy(m)):
                return [Deliver(m)]
        return []


class Fifo:
    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.held: dict[MessageId, Message] = {}

    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Multicast():
                return [Ask("flood", event)]
            case Delivered(m):
                self.held[m.id] = m
                return self.release(m.id.sender)
        return []

    def release(self, sender: int) -> list[Effect]:
        effects: list[Effect] = []
        while (m := self.held.pop(MessageId(sender, self.next.get(sender, 1)), None)) is not None:
            self.next[sender] = m.id.seq + 1
            effects.append(Deliver(m))
        return effects


def build(process: int, topology: Topology, options: Options) -> Machine:
    return Stack.linear(("fifo", Fifo()), ("flood", Flood()))


FIFO = Spec("fifo-on-flood", build, promises=("uniform-fifo", "agreement", "validity"))


def test_each_layer_is_checked_against_its_own_properties() -> None:
    run = simulate(
        FIFO, groups=1, replicas=3, clients=0, seed=1, fifo=False, delay=Uniform(1, 5000)
    )
    run.check()
    below = check(run.trace, ["fifo", "agreement", "validity"], layer="flood")
    assert below["fifo"].violated
    assert not below["agreement"].violated and not below["validity"].violated


def test_messages_of_modules_keep_their_names() -> None:
    """Counters, diagrams and scripted delays know them by what is inside."""
    run = simulate(FIFO, groups=1, replicas=3, clients=0, messages=5)
    assert set(run.sent) == {"Copy"}


class Counter:
    """Answers requests, sets a timer, saves; knows nothing of who stands on it."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Request(int(step)):
                self.count += step
                return [Save(self.count), SetTimer("t", now + step), Reply(self.count)]
            case Restart(_, int(saved)):
                self.count = saved
            case Timer("t"):
                return [Reply("late")]
        return []


class Chooser:
    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Request((str(of), int(step))):
                return [Ask(of, Request(step))]
            case Replied(what, by):
                return [Reply((by, what))]
        return []


def two_counters() -> Stack:
    return Stack(
        [
            Module("chooser", Chooser(), uses=("a", "b")),
            Module("a", Counter()),
            Module("b", Counter()),
        ]
    )


def test_module_that_stands_on_two_keeps_their_timers_and_answers_apart() -> None:
    stack = two_counters()
    stack.handle(Start(), 0)
    effects = stack.handle(Request(("b", 5)), 100)
    assert effects[-1] == Reply(("b", 5))
    timer = next(e for e in effects if isinstance(e, SetTimer))
    assert timer.at == 105
    assert stack.handle(Timer(timer.name), 105) == [Reply(("b", "late"))]


def test_restart_gives_each_module_what_it_saved() -> None:
    stack = two_counters()
    effects = stack.handle(Request(("a", 3)), 0) + stack.handle(Request(("b", 4)), 0)
    saved = [e.value for e in effects if isinstance(e, Save)][-1]
    fresh = two_counters()
    fresh.handle(Restart(1, saved), 10)
    assert fresh.handle(Request(("a", 1)), 11)[-1] == Reply(("a", 4))
    assert fresh.handle(Request(("b", 1)), 11)[-1] == Reply(("b", 5))


def test_module_asks_only_what_it_stands_on() -> None:
    with pytest.raises(AssertionError, match="does not stand on"):
        two_counters().handle(Request(("chooser", 1)), 0)


def test_envelope_is_counted_under_the_label_of_what_it_holds() -> None:
    run = simulate(FIFO, groups=1, replicas=3, clients=0, messages=2)
    assert set(run.sent) == {"Copy"}


def test_message_of_a_layer_goes_by_its_own_name() -> None:
    """Counters and diagrams would else know one kind of message only."""
    assert Tagged("flood", Copy(Message(MessageId(0, 1), (0,)))).label == "Copy"
