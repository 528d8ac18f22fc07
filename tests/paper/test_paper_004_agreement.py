"""Paper 004 §7-8, consensus, atomic and terminating broadcast from each other: scenarios 33-36 of
broadcast-stack.md, by number."""

from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.written import Written
from shmcast.multicast.protocols.agreement_problems import T0
from shmcast.multicast.protocols.atomic_from_consensus import AtomicFromConsensus
from shmcast.multicast.protocols.consensus import Decided, Propose
from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Delivered,
    Effect,
    Message,
    MessageId,
    Replied,
    Request,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.trb_from_consensus import Broadcast
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, Fault, ReceiveOmission
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Call, Submit

ALL = (0,)
THREE = Topology.regular(1, 3)


def decided(outcome: Run, layer: str = "consensus") -> dict[int, str]:
    return {e.proc: e.detail for e in outcome.trace if e.kind == "decide" and e.layer == layer}


def proposals(at: int = 0) -> list[Call]:
    return [Call(at + p, p, Propose(f"v{p}")) for p in range(3)]


def test_scenario_33_consensus_from_atomic_broadcast_with_a_crash() -> None:
    outcome = simulate(
        "consensus-from-timed-atomic",
        topology=THREE,
        inputs=proposals(),
        faults=[Crash(0, 0, effects=2)],
        delay=Constant(1000),
    )
    outcome.check()
    decisions = decided(outcome)
    assert set(decisions) >= {1, 2}
    assert len(set(decisions.values())) == 1
    assert set(decisions.values()) <= {"'v0'", "'v1'", "'v2'"}


def test_consensus_from_a_uniform_atomic_broadcast_is_not_uniform() -> None:
    """A faulty process that skips the first message decides the second: Uniform Atomic allows it,
    uniform consensus does not."""
    t = Written(((0, 1, 2),)).multicast(0, "a").multicast(1, "b").fault(2)
    t.deliver(0, "a", "b").deliver(1, "a", "b").deliver(2, "b")
    for proc, value in ((0, "a"), (1, "b"), (2, "c")):
        t.event(proc, "propose", layer="consensus", detail=value)
    for proc, value in ((0, "a"), (1, "a"), (2, "b")):
        t.event(proc, "decide", layer="consensus", detail=value)
    names = ["uniform-total", "consensus-agreement", "uniform-consensus-agreement"]
    found = {name for name, v in check(t.trace(), names).items() if v.violated}
    assert found == {"uniform-consensus-agreement"}


def message(sender: int) -> Message:
    return Message(MessageId(sender, 1), ALL)


def ids(effects: list[Effect]) -> list[int]:
    return [e.message.id.sender for e in effects if isinstance(e, Deliver)]


def test_scenario_34_decision_that_comes_too_early_waits_for_the_one_before() -> None:
    layer = AtomicFromConsensus("r", "consensus")
    (ask,) = layer.handle(Delivered(message(0), None, "r"), 0)
    assert ask == Ask("consensus", Request(Propose((message(0),), 1)))
    second = Replied(Decided((message(2),), 2), "consensus")
    assert ids(layer.handle(second, 0)) == []
    first = Replied(Decided((message(0), message(1)), 1), "consensus")
    assert ids(layer.handle(first, 0)) == [0, 1, 2]


def test_scenario_34_crash_in_the_middle_of_an_instance_leaves_equal_sequences() -> None:
    four = Topology.regular(1, 4)
    for effects in range(8):
        outcome = simulate(
            "atomic-broadcast",
            topology=four,
            inputs=[Submit(700 * i, i % 4, ALL) for i in range(8)],
            faults=[Crash(0, 2500, effects)],
            delay=Scripted(Constant(1000), (Rule(4000, src=1, dst=2),)),
        )
        outcome.check()
        lines = {
            p: [e.msg for e in outcome.trace if e.kind == "deliver" and not e.layer and e.proc == p]
            for p in (1, 2, 3)
        }
        assert lines[1] == lines[2] == lines[3]
        assert len(lines[1]) >= 6


def trb(*faults: Fault, silent: int | None = None) -> Run:
    return simulate(
        "trb",
        topology=THREE,
        inputs=[Call(p, p, Broadcast(f"v{p}")) for p in range(3) if p != silent],
        faults=faults,
        delay=Constant(1000),
    )


def test_scenario_35_silent_sender_is_delivered_as_faulty() -> None:
    outcome = trb(Crash(1, 10))
    assert decided(outcome, "trb 1") == {0: "F_s", 2: "F_s"}
    outcome.check()


def test_scenario_35_correct_sender_is_delivered() -> None:
    outcome = trb(Crash(1, 10))
    assert decided(outcome, "trb 0") == {0: "'v0'", 2: "'v0'"}


def test_scenario_35_consensus_from_trb_skips_the_mark_of_a_failure() -> None:
    outcome = simulate(
        "consensus-from-trb",
        topology=THREE,
        inputs=proposals(),
        faults=[Crash(0, 10)],
        delay=Constant(1000),
    )
    assert decided(outcome) == {1: "'v1'", 2: "'v1'"}
    outcome.check()


def test_sender_that_crashes_while_it_sends_is_delivered_by_all_or_none() -> None:
    for effects in range(4):
        outcome = trb(Crash(0, T0, effects))
        assert len(set(decided(outcome, "trb 0").values())) == 1
        outcome.check()


def test_scenario_36_receive_omission_may_convict_a_correct_sender() -> None:
    """Fig. 16 assumes send omissions only; the trace shows the fault that breaks the assumption."""
    outcome = trb(
        ReceiveOmission(0, T0, T0 + 1001, sender=2), ReceiveOmission(1, T0, T0 + 1001, sender=2)
    )
    found = set(outcome.report("trb-validity").violated)
    assert decided(outcome, "trb 2")[2] == "F_s"
    assert found == {"trb-validity"}
    assert any(e.kind == "fault" and "receive omission" in e.detail for e in outcome.trace)
