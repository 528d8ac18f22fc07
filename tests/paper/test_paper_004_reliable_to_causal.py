"""Paper 004, reliable to causal broadcast: scenarios 1-15 of broadcast-stack.md, by number.

Processes are A, B, C, D. The weaker layer must visibly fail what the stronger one promises.
"""

from shmcast.multicast.checks.table import RELIABLE, check, uniform
from shmcast.multicast.checks.written import Written
from shmcast.multicast.protocols.broadcasts import BY_NAME, builder, spec_of
from shmcast.multicast.protocols.causal_blocking import CausalBlocking
from shmcast.multicast.protocols.causal_nonblocking import CausalNonblocking
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Machine,
    Message,
    MessageId,
    Multicast,
)
from shmcast.multicast.protocols.fifo import Fifo
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.vectors import Counted
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, Fault, Partition, SendOmission
from shmcast.multicast.sim.mutants import find_mutant
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Input, Submit

A, B, C, D = range(4)
ALL = (0,)
FOUR = Topology.regular(1, 4)
DELTA = 1000
CRASH, OMISSION = BY_NAME["crash"], BY_NAME["omission"]
R = spec_of(("diffusion",), OMISSION)
F = spec_of(("diffusion", "fifo"), OMISSION)
C_NONBLOCKING = spec_of(("diffusion", "fifo", "causal-nonblocking"), OMISSION)
C_BLOCKING = spec_of(("diffusion", "fifo", "causal-blocking"), OMISSION)
POST, REPLY = (A, 1), (B, 1)


def run(spec: Spec, inputs: list[Input], *faults: Fault, **more: object) -> Run:
    return simulate(
        spec,
        topology=FOUR,
        inputs=inputs,
        faults=faults,
        delay=more.get("delay", Constant(DELTA)),  # type: ignore[arg-type]
        fifo=bool(more.get("fifo", True)),
    )


def delivered(outcome: Run, process: int) -> list[tuple[int, int]]:
    return [
        e.msg
        for e in outcome.trace
        if e.kind == "deliver" and not e.layer and e.proc == process and e.msg is not None
    ]


def violated(outcome: Run, *names: str) -> set[str]:
    return set(outcome.report(*names).violated)


def test_scenario_1_diffusion_on_a_ring_reaches_everyone_once() -> None:
    ring = {p: ((p - 1) % 5, (p + 1) % 5) for p in range(5)}
    outcome = simulate(
        spec_of(("diffusion",), CRASH),
        topology=Topology.regular(1, 5),
        inputs=[Submit(0, 0, ALL)],
        options={"links": ring},
    )
    outcome.check(*RELIABLE, *uniform(RELIABLE))
    assert all(len(delivered(outcome, p)) == 1 for p in range(5))


def test_scenario_2_sender_that_crashes_before_it_sends_is_heard_by_nobody() -> None:
    outcome = run(R, [Submit(0, A, ALL)], Crash(A, 0, effects=0))
    assert not any(delivered(outcome, p) for p in range(4))
    outcome.check("agreement")


def test_scenario_3_one_correct_neighbour_is_enough() -> None:
    only_b = SendOmission(A, 0, to=frozenset({C, D}))
    outcome = run(R, [Submit(0, A, ALL)], only_b, Crash(A, 1))
    outcome.check(*RELIABLE)
    assert all(delivered(outcome, p) == [POST] for p in (B, C, D))


def test_scenario_4_cut_between_correct_processes_breaks_agreement() -> None:
    """An assumption is broken, not the code: (b) of §6.1 asks for a path of correct links."""
    cut = Partition(frozenset({A, B}), 0, 100_000, drop=True)
    outcome = run(R, [Submit(0, A, ALL)], cut)
    assert violated(outcome, "agreement") == {"agreement"}
    lost = [e for e in outcome.trace if e.kind == "link"]
    assert lost, "the trace shows whose fault it is"


def test_scenario_5_delivering_before_relaying_loses_uniform_agreement() -> None:
    broken = find_mutant("reliable~delivers-then-relays").spec
    outcome = run(broken, [Submit(0, A, ALL)], Crash(A, DELTA))
    assert violated(outcome, "agreement", "uniform-agreement") == {"uniform-agreement"}


