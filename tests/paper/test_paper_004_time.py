"""Paper 004 §6.7, Δ-timeliness: scenarios 23, 26 and 27 of broadcast-stack.md, by number."""

from fractions import Fraction

from shmcast.multicast.checks.table import check
from shmcast.multicast.protocols.broadcasts import BY_NAME, spec_of
from shmcast.multicast.protocols.core import Deliver, Effect, Message, MessageId, Receive
from shmcast.multicast.protocols.synchrony import Synchrony
from shmcast.multicast.protocols.timed_diffusion import TimedCopy, TimedDiffusion
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, SendOmission
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.workload import Submit

ALL = (0,)


def test_scenario_23_worst_case_of_theorem_11_is_attained() -> None:
    """ "Δ = (f + d)δ": faulty sender, one faulty relay, then two links to the farthest."""
    sender, relay, near, middle, far = range(5)
    line = {
        sender: (relay,),
        relay: (sender, near),
        near: (relay, middle),
        middle: (near, far),
        far: (middle,),
    }
    bounds = Synchrony(delta=10, f=2, d=2)
    outcome = simulate(
        spec_of(("diffusion",), BY_NAME["sync-omission"]),
        topology=Topology.regular(1, 5),
        inputs=[Submit(0, sender, ALL)],
        faults=[Crash(sender, 1), Crash(relay, 11)],
        delay=Constant(10),
        options={"links": line},
    )
    took = {e.proc: e.real_t for e in outcome.trace if e.kind == "deliver"}
    assert bounds.real_bound == 40
    assert took == {sender: 0, relay: 10, near: 20, middle: 30, far: 40}


TENTHS = Synchrony(delta=100, f=2, d=2, rho_ppm=10_000, epsilon=20)  # ticks of a tenth


def copy(k: int, ts: int = 0) -> Receive:
    return Receive(TimedCopy(Message(MessageId(0, 1), ALL), ts, k), 0)


def delivers(effects: list[Effect]) -> bool:
    return any(isinstance(e, Deliver) for e in effects)


def test_scenario_26_bound_of_theorem_12() -> None:
    """δ = 10, ρ = 0.01, ε = 2, f = 2, d = 2: Δ = 46.4."""
    assert TENTHS.local_bound == 464
    assert TENTHS.hop == Fraction(121)


def test_scenario_26_late_copy_leaves_the_way_open_for_a_timely_one() -> None:
    layer = TimedDiffusion(1, (2,), TENTHS)
    assert not delivers(layer.handle(copy(k=1), now=122))
    assert delivers(layer.handle(copy(k=3), now=363))
    assert not delivers(layer.handle(copy(k=3), now=363)), "once is enough"


def test_copy_exactly_at_its_deadline_is_in_time() -> None:
    layer = TimedDiffusion(1, (2,), TENTHS)
    assert delivers(layer.handle(copy(k=1), now=121))


def withheld(layer: str) -> Run:
    """The only link that a faulty sender uses holds the message for five times the bound."""
    return simulate(
        spec_of((layer,), BY_NAME["sync-omission"]),
        topology=Topology.regular(1, 4),
        inputs=[Submit(0, 0, ALL)],
        faults=[SendOmission(0, 0, to=frozenset({2, 3}))],
        delay=Scripted(Constant(1000), (Rule(15_000, src=0, dst=1),)),
    )


def test_scenario_27_withheld_message_is_late_by_diffusion_and_dropped_by_timed_diffusion() -> None:
    late = withheld("diffusion")
    assert set(late.report("agreement", "real-time").violated) == {"real-time"}
    dropped = withheld("timed-diffusion")
    dropped.check()
    assert {e.proc for e in dropped.trace if e.kind == "deliver"} == {0}


def test_local_bound_holds_under_the_worst_skew() -> None:
    """Theorem 12, with all clocks at the ends of ε; the sender's is ahead or behind."""
    from shmcast.multicast.sim.clock import Clock

    for sign in (1, -1):
        outcome = simulate(
            spec_of(("timed-diffusion",), BY_NAME["sync-skewed"]),
            topology=Topology.regular(1, 4),
            inputs=[Submit(1000 * i, 0, ALL) for i in range(5)],
            clocks={p: Clock(sign * (150 if p == 0 else -150)) for p in range(4)},
            delay=Constant(1000),
        )
        outcome.check()
        assert not check(outcome.trace, ["local-time"], bound=1300)["local-time"].violated
