"""Paper 004, total order, causal-atomic layers and inconsistency: scenarios 16-22, 31 and 32 of
broadcast-stack.md, by number."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from shmcast.multicast.checks.consistency import consistency
from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.table import ATOMIC, check, uniform
from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.checks.written import Written
from shmcast.multicast.protocols.broadcasts import BY_NAME, Replace, builder, spec_of
from shmcast.multicast.protocols.causal_atomic import (
    CausalAtomic,
    CausalAtomicAhead,
    CausalAtomicRecent,
)
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Message,
    MessageId,
    Multicast,
    Timer,
)
from shmcast.multicast.protocols.timed_total import Stamped, TimedTotal
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.vectors import Counted, Vector
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import SendOmission
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

A, B, C, D = range(4)
ALL = (0,)
FOUR = Topology.regular(1, 4)
DELTA = 1000


def message(sender: int, seq: int, payload: object = None) -> Message:
    return Message(MessageId(sender, seq), ALL, payload)


def ids(effects: list[Effect]) -> list[tuple[int, int]]:
    return [e.message.id for e in effects if isinstance(e, Deliver)]


def delivered(outcome: Run, process: int) -> list[tuple[int, int]]:
    return [
        e.msg
        for e in outcome.trace
        if e.kind == "deliver" and not e.layer and e.proc == process and e.msg is not None
    ]


def violated(trace: Trace, *names: str) -> set[str]:
    return {name for name, v in check(trace, names).items() if v.violated}


# Total order ----------------------------------------------------------------------------------


def balances(layers: tuple[str, ...], setting: str) -> list[int]:
    """100 + 20 and × 1.10, posted at the same time at two replicas far apart."""
    outcome = simulate(
        spec_of(layers, BY_NAME[setting]),
        topology=Topology.regular(1, 2),
        inputs=[Submit(0, A, ALL), Submit(0, B, ALL)],
        delay=Constant(DELTA),
    )
    totals = []
    for process in (A, B):
        balance = 100
        for sender, _ in delivered(outcome, process):
            balance = balance + 20 if sender == A else balance * 110 // 100
        totals.append(balance)
    return totals


def test_scenario_16_causal_order_alone_lets_replicas_differ() -> None:
    assert balances(("diffusion", "fifo", "causal-blocking"), "crash") == [132, 130]
    timed = balances(("timed-diffusion", "fifo", "causal-blocking", "timed-total"), "sync-crash")
    assert timed == [132, 132]


def stamped(sender: int, ts: int) -> Delivered:
    return Delivered(message(sender, 1, Stamped(None, ts)), None, "below")


def test_scenario_17_message_at_its_deadline_still_comes_first() -> None:
    layer = TimedTotal("below", 100)
    layer.handle(stamped(2, ts=0), now=50)
    layer.handle(stamped(1, ts=0), now=100)
    assert ids(layer.handle(Timer("release"), now=100)) == [(1, 1), (2, 1)]


def test_scenario_18_late_message_is_never_delivered_and_the_process_says_so() -> None:
    layer = TimedTotal("below", 100)
    (note,) = layer.handle(stamped(1, ts=0), now=101)
    assert "outside the model" in str(note)
    assert layer.halted
    assert ids(layer.handle(Timer("release"), now=500)) == []


@pytest.mark.parametrize("halts", [True, False])
def test_scenario_19_going_on_after_a_late_message_breaks_uniform_fifo(halts: bool) -> None:
    layer = TimedTotal("below", 100, halts=halts)
    layer.handle(stamped(A, ts=0), now=101)
    layer.handle(Delivered(message(A, 2, Stamped(None, 10)), None, "below"), now=105)
    at_faulty = ids(layer.handle(Timer("release"), now=110))
    trace = Written(((A, B, C),)).multicast(A, "m").multicast(A, "n").fault(C)
    trace.deliver(A, "m", "n").deliver(B, "m", "n")
    trace.deliver(C, *["n" for _ in at_faulty])
    expected = set() if halts else {"uniform-fifo"}
    assert violated(trace.trace(), "fifo", "uniform-fifo") == expected


# Causal atomic --------------------------------------------------------------------------------


def private_post(top: tuple[str, ...], replace_layers: Replace | None = None) -> Run:
    """Faulty A reaches faulty B only, which passes nothing on; B replies, twice."""
    layers = ("timed-diffusion", "timed-total", "fifo", *top)
    setting = BY_NAME["sync-omission"]
    return simulate(
        replace(spec_of(layers, setting), build=builder(layers, setting, replace_layers)),
        topology=FOUR,
        inputs=[Submit(0, A, ALL), Submit(20_000, B, ALL), Submit(30_000, B, ALL)],
        faults=[
            SendOmission(A, 0, to=frozenset({C, D})),
            SendOmission(B, DELTA, DELTA + 1),
        ],
        delay=Constant(DELTA),
    )


@pytest.mark.parametrize("figure", ["", "-recent", "-ahead"])
def test_scenario_20_reply_to_an_unknown_post_is_discarded(figure: str) -> None:
    fifo_atomic = private_post(())
    found = set(fifo_atomic.report("fifo", "total", "causal").violated)
    assert found == {"causal"}
    outcome = private_post((f"causal-atomic{figure}",))
    assert delivered(outcome, C) == delivered(outcome, D) == []
    outcome.check()


class TrustsEveryone(CausalAtomic):
    """Fig. 8 without the test: nothing is discarded."""

    def has_all(self, s: int, counts: Vector) -> bool:
        return True


class ForgivesAtOnce(CausalAtomic):
    """Fig. 8 without suspects: only the message itself is discarded, not those that follow."""

    def on_deliver(self, m: Message, counts: Vector) -> list[Effect]:
        effects = super().on_deliver(m, counts)
        self.suspects.clear()
        return effects


def test_scenario_20_without_the_test_causal_order_is_lost() -> None:
    change: Replace = {"causal-atomic": lambda _: TrustsEveryone("fifo", (A, B, C, D))}
    assert "uniform-causal" in private_post(("causal-atomic",), change).report().violated


def test_scenario_20_later_messages_of_a_suspect_stay_out_even_if_they_seem_complete() -> None:
    """B's second message carries no less than its first, so the vector alone refuses it; once A's
    count has caught up otherwise, only the suspicion does."""
    zero, one_more = (0, 0, 0, 0), (1, 0, 0, 0)
    stream = [
        message(B, 1, Counted(None, one_more)),
        message(A, 1, Counted(None, zero)),
        message(B, 2, Counted(None, one_more)),
    ]
    for kind, expected in ((CausalAtomic, [(A, 1)]), (ForgivesAtOnce, [(A, 1), (B, 2)])):
        layer = kind("below", (A, B, C, D))
        effects = [e for m in stream for e in layer.handle(Delivered(m, None, "below"), 0)]
        assert ids(effects) == expected


@dataclass
class World:
    """One causal-atomic layer at each process, over a stream that all FA-deliver alike."""

    kind: type[CausalAtomic]
    processes: tuple[int, ...] = (A, B, C, D)
    layers: dict[int, CausalAtomic] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layers = {p: self.kind("below", self.processes) for p in self.processes}

    def broadcast(self, process: int) -> Message:
        self.sent[process] = self.sent.get(process, 0) + 1
        ask = self.layers[process].handle(Multicast(message(process, self.sent[process])), 0)[0]
        assert isinstance(ask, Ask) and isinstance(ask.event, Multicast)
        return ask.event.message

    def deliver(self, process: int, m: Message) -> bool:
        return bool(self.layers[process].handle(Delivered(m, None, "below"), 0))


def decisions(kind: type[CausalAtomic], seed: int, count: int) -> tuple[list[bool], World]:
    """A judges; the others lag behind, and C gets one message of D that nobody else gets."""
    rng = Random(seed)
    world = World(kind)
    stream: list[Message] = []
    read = dict.fromkeys(world.processes, 0)
    verdicts: list[bool] = []
    for step in range(count):
        if step == count // 3:
            for m in stream[read[C] :]:  # even a faulty process delivers in FIFO order
                world.deliver(C, m)
            read[C] = len(stream)
            world.deliver(C, world.broadcast(D))
        senders = world.processes if step < count // 3 else world.processes[:3]
        stream.append(world.broadcast(rng.choice(senders)))
        for p in world.processes:
            upto = len(stream) if p == A else rng.randint(read[p], len(stream))
            while read[p] < upto:
                answer = world.deliver(p, stream[read[p]])
                read[p] += 1
                if p == A:
                    verdicts.append(answer)
    return verdicts, world


def test_scenario_21_three_figures_decide_alike_on_ten_thousand_messages() -> None:
    basic, _ = decisions(CausalAtomic, 1, 10_000)
    recent, _ = decisions(CausalAtomicRecent, 1, 10_000)
    ahead, _ = decisions(CausalAtomicAhead, 1, 10_000)
    assert basic == recent == ahead
    assert 0 < basic.count(False) < len(basic)


def test_scenario_21_distance_is_the_difference_at_each_step() -> None:
    """numAhead[s, r] = numOfAllDlvrs[r] − M[s, r]."""
    for count in (*range(1, 50), 150):
        _, with_matrix = decisions(CausalAtomicRecent, 2, count)
        _, with_distance = decisions(CausalAtomicAhead, 2, count)
        one, other = with_matrix.layers[0], with_distance.layers[0]
        assert isinstance(one, CausalAtomicRecent) and isinstance(other, CausalAtomicAhead)
        difference = [
            [all_of - known for all_of, known in zip(one.delivered, row, strict=True)]
            for row in one.known
        ]
        assert other.ahead == difference


def test_scenario_22_without_uniform_total_order_a_faulty_process_delivers_alone() -> None:
    m1 = Delivered(message(A, 1, Counted(None, (0, 0))), None, "below")
    m2 = Delivered(message(B, 1, Counted(None, (1, 0))), None, "below")
    faulty, correct = CausalAtomic("below", (A, B)), CausalAtomic("below", (A, B))
    at_faulty = ids(faulty.handle(m1, 0) + faulty.handle(m2, 0))
    at_correct = ids(correct.handle(m2, 0) + correct.handle(m1, 0))
    assert at_faulty == [(A, 1), (B, 1)] and at_correct == [(A, 1)]
    trace = Written(((A, B, C),)).multicast(A, "m1").fault(B).deliver(B, "m1").multicast(B, "m2")
    trace.deliver(B, "m2").deliver(A, "m1").deliver(C, "m1")
    assert violated(trace.trace(), "agreement", "uniform-agreement") == {"uniform-agreement"}


def test_scenario_22_is_impossible_once_the_order_below_is_uniform() -> None:
    """Same order everywhere: m2 is judged alike, whoever judges."""
    m1 = Delivered(message(A, 1, Counted(None, (0, 0))), None, "below")
    m2 = Delivered(message(B, 1, Counted(None, (1, 0))), None, "below")
    for order in ((m1, m2), (m2, m1)):
        one, other = CausalAtomic("below", (A, B)), CausalAtomic("below", (A, B))
        assert [one.handle(m, 0) for m in order] == [other.handle(m, 0) for m in order]


# Inconsistency and contamination --------------------------------------------------------------


def test_scenario_31_uniform_atomic_broadcast_does_not_prevent_contamination() -> None:
    """§3.11: r skips "+1", computes on, and its result reaches those who did not skip."""
    p, q, r = A, B, C
    t = Written(((p, q, r),)).multicast(p, "plus 1").multicast(q, "times 2").fault(r)
    t.deliver(p, "plus 1", "times 2").deliver(q, "plus 1", "times 2")
    t.deliver(r, "times 2").multicast(r, "y = 30")
    t.deliver(p, "y = 30").deliver(q, "y = 30").deliver(r, "y = 30")
    trace = t.trace()
    assert violated(trace, *uniform(ATOMIC)) == set()
    found = consistency(History(trace))
    assert {who[0] for who in found.inconsistent} == {r}
    assert found.inconsistent[r, 0].msg == (q, 1)
    assert {who[0] for who in found.contaminated} == {p, q}
    assert all(event.msg == (r, 1) for event in found.contaminated.values())


def test_scenario_32_crashes_alone_make_a_coordinator_inconsistent() -> None:
    """§3.11: it "delivers m, m′, crashes", and its successor picks the other order."""
    coordinator, p, q = A, B, C
    t = Written(((coordinator, p, q),)).multicast(p, "m").multicast(q, "m′")
    t.deliver(coordinator, "m", "m′").crash(coordinator)
    t.deliver(p, "m′", "m").deliver(q, "m′", "m")
    trace = t.trace()
    assert violated(trace, "total", "uniform-total") == {"uniform-total"}
    assert set(consistency(History(trace)).inconsistent) == {(coordinator, 0)}
    assert not consistency(History(trace)).contaminated


def test_a_slow_link_cannot_reorder_a_timed_total_order() -> None:
    """Theorem 3, on links of different lengths."""
    outcome = simulate(
        spec_of(("timed-diffusion", "timed-total"), BY_NAME["sync-crash"]),
        topology=FOUR,
        inputs=[Submit(0, A, ALL), Submit(1, B, ALL)],
        delay=Scripted(Constant(1), (Rule(DELTA, src=A, dst=C), Rule(DELTA, src=B, dst=D))),
    )
    outcome.check()
    assert delivered(outcome, C) == delivered(outcome, D) == [(A, 1), (B, 1)]