def test_scenario_6_send_omission_loses_uniform_agreement() -> None:
    outcome = run(R, [Submit(0, A, ALL)], SendOmission(A, 0))
    assert delivered(outcome, A) == [POST]
    assert violated(outcome, "agreement", "uniform-agreement") == {"uniform-agreement"}


def test_scenario_7_fifo_links_make_diffusion_causal() -> None:
    """Theorem 9, with a chain of replies and crashes inside it."""

    def reply(process: int, message: Message, now: int) -> list[Input]:
        follows = process == (message.id.sender + 1) % 4 and message.id.seq <= 2
        return [Submit(now, process, ALL)] if follows else []

    outcome = simulate(
        spec_of(("diffusion",), BY_NAME["crash-fifo-links"]),
        topology=FOUR,
        inputs=[Submit(0, A, ALL)],
        faults=[Crash(C, 2500, effects=2), Crash(A, 4100)],
        delay=Scripted(Constant(DELTA), (Rule(1, src=B), Rule(9 * DELTA, src=A, dst=D))),
        on_deliver=reply,
    )
    assert len({m for p in range(4) for m in delivered(outcome, p)}) > 3
    outcome.check("uniform-causal")


def overtaking() -> Scripted:
    return Scripted(Constant(DELTA), (Rule(9 * DELTA, about=(A, 1), dst=B),))


def test_scenario_8_overtaking_breaks_fifo_and_the_fifo_layer_mends_it() -> None:
    two: list[Input] = [Submit(0, A, ALL), Submit(10, A, ALL)]
    plain = run(R, two, delay=overtaking(), fifo=False)
    assert delivered(plain, B) == [(A, 2), (A, 1)]
    assert violated(plain, "fifo") == {"fifo"}
    run(F, two, delay=overtaking(), fifo=False).check()


def test_scenario_9_gap_violates_fifo_although_the_rest_is_in_order() -> None:
    three: list[Input] = [Submit(t, A, ALL) for t in (0, 5000, 10_000)]
    transient = SendOmission(A, 5000, 5001)
    plain = run(R, three, transient)
    assert delivered(plain, B) == [(A, 1), (A, 3)]
    assert violated(plain, "fifo") == {"fifo"}
    held = run(F, three, transient)
    assert delivered(held, B) == [(A, 1)]
    held.check()


def message(sender: int, seq: int, payload: object = None) -> Message:
    return Message(MessageId(sender, seq), ALL, payload)


def given(machine: Machine, *messages: Message) -> list[tuple[int, int]]:
    """What the layer delivers when the one below delivers these."""
    effects: list[Effect] = []
    for m in messages:
        effects += machine.handle(Delivered(m, None, "below"), 0)
    return [e.message.id for e in effects if isinstance(e, Deliver)]


def test_scenario_10_fifo_releases_up_to_the_next_gap() -> None:
    layer = Fifo("below")
    given(layer, message(A, 1), message(A, 2), message(A, 4), message(A, 8))
    assert given(layer, message(A, 3)) == [(A, 3), (A, 4)]
    assert list(layer.held[A]) == [8]


def post_and_reply(spec: Spec) -> Run:
    """A posts, B replies, and the post is slow to C on every path."""

    def reply(process: int, m: Message, now: int) -> list[Input]:
        return [Submit(now, B, ALL)] if process == B and m.id == POST else []

    return simulate(
        spec,
        topology=FOUR,
        inputs=[Submit(0, A, ALL)],
        delay=Scripted(Constant(DELTA), (Rule(20 * DELTA, about=POST, dst=C),)),
        fifo=False,
        on_deliver=reply,
    )


def test_scenario_11_reply_before_its_post_breaks_local_order() -> None:
    fifo_only = post_and_reply(F)
    assert delivered(fifo_only, C) == [REPLY, POST]
    assert violated(fifo_only, "fifo", "local-order") == {"local-order"}
    for spec in (C_NONBLOCKING, C_BLOCKING):
        outcome = post_and_reply(spec)
        assert delivered(outcome, C) == [POST, REPLY]
        outcome.check("uniform-local-order")


