"""Optimistic Atomic Multicast at one process (paper 002 §4): two deliveries.

A message goes to all its destinations at once and is opt-delivered in the order of initial
timestamps, when its wait window is over; only then is it proposed, as in baseline.py. Barriers
are requested before the message is sent, so conservative delivery takes 3δ, or 4δ where the
timestamp was changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from shmcast.multicast.protocols.barrier_config import Config
from shmcast.multicast.protocols.barrier_entries import (
    Final,
    Initial,
    Needs,
    WantBarrier,
    by_source,
)
from shmcast.multicast.protocols.baseline import Baseline, Item
from shmcast.multicast.protocols.core import (
    OPTIMISTIC,
    Deliver,
    Effect,
    GroupId,
    LocalTime,
    Message,
    MessageId,
    ProcessId,
    SetTimer,
    Start,
    Timer,
    Timestamp,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wait_window import WaitWindow

WINDOW_TIMER = "window"


@dataclass(slots=True)
class OptimisticState:
    window: WaitWindow
    waiting: list[tuple[Timestamp, int, Item]] = field(default_factory=list)
    count: int = 0
    opt_delivered: set[MessageId] = field(default_factory=set)  # not delivered yet
    overtaken: set[MessageId] = field(default_factory=set)  # delivered before the window ended


class Optimistic(Baseline):
    def __init__(self, topology: Topology, me: ProcessId, g: GroupId, config: Config) -> None:
        super().__init__(topology, me, g, config)
        self.opt = OptimisticState(WaitWindow(config.window))

    def on_multicast(self, m: Message, now: LocalTime) -> list[Effect]:
        """§4.2: "p fr-mcasts m to all groups in m.dst, not only its own group"; requests for
        barriers are sent "before the sender fr-mcasts m"."""
        s = self.state
        ts = self.get_time(now)
        asked = self.barriers_for(m.dest)
        sources: dict[tuple[GroupId, ...], list[GroupId]] = {}
        for x, h in by_source(asked).items():
            sources.setdefault(h, []).append(x)
        return [
            *(self.fr_mcast(tuple(x), WantBarrier(h, ts, m.id)) for h, x in sources.items()),
            self.fr_mcast(tuple(sorted({s.g, *m.dest})), Initial(m, s.g, ts, asked)),
        ]

    # The wait window ---------------------------------------------------------------------------

    def on_fr_deliver(self, item: Item, now: LocalTime) -> list[Effect]:
        """ "Process p waits until its wallclock has a value greater than m.ts + w(p)."

        DEVIATION: at least, in ticks: what arrives at a tick is handled before its timers, so at
        m.ts + w(p) all that was sent up to m.ts is here. A request for a barrier waits as well:
        a barrier that is decided too early changes the timestamps of all that comes after it.
        """
        opt = self.opt
        if isinstance(item, Initial):
            opt.window.observe(item.m.id.sender, now - item.ts.time)
        opt.count += 1
        heappush(opt.waiting, (item.ts, opt.count, item))
        return self.arm(now)

    def arm(self, now: LocalTime) -> list[Effect]:
        if not self.opt.waiting:
            return []
        return [SetTimer(WINDOW_TIMER, max(now, self.due()))]

    def due(self) -> LocalTime:
        return self.opt.waiting[0][0].time + self.opt.window.value

    def on_window_timer(self, now: LocalTime) -> list[Effect]:
        """ "… and then p opt-delivers m and proposes m in the next consensus instance"."""
        effects: list[Effect] = []
        while self.opt.waiting and self.due() <= now:
            _, _, item = heappop(self.opt.waiting)
            if isinstance(item, Initial):
                effects += self.opt_deliver(item)
            if not isinstance(item, Initial) or item.src == self.state.g:
                effects += self.enqueue(item, now)
        return [*effects, *self.arm(now)]

    def opt_deliver(self, item: Initial) -> list[Effect]:
        if self.state.g not in item.m.dest:
            return []
        if item.m.id in self.opt.overtaken:
            self.opt.overtaken.discard(item.m.id)
            return []
        self.opt.opt_delivered.add(item.m.id)
        return [Deliver(item.m, item.ts, OPTIMISTIC)]

    def delivered(self, final: Final) -> list[Effect]:
        """DEVIATION: a message that is decided elsewhere before the own window ends is
        opt-delivered then: the paper does not say, and both deliveries are due."""
        mid = final.m.id
        if mid in self.opt.opt_delivered:
            self.opt.opt_delivered.discard(mid)
            return super().delivered(final)
        self.opt.overtaken.add(mid)
        return [Deliver(final.m, final.initial.ts, OPTIMISTIC), *super().delivered(final)]

    # Requests for barriers ---------------------------------------------------------------------

    def after_stamping(self, final: Final) -> list[Effect]:
        """§6: if the timestamps differ, "g's leader can send the new barrier request to x while
        running consensus in g"."""
        if final.ts == final.initial.ts:
            return []
        return self.want_barriers(final, super().needs(final))

    def needs(self, final: Final) -> Needs:
        """The sender has asked for the initial timestamp, of those that it knew."""
        needs = super().needs(final)
        if final.ts != final.initial.ts:
            return needs
        return tuple(need for need in needs if need not in final.initial.asked)

    def on_time(self, event: Timer | Start, now: LocalTime) -> list[Effect]:
        if isinstance(event, Timer) and event.name == WINDOW_TIMER:
            return self.on_window_timer(now)
        return super().on_time(event, now)
