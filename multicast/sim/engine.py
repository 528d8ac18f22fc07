"""Virtual time: the loop that runs a scenario, event by event.

What happens at one instant happens in this order: faults, requests of the application, messages
that took no time, messages that travelled, timers; within a class, in order of creation. The
second and third rule let a step's own consequences come before news from afar; the last one is
what timed protocols need (a message that arrives exactly at its deadline is in time).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from shmcast.multicast.checks.trace import (
    CRASH,
    DELIVER,
    FAULT,
    LINK,
    MULTICAST,
    NOTE,
    RECEIVE,
    RESTART,
    SEND,
)
from shmcast.multicast.protocols.core import (
    CancelTimer,
    Deliver,
    Effect,
    Event,
    Message,
    MessageId,
    Multicast,
    ProcessId,
    Receive,
    Record,
    Reply,
    Request,
    Restart,
    Save,
    Send,
    SetTimer,
    Start,
    Timer,
    TimerName,
)
from shmcast.multicast.protocols.registry import Step, World
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.faults import (
    FOREVER,
    ClockFault,
    Crash,
    Recover,
    Slow,
    WrongNomination,
    WrongSuspicion,
    prefix,
)
from shmcast.multicast.sim.network import Network
from shmcast.multicast.sim.node import Node
from shmcast.multicast.sim.oracle import Oracle
from shmcast.multicast.sim.recorder import Recorder, Recording
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Input, Submit

CLASS_BITS = 52  # room for 4 · 10¹⁵ events
CONTROL, REQUEST, INSTANT, ARRIVAL, TIMER = (c << CLASS_BITS for c in range(5))
NOBODY = -1

Control = Callable[[], None]
Delivered = Callable[[ProcessId, Message, int], list[Input]]


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    name: str
    reason: str
    step: int
    process: ProcessId


class Engine:
    def __init__(
        self,
        scenario: Scenario,
        recording: Recording = "full",
        *,
        invariants: bool = True,
        on_deliver: Delivered | None = None,
    ) -> None:
        self.scenario = scenario
        self.topology = scenario.topology
        self.now = 0
        self.steps = 0
        self.sent: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.broken: BrokenInvariant | None = None
        self.recorder = Recorder(scenario.topology, recording)
        self.network = Network(scenario.delay, scenario.faults, scenario.seed, scenario.fifo)
        self.oracle = Oracle(scenario.topology, scenario.detect_ticks, self.notify)
        self._plain = self.network.perfect and not self.recorder.transmissions
        self.invariants = scenario.spec.invariants() if invariants else []
        self.on_deliver = on_deliver
        self.nodes = {p: self._new_node(p) for p in scenario.topology.processes}
        self.world = World(self.topology, {p: n.machine for p, n in self.nodes.items()})
        self._heap: list[tuple[int, int, ProcessId, Event | Control]] = []
        self._created = 0
        self._admitted: set[int] = set()  # steps of slow processes whose turn has come
        self._inputs: Iterator[Input] = iter(scenario.inputs)
        self._last_input = 0
        self._last_late = 0
        self._settle = scenario.spec.settle_ticks or FOREVER
        self._schedule_everything()

    def _new_node(self, process: ProcessId) -> Node:
        machine = self.scenario.spec.build(process, self.topology, self.scenario.options)
        return Node(process, machine, self.scenario.clocks.get(process))

    # Scheduling ---------------------------------------------------------------------------

    def _push(self, at: int, order: int, process: ProcessId, event: Event | Control) -> int:
        self._created += 1
        order += self._created
        heappush(self._heap, (at, order, process, event))
        return order

    def notify(self, at: int, process: ProcessId, event: Event) -> None:
        self._last_input = max(self._last_input, at)
        self._push(at, REQUEST, process, event)

    def control(self, at: int, action: Control) -> None:
        self._last_input = max(self._last_input, at)
        self._push(at, CONTROL, NOBODY, action)

    def _schedule_everything(self) -> None:
        for process in self.nodes:
            self._push(0, CONTROL, process, Start())
        for fault in self.scenario.faults:
            self._schedule_fault(fault)
        self._schedule_next_input()

    def _schedule_fault(self, fault: object) -> None:
        match fault:
            case Crash(process, at, effects):
                self.control(at, lambda: self._order_crash(process, effects))
            case Recover(process, at):
                self.control(at, lambda: self._recover(process))
            case Slow(process, at, until, step_ticks, faulty):
                self.control(at, lambda: self._slow(process, step_ticks, faulty))
                self.control(until, lambda: self._slow(process, 0, False))
            case ClockFault():
                self.control(fault.at, lambda: self._change_clock(fault))
            case WrongNomination() | WrongSuspicion():
                self.control(fault.at, lambda: self._mistake(fault))
                self.control(fault.until, lambda: self.oracle.correct(fault, self.now))
            case _:
                pass  # of links: the network knows

    def _schedule_next_input(self) -> None:
        """Inputs are pulled one by one: a long run's are never held all at once."""
        item = next(self._inputs, None)
        if item is not None:
            self._last_input = max(self._last_input, item.at)
            self._push(item.at, CONTROL, NOBODY, lambda: self._take_input(item))

    def _take_input(self, item: Input) -> None:
        self._submit(item)
        self._schedule_next_input()

    def _submit(self, item: Input) -> None:
        event: Event
        if isinstance(item, Submit):
            node = self.nodes[item.process]
            if not node.alive:
                return  # a dead process asks for nothing
            node.next_seq += 1
            event = Multicast(
                Message(MessageId(item.process, node.next_seq), item.dest, item.payload)
            )
        else:
            event = Request(item.what)
        self._push(max(item.at, self.now), REQUEST, item.process, event)

    # The loop -----------------------------------------------------------------------------

    def run(self) -> None:
        heap = self._heap
        nodes = self.nodes
        until = FOREVER if self.scenario.until is None else self.scenario.until
        settles = self.scenario.spec.settle_ticks is not None
        step_limit = self.scenario.step_limit or FOREVER
        quick = self._plain and not self.invariants
        while heap and self.steps < step_limit:
            now = heap[0][0]
            if now > until:
                break
            if settles and self._has_settled(now):
                heap.clear()  # only perpetual timers and their traffic are left
                break
            now, order, process, event = heappop(heap)
            self.now = now
            if process == NOBODY:
                event()  # type: ignore[operator]
                continue
            node = nodes[process]
            if not node.alive:
                continue
            if node.queueing and not self._its_turn(node, now, order, event):  # type: ignore[arg-type]
                continue
            if not quick or event.__class__ is not Receive or node.effects_left is not None:
                self._step(node, event, order)  # type: ignore[arg-type]
                if self.broken is not None:
                    break
                continue
            # The same without what a plain run has no use for: most steps come here.
            self.steps += 1
            clock = node.clock
            for effect in node.machine.handle(event, now if clock is None else clock.local(now)):
                if effect.__class__ is Send:
                    self._send_plain(process, effect)
                else:
                    self._perform(node, effect)
        self.recorder.trace.closed = not heap and self.broken is None
        self.faults.update(type(fault).__name__ for fault in self.network.acted)

    def _has_settled(self, now: int) -> bool:
        return now > self._settle + max(self._last_input, self._last_late)

    def _its_turn(self, node: Node, now: int, order: int, event: Event) -> bool:
        """A slow process queues its steps; each one is put back at most once. When it is slow no
        longer, what came meanwhile still goes first."""
        if order in self._admitted:
            self._admitted.discard(order)
            return True
        node.queueing = node.step_ticks > 0 or node.busy_until > now
        start = max(now, node.busy_until)
        node.busy_until = start + node.step_ticks
        if start == now:
            return True
        self._admitted.add(order)
        if node.step_ticks and not node.held_up:
            node.held_up = True  # by the fault that makes it slow now
            self.faults["Slow"] += 1
        heappush(self._heap, (start, order, node.pid, event))
        return False

    def _step(self, node: Node, event: Event, order: int) -> None:
        if not (self._plain and event.__class__ is Receive) and not self._admit(node, event, order):
            return
        now = self.now
        self.steps += 1
        clock = node.clock
        effects = node.machine.handle(event, now if clock is None else clock.local(now))
        dies = node.effects_left is not None
        if dies:
            effects = prefix(effects, node.effects_left or 0)
        for effect in effects:
            if effect.__class__ is Send:
                if self._plain:
                    self._send_plain(node.pid, effect)
                else:
                    self._send(node, effect)
            else:
                self._perform(node, effect)
        if dies:
            self._crash(node)
        if self.invariants:
            self._check_invariants(node, event, effects)

    def _admit(self, node: Node, event: Event, order: int) -> bool:
        """Puts on record what is about to be handled; False if it must not be."""
        if event.__class__ is Receive:
            return self._admit_arrival(node, event, order)
        if event.__class__ is Timer:
            armed = node.timers.get(event.name)
            if armed is None or armed[1] != order:
                return False  # cancelled or moved meanwhile
            del node.timers[event.name]
        elif event.__class__ is Multicast:
            self.recorder.event(MULTICAST, node, self.now, event.message)
        return True

    def _admit_arrival(self, node: Node, event: Receive, order: int) -> bool:
        network = self.network
        if network.receive_omissions and network.receive_omitted(event.sender, node.pid, self.now):
            self.recorder.event(
                FAULT, node, self.now, detail=f"receive omission: {event.message.label}"
            )
            return False
        if self.recorder.transmissions:
            self.recorder.transmission(
                RECEIVE, node, self.now, event.message, peer=event.sender, copy=order
            )
        return True

    # Effects ------------------------------------------------------------------------------

    def _send(self, node: Node, effect: Send) -> None:
        message, src, now = effect.message, node.pid, self.now
        event = Receive(message, src)
        recorded = self.recorder.transmissions
        network = self.network
        self.sent[message.label] += len(effect.to)
        for dst in effect.to:
            if dst == src:
                order = self._push(now, INSTANT, dst, event)
            elif network.send_omissions and network.send_omitted(src, dst, now):
                self.recorder.event(FAULT, node, now, detail=f"send omission: {message.label}")
                continue
            else:
                order = 0
                for arrival in network.arrivals(src, dst, message, now):
                    rank = INSTANT if arrival == now and not network.behind else ARRIVAL
                    order = self._push(arrival, rank, dst, event)
                    if 2 * (arrival - now) > self._settle:
                        self._note_late(arrival)
            if recorded:
                self.recorder.transmission(SEND, node, now, message, peer=dst, copy=order or None)
                if not order:
                    self.recorder.transmission(LINK, node, now, message, peer=dst, copy=None)

    def _note_late(self, arrival: int) -> None:
        """What the load set in motion is still under way, and what follows from its arrival needs
        its time too. Traffic of perpetual timers counts only until the load would have settled:
        else a run over a slow link would never close."""
        if self.now <= self._last_input + self._settle:
            self._last_late = max(self._last_late, arrival)

    def _send_plain(self, src: ProcessId, effect: Send) -> None:
        """The same where delays are constant, links perfect and transmissions not recorded: a
        constant delay keeps every link FIFO by itself."""
        message, to, now, heap = effect.message, effect.to, self.now, self._heap
        event = Receive(message, src)
        arrival = now + self.network.constant
        self.sent[message.label] += len(to)
        created = self._created
        for dst in to:
            created += 1
            if dst == src:
                heappush(heap, (now, INSTANT + created, dst, event))
            else:
                heappush(heap, (arrival, ARRIVAL + created, dst, event))
        self._created = created

    def _perform(self, node: Node, effect: Effect) -> None:
        now = self.now
        match effect:
            case Deliver(message, ts, layer):
                self.recorder.event(DELIVER, node, now, message, ts=ts, layer=layer)
                if self.on_deliver is not None:
                    for item in self.on_deliver(node.pid, message, now):
                        self._submit(item)
            case SetTimer(name, at):
                self._arm(node, name, at)
            case CancelTimer(name):
                node.timers.pop(name, None)
            case Record(kind, message, layer, detail):
                if kind == RESTART:
                    self._next_life(node)
                self.recorder.event(kind, node, now, message, layer=layer, detail=detail)
            case Save(value):
                node.saved = value
            case Reply(what):
                self.recorder.event(NOTE, node, now, detail=f"reply: {what}")
            case _:
                raise AssertionError(f"p{node.pid} wants {effect}: no driver can do that")

    def _arm(self, node: Node, name: TimerName, at: int) -> None:
        token = self._push(max(self.now, node.real(at)), TIMER, node.pid, Timer(name))
        node.timers[name] = (at, token)

    def _check_invariants(self, node: Node, event: Event, effects: list[Effect]) -> None:
        world = self.world
        world.step = Step(node.pid, event, effects)
        try:
            for invariant in self.invariants:
                invariant(world)
        except AssertionError as error:
            name = getattr(invariant, "__name__", repr(invariant))
            self.broken = BrokenInvariant(name, str(error), self.steps, node.pid)

    # Faults -------------------------------------------------------------------------------

    def _order_crash(self, process: ProcessId, effects: int | None) -> None:
        node = self.nodes[process]
        if not node.alive:
            return
        if effects is None:
            self._crash(node)
        else:
            node.effects_left = effects

    def _crash(self, node: Node) -> None:
        self.faults["Crash"] += 1
        node.alive = False
        node.effects_left = None
        node.timers = {}
        self.world.machines.pop(node.pid, None)
        self.recorder.event(CRASH, node, self.now)
        self.oracle.crashed(node.pid, self.now)

    def _recover(self, process: ProcessId) -> None:
        node = self.nodes[process]
        if node.alive:
            return
        self.faults["Recover"] += 1
        node.alive = True
        self._next_life(node)
        node.busy_until = self.now  # a new life does not wait for the old one's queue
        node.machine = self.scenario.spec.build(process, self.topology, self.scenario.options)
        self.world.machines[process] = node.machine
        self.recorder.event(RESTART, node, self.now)
        self._push(self.now, CONTROL, process, Restart(node.incarnation, node.saved))
        self.oracle.recovered(process, self.now)

    def _next_life(self, node: Node) -> None:
        node.incarnation += 1
        node.lseq = 0

    def _slow(self, process: ProcessId, step_ticks: int, faulty: bool) -> None:
        node = self.nodes[process]
        node.step_ticks = step_ticks
        node.held_up = False
        if step_ticks:
            node.queueing = True
            self.recorder.event(
                FAULT if faulty else NOTE, node, self.now, detail=f"a step takes {step_ticks}"
            )

    def _change_clock(self, fault: ClockFault) -> None:
        node = self.nodes[fault.process]
        if node.alive and (fault.faulty or fault.jump):  # another rate within bounds is none
            self.faults["ClockFault"] += 1
        node.clock = (node.clock or Clock()).changed(self.now, fault.jump, fault.drift_ppm)
        detail = f"clock {fault.jump:+d}, {fault.drift_ppm} ppm"
        self.recorder.event(FAULT if fault.faulty else NOTE, node, self.now, detail=detail)
        for name, (at, _) in list(node.timers.items()):
            self._arm(node, name, at)

    def _mistake(self, fault: WrongNomination | WrongSuspicion) -> None:
        if self._errs(fault):
            self.faults[type(fault).__name__] += 1
        self.oracle.mistake(fault, self.now)

    def _errs(self, fault: WrongNomination | WrongSuspicion) -> bool:
        """Whether it is wrong at this moment, and somebody is there to hear it."""
        if isinstance(fault, WrongSuspicion):
            wrong = self.nodes[fault.process].alive
        else:
            wrong = self.oracle.leader(fault.group) != fault.leader
        return wrong and any(self.nodes[p].alive for p in fault.to or self.nodes)