def test_scenario_11_nonblocking_delivers_both_from_one_message() -> None:
    def time_at_c(spec: Spec) -> int:
        rows = post_and_reply(spec).trace
        return next(e.real_t for e in rows if e.kind == "deliver" and not e.layer and e.proc == C)

    assert time_at_c(C_NONBLOCKING) == 2 * DELTA
    assert time_at_c(C_BLOCKING) == 20 * DELTA


def private_post(spec: Spec, reply_at: int = 2 * DELTA) -> Run:
    """Only faulty B gets the post of faulty A; it passes nothing on, and replies."""
    return run(
        spec,
        [Submit(0, A, ALL), Submit(reply_at, B, ALL)],
        SendOmission(A, 0, to=frozenset({C, D})),
        SendOmission(B, DELTA, DELTA + 1),
    )


def test_scenario_12_reply_to_a_post_that_only_a_faulty_process_has() -> None:
    assert violated(private_post(F), "fifo", "causal") == {"causal"}
    assert delivered(private_post(C_NONBLOCKING), C) == [POST, REPLY]
    assert delivered(private_post(C_BLOCKING), C) == []
    private_post(C_NONBLOCKING).check()
    private_post(C_BLOCKING).check()


def test_scenario_13_equal_vectors_are_released_in_the_order_of_broadcast() -> None:
    layer = CausalBlocking("below", (A, B, C))
    needs_post = (1, 0, 0)
    first, second = (message(B, k, Counted(None, needs_post)) for k in (1, 2))
    assert given(layer, first, second) == []
    assert given(layer, message(A, 1, Counted(None, (0, 0, 0)))) == [POST, (B, 1), (B, 2)]


def test_scenario_14_nonblocking_loses_uniform_total_order() -> None:
    """The FIFO atomic broadcast below is Uniform Total; faulty r skips x."""
    x, y, z = message(A, 1), message(B, 1), message(C, 1)
    full = [message(A, 1, (x,)), message(B, 1, (y,)), message(C, 1, (x, z))]
    assert given(CausalNonblocking("below"), *full) == [x.id, y.id, z.id]
    assert given(CausalNonblocking("below"), *full[1:]) == [y.id, x.id, z.id]
    trace = Written(((A, B, C, D),)).multicast(A, "x").multicast(B, "y").deliver(C, "x")
    trace = trace.multicast(C, "z").deliver(C, "y", "z").deliver(A, "x", "y", "z").fault(D)
    verdicts = check(trace.deliver(D, "y", "x", "z").trace(), ["total", "uniform-total"])
    assert not verdicts["total"].violated and verdicts["uniform-total"].violated


def test_scenario_14_blocking_keeps_uniform_total_order() -> None:
    zero = (0, 0, 0)
    y = message(B, 1, Counted(None, zero))
    z = message(C, 1, Counted(None, (1, 0, 0)))
    assert given(CausalBlocking("below", (A, B, C)), y, z) == [y.id]


def test_scenario_15_nonblocking_brings_back_an_old_message() -> None:
    sync = BY_NAME["sync-omission"]
    layers = ("diffusion", "fifo")
    bound = 3 * DELTA  # (f + d)δ
    late = 5 * bound

    def timely(top: str) -> bool:
        build = builder((*layers, top), sync)
        spec = Spec(top, build, promises=("real-time",), bound=lambda _: bound)
        return "real-time" not in private_post(spec, reply_at=late).report().violated

    assert not timely("causal-nonblocking")
    assert timely("causal-blocking")


def test_piggybacked_messages_are_cleared_by_a_broadcast() -> None:
    """Fig. 6: rcntDlvrs holds what was delivered "since its previous C-broadcast"."""
    layer = CausalNonblocking("below")
    given(layer, message(A, 1, (message(A, 1),)))
    first = layer.handle(Multicast(message(B, 1)), 0)[0]
    second = layer.handle(Multicast(message(B, 2)), 0)[0]
    sequences = [
        e.event.message.payload
        for e in (first, second)
        if isinstance(e, Ask) and isinstance(e.event, Multicast)
    ]
    assert sequences == [(message(A, 1), message(B, 1)), (message(B, 2),)]
