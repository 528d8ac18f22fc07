"""Layers on layers: several machines that make one process.

Each module has a name and the names of the modules it stands on. Towards its own process a
module speaks the one language of core.py:

    down   Ask(of, Multicast | Request)      arrives below as that event
    up     Deliver, Reply                    arrive above as Delivered, Replied
    out    Send, SetTimer, Save, Record      leave the process, marked with the module's name

    application   Multicast, Request                Deliver, Reply
                       |                                  ^
                  +--------+   Ask("fifo", ...)           |
                  | causal | ---------.    .-- Delivered(by="fifo")
                  +--------+          v    |
                                   +--------+
                                   |  fifo  |  ...
                                   +--------+

Handlers are indivisible: what a module asks for while it handles an event is queued until that
handler has returned. Every layer's multicasts and deliveries are recorded under its name, so
that each layer can be checked against its own properties.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, cast

from shmcast.multicast.protocols.core import (
    OPTIMISTIC,
    Ask,
    CancelTimer,
    Deliver,
    Delivered,
    Effect,
    Event,
    LocalTime,
    Machine,
    MessageId,
    Multicast,
    Nominate,
    Receive,
    Record,
    Replied,
    Reply,
    Request,
    Restart,
    Save,
    Send,
    SetTimer,
    Start,
    Suspect,
    Timer,
    Trust,
    Wire,
)


@dataclass(slots=True)
class Tagged(Wire):
    """A message between equal modules of two processes. Made for every single one: a frozen
    class would cost twice as much to make."""

    module: str
    message: Wire

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.message.label

    def about(self) -> tuple[MessageId, ...]:
        return self.message.about()


class TimerOf(NamedTuple):
    module: str
    name: object


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    machine: Machine
    uses: tuple[str, ...] = ()


Task = tuple[Module, Event]


class Stack:
    """One process made of modules. The first one is the top: it serves the application."""

    def __init__(self, modules: list[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        assert len(self.modules) == len(modules), "two modules of one name"
        self.top = modules[0]
        self.above: dict[str, Module] = {}
        for module in modules:
            for lower in module.uses:
                assert lower in self.modules, f"{module.name} stands on nothing: {lower}"
                assert lower not in self.above, f"{lower} serves two modules"
                self.above[lower] = module
        self.saved: dict[str, object] = {}

    @classmethod
    def linear(cls, *layers: tuple[str, Machine]) -> Stack:
        """Top first; each layer stands on the next."""
        below = [name for name, _ in layers[1:]]
        return cls(
            [
                Module(name, machine, tuple(below[i : i + 1]))
                for i, (name, machine) in enumerate(layers)
            ]
        )

    def __getitem__(self, name: str) -> Machine:
        return self.modules[name].machine

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        out: list[Effect] = []
        tasks: deque[Task] = deque(self._entry(event))
        while tasks:
            module, task = tasks.popleft()
            for effect in module.machine.handle(task, now):
                if effect.__class__ is Send:
                    out.append(Send(Tagged(module.name, effect.message), effect.to))
                else:
                    self._route(module, effect, tasks, out)
        return out

    def _entry(self, event: Event) -> list[Task]:
        """Which modules an event from outside is for."""
        if event.__class__ is Receive:
            tagged = cast("Tagged", event.message)
            return [(self.modules[tagged.module], Receive(tagged.message, event.sender))]
        match event:
            case Timer(TimerOf(name, inner)):
                return [(self.modules[name], Timer(inner))]
            case Multicast() | Request():
                return [(self.top, event)]
            case Restart(incarnation, saved):
                self.saved = dict(saved) if isinstance(saved, dict) else {}
                return [
                    (m, Restart(incarnation, self.saved.get(m.name))) for m in self._bottom_up()
                ]
            case Start() | Suspect() | Trust() | Nominate():
                return [(m, event) for m in self._bottom_up()]
        raise AssertionError(f"no module takes {event}")

    def _bottom_up(self) -> list[Module]:
        """A lower layer is ready before the one that stands on it speaks."""
        return list(reversed(self.modules.values()))

    def _route(self, module: Module, effect: Effect, tasks: deque[Task], out: list[Effect]) -> None:
        match effect:
            case SetTimer(name, at):
                out.append(SetTimer(TimerOf(module.name, name), at))
            case CancelTimer(name):
                out.append(CancelTimer(TimerOf(module.name, name)))
            case Save(value):
                self.saved = {**self.saved, module.name: value}
                out.append(Save(self.saved))
            case Record():
                out.append(effect)
            case Ask(of, event):
                assert of in module.uses, f"{module.name} does not stand on {of}"
                if isinstance(event, Multicast):
                    out.append(Record("multicast", event.message, layer=of))
                tasks.append((self.modules[of], event))
            case Deliver():
                self._deliver(module, effect, tasks, out)
            case Reply(what):
                if module is self.top:
                    out.append(effect)
                else:
                    tasks.append((self.above[module.name], Replied(what, module.name)))

    def _deliver(
        self, module: Module, effect: Deliver, tasks: deque[Task], out: list[Effect]
    ) -> None:
        if module is self.top or effect.layer == OPTIMISTIC:
            out.append(effect)
            return
        out.append(Record("deliver", effect.message, layer=module.name))
        upper = self.above[module.name]
        tasks.append((upper, Delivered(effect.message, effect.ts, module.name)))
