"""The simulator's own promises, shown with a protocol that only echoes."""

from dataclasses import dataclass

import pytest

from shmcast.multicast.checks.trace import CRASH, FAULT, RECEIVE, TraceEvent
from shmcast.multicast.protocols.core import (
    CancelTimer,
    Deliver,
    Effect,
    Event,
    MessageId,
    Multicast,
    Nominate,
    Receive,
    Record,
    Request,
    Restart,
    Save,
    Send,
    SetTimer,
    Suspect,
    Timer,
    Trust,
    Wire,
)
from shmcast.multicast.protocols.registry import Spec, World
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim import faults
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import Constant, HeavyTailed, Rule, Scripted, SlowLinks, Uniform
from shmcast.multicast.sim.run import Run, Violation
from shmcast.multicast.sim.workload import Call, Submit

THREE = Topology(groups=((0, 1, 2),))


@dataclass(frozen=True, slots=True)
class Flood(Wire):
    seq: int

    def about(self) -> tuple[MessageId, ...]:
        return (MessageId(0, self.seq),)


class Echo:
    """Sends each multicast to all, notes everything that it hears."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Multicast(m):
                return [Send(Flood(m.id.seq), (0, 1, 2)), Deliver(m), Save(m.id.seq)]
            case Receive(Flood(seq), sender):
                return [Record("heard", detail=f"{seq} from {sender} at {now}")]
            case Request(effect):
                return [effect]  # type: ignore[list-item]
            case Timer() | Suspect() | Trust() | Nominate() | Restart():
                return [Record("heard", detail=f"{event} at {now}")]
        return []


ECHO = Spec(
    name="echo", build=lambda p, topology, options: Echo(p), promises=("uniform-integrity",)
)


def echo(*inputs: Submit | Call, **more: object) -> Run:
    return simulate(ECHO, topology=THREE, inputs=inputs, **more)  # type: ignore[arg-type]


def heard(run: Run, proc: int) -> list[str]:
    return [e.detail for e in run.trace if e.kind == "heard" and e.proc == proc]


def times(run: Run, proc: int) -> list[int]:
    return [e.real_t for e in run.trace if e.kind == RECEIVE and e.proc == proc]


def test_same_seed_gives_the_same_run_to_the_event() -> None:
    runs = [simulate("skeen", messages=50, seed=7, delay=HeavyTailed(500)) for _ in range(2)]
    assert runs[0].trace.events == runs[1].trace.events
    other = simulate("skeen", messages=50, seed=8, delay=HeavyTailed(500))
    assert other.trace.events != runs[0].trace.events


def test_message_to_oneself_takes_no_time() -> None:
    run = echo(Submit(0, 0, (0,)))
    assert times(run, 0) == [0] and times(run, 1) == [1000]


def test_fifo_links_never_reorder_and_others_do() -> None:
    inputs = [Submit(i, 0, (0,)) for i in range(50)]
    order = {
        fifo: [d.split()[0] for d in heard(echo(*inputs, delay=Uniform(1, 500), fifo=fifo), 1)]
        for fifo in (True, False)
    }
    assert order[True] == [str(i + 1) for i in range(50)]
    assert sorted(order[False]) == sorted(order[True]) and order[False] != order[True]


def test_message_without_delay_does_not_overtake_on_a_fifo_link() -> None:
    slow_then_fast = Scripted(Constant(0), (Rule(10, about=(0, 1)),))
    run = echo(Submit(0, 0, (0,)), Submit(10, 0, (0,)), delay=slow_then_fast)
    assert times(run, 1) == [10, 10]
    assert [d.split()[0] for d in heard(run, 1)] == ["1", "2"]


@pytest.mark.parametrize("effects", range(6))
def test_crash_inside_a_step_leaves_a_prefix_of_its_effects(effects: int) -> None:
    run = echo(Submit(5, 0, (0,)), faults=[faults.Crash(0, 1, effects=effects)])
    assert [e.proc for e in run.trace if e.kind == CRASH] == [0]
    reached = [p for p in (1, 2) if any("from 0" in d for d in heard(run, p))]
    assert reached == [1, 2][: max(0, effects - 1)]
    assert sum(e.kind == "deliver" for e in run.trace) == (effects >= 4)


def test_restarted_process_remembers_only_what_it_saved() -> None:
    run = echo(
        Submit(1, 0, (0,)),
        Call(2, 0, SetTimer("lost", 900)),
        faults=[faults.Crash(0, 10), faults.Recover(0, 20)],
    )
    assert heard(run, 0)[1] == "Restart(incarnation=1, saved=1) at 20"
    assert not any("lost" in d for d in heard(run, 0))


def test_timer_fires_when_the_local_clock_shows_its_time() -> None:
    clocks = {0: Clock(offset=-100), 1: Clock(drift_ppm=1000)}
    run = echo(
        Call(0, 0, SetTimer("t", 50)), Call(0, 1, SetTimer("t", 1001)), clocks=clocks, until=9999
    )
    at = {e.proc: (e.real_t, e.local_t) for e in run.trace if e.kind == "heard"}
    assert at == {0: (150, 50), 1: (1000, 1001)}


def test_moved_timer_fires_once_and_cancelled_never() -> None:
    run = echo(
        Call(0, 0, SetTimer("t", 50)),
        Call(1, 0, SetTimer("t", 70)),
        Call(0, 1, SetTimer("t", 50)),
        Call(2, 1, CancelTimer("t")),
    )
    assert heard(run, 0) == ["Timer(name='t') at 70"]
    assert heard(run, 1) == []


def test_clock_jump_moves_armed_timers() -> None:
    run = echo(Call(0, 0, SetTimer("t", 500)), faults=[faults.ClockFault(0, at=100, jump=300)])
    assert [e.real_t for e in run.trace if e.kind == "heard"] == [200]


def test_arrival_comes_before_a_timer_of_the_same_tick() -> None:
    run = echo(Call(0, 1, SetTimer("t", 1000)), Submit(0, 0, (0,)))
    assert heard(run, 1) == ["1 from 0 at 1000", "Timer(name='t') at 1000"]


def test_partition_holds_messages_until_it_heals() -> None:
    cut = faults.Partition(frozenset({1}), at=0, until=5000)
    assert times(echo(Submit(0, 0, (0,)), faults=[cut]), 1) == [6000]


def test_one_way_partition_lets_the_other_way_pass() -> None:
    cut = faults.Partition(frozenset({1}), at=0, until=5000, one_way=True)
    run = echo(Submit(0, 0, (0,)), Submit(0, 1, (0,)), faults=[cut])
    assert times(run, 1) == [0, 1000] and 6000 in times(run, 0)


def test_dropping_partition_loses_messages() -> None:
    cut = faults.Partition(frozenset({1}), at=0, until=5000, drop=True)
    assert times(echo(Submit(0, 0, (0,)), faults=[cut]), 1) == []


def test_links_lose_and_duplicate_as_told() -> None:
    lost = echo(Submit(1, 0, (0,)), faults=[faults.Disturbance(0, 9, loss=1.0, dst=1)])
    assert times(lost, 1) == [] and times(lost, 2) == [1001]
    twice = echo(Submit(1, 0, (0,)), faults=[faults.Disturbance(0, 9, duplication=1.0, dst=1)])
    assert len(times(twice, 1)) == 2


def test_omissions_make_the_process_faulty() -> None:
    send = echo(Submit(1, 0, (0,)), faults=[faults.SendOmission(0, 0, to=frozenset({1}))])
    assert [e.proc for e in send.trace if e.kind == FAULT] == [0] and times(send, 1) == []
    receive = echo(Submit(1, 0, (0,)), faults=[faults.ReceiveOmission(1, 0)])
    assert [e.proc for e in receive.trace if e.kind == FAULT] == [1] and heard(receive, 1) == []


def test_slow_process_takes_its_steps_one_after_the_other() -> None:
    inputs = [Submit(0, 0, (0,)) for _ in range(4)]
    run = echo(*inputs, faults=[faults.Slow(1, at=0, until=99_999, step_ticks=400)])
    assert times(run, 1) == [1000, 1400, 1800, 2200]


def test_process_that_is_slow_no_longer_handles_what_waited_first() -> None:
    """Else a FIFO link would reorder: the second message arrives when the first one waits."""
    inputs = [Submit(i, 0, (0,)) for i in range(3)] + [Submit(1500, 0, (0,))]
    run = echo(*inputs, faults=[faults.Slow(1, at=0, until=2000, step_ticks=2000)])
    assert [line.split()[0] for line in heard(run, 1)] == ["1", "2", "3", "4"]


def test_some_links_may_be_slower_than_the_rest() -> None:
    delay = SlowLinks(Constant(100), frozenset({(0, 2)}), factor=7)
    run = echo(Submit(0, 0, (0,)), delay=delay)
    assert times(run, 1) == [100]
    assert times(run, 2) == [700]


def test_oracle_reports_crash_recovery_and_new_leader() -> None:
    run = echo(detect_ticks=10, faults=[faults.Crash(0, 100), faults.Recover(0, 200)])
    assert heard(run, 1) == [
        "Suspect(process=0) at 110",
        "Nominate(group=0, leader=1) at 110",
        "Trust(process=0) at 210",
    ]
    assert heard(run, 0)[-1] == "Nominate(group=0, leader=1) at 210", "the newcomer is told"


def test_oracle_takes_its_mistakes_back() -> None:
    mistakes = [faults.WrongNomination(0, 2, 5, 50), faults.WrongSuspicion(1, 6, 60)]
    assert heard(echo(faults=mistakes), 0) == [
        "Nominate(group=0, leader=2) at 5",
        "Suspect(process=1) at 6",
        "Nominate(group=0, leader=0) at 50",
        "Trust(process=1) at 60",
    ]


def counted(*inputs: Submit | Call, **more: object) -> dict[str, int]:
    return dict(echo(*inputs, **more).faults)


def test_fault_counts_when_it_acts_not_when_it_is_planned() -> None:
    inert = [
        faults.Partition(frozenset({1}), at=50, until=60),
        faults.Disturbance(50, 60, loss=1.0),
        faults.SendOmission(0, 50),
        faults.ReceiveOmission(1, 5000),
        faults.Slow(2, at=5000, until=6000, step_ticks=10),
        faults.ClockFault(1, at=50, drift_ppm=100, faulty=False),
        faults.WrongNomination(0, 0, 50, 60),
        faults.Recover(2, 70),
    ]
    assert counted(Submit(0, 0, (0,)), faults=inert) == {}
    acting = [
        faults.Partition(frozenset({1}), at=0, until=5),
        faults.Disturbance(0, 5, duplication=1.0),
        faults.SendOmission(0, 0, 5, frozenset({2})),
        faults.ReceiveOmission(1, 0),
        faults.Slow(0, at=0, until=60, step_ticks=10),
        faults.ClockFault(1, at=50, jump=3, faulty=False),
        faults.WrongNomination(0, 1, 50, 60),
        faults.WrongSuspicion(1, 50, 60),
    ]
    twice = (Submit(0, 0, (0,)), Submit(0, 0, (0,)))
    assert counted(*twice, faults=acting) == {type(fault).__name__: 1 for fault in acting}


def test_mistake_about_a_dead_process_is_none() -> None:
    late = [faults.Crash(1, 10), faults.WrongSuspicion(1, 50, 60)]
    assert counted(faults=late) == {"Crash": 1}


def test_run_that_is_cut_short_is_open() -> None:
    assert echo(Submit(0, 0, (0,))).trace.closed
    assert not echo(Submit(0, 0, (0,)), until=500).trace.closed
    assert not echo(Submit(0, 0, (0,)), step_limit=3).trace.closed


def test_perpetual_timers_end_with_the_settling_time() -> None:
    class Ticking(Echo):
        def handle(self, event: Event, now: int) -> list[Effect]:
            return [SetTimer("tick", now + 10)]

    spec = Spec("ticking", lambda p, t, o: Ticking(p), promises=(), settle_ticks=500)
    run = simulate(spec, topology=THREE, inputs=[Submit(1000, 0, (0,))])
    assert run.trace.closed and 1490 <= run.ended_at <= 1500


class Chatter(Echo):
    """Floods p1 for ever, and notes what it hears."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Multicast(m):
                return [Send(Flood(m.id.seq), (2,)), SetTimer("chat", now + 10)]
            case Timer():
                return [Send(Flood(0), (1,)), SetTimer("chat", now + 10)]
        return super().handle(event, now)


CHATTER = Spec("chatter", lambda p, t, o: Chatter(p), promises=(), settle_ticks=500)


def test_run_waits_for_a_message_of_its_load_that_takes_longer_than_the_settling_time() -> None:
    slow = Scripted(Constant(5), (Rule(9000, dst=2),))
    run = simulate(CHATTER, topology=THREE, inputs=[Submit(1000, 0, (0,))], delay=slow)
    assert [e.real_t for e in run.trace if e.kind == "heard" and e.proc == 2] == [10_000]
    assert run.trace.closed and 10_490 <= run.ended_at <= 10_500


def test_perpetual_traffic_over_a_slow_link_does_not_keep_a_run_open() -> None:
    slow = Scripted(Constant(5), (Rule(9000, dst=1),))
    run = simulate(CHATTER, topology=THREE, inputs=[Submit(1000, 0, (0,))], delay=slow)
    assert run.trace.closed and 10_900 <= run.ended_at <= 11_000


def test_broken_invariant_stops_the_run_and_fails_its_check() -> None:
    def never_step_3(world: World) -> None:
        assert world.step is not None
        assert not isinstance(world.step.event, Receive), "received something"

    spec = Spec("picky", ECHO.build, promises=(), invariants=lambda: [never_step_3])
    run = simulate(spec, topology=THREE, inputs=[Submit(0, 0, (0,))])
    with pytest.raises(Violation, match="never_step_3: violated: step 5 of p0: received"):
        run.check()


def test_closed_loop_client_submits_when_its_message_is_delivered() -> None:
    left = [3]

    def again(process: int, message: object, now: int) -> list[Submit | Call]:
        left[0] -= 1
        return [Submit(now + 7, 0, (0,))] if left[0] else []

    run = echo(Submit(0, 0, (0,)), on_deliver=again)
    assert [e.real_t for e in run.trace if e.kind == "multicast"] == [0, 7, 14]


def test_streamed_run_keeps_nothing() -> None:
    seen: list[TraceEvent] = []
    run = echo(Submit(0, 0, (0,)), record=seen.append)
    assert len(run.trace) == 0
    assert {e.kind for e in seen} == {"multicast", "deliver", "heard"}


def test_unknown_protocol_is_named_with_those_that_exist() -> None:
    with pytest.raises(KeyError, match="skeen"):
        simulate("no-such-thing")


def test_what_is_recorded_changes_nothing_of_what_happens() -> None:
    """A run that records no transmissions takes a shorter way through the engine."""
    kinds = {"multicast", "deliver"}
    full, short = (
        simulate("skeen", groups=4, messages=300, seed=3, interval=100, record=how)
        for how in ("full", "application")
    )

    def seen(run: Run) -> list[tuple[object, ...]]:
        return [(e.real_t, e.proc, e.kind, e.msg, e.ts) for e in run.trace if e.kind in kinds]

    assert seen(full) == seen(short)
    assert full.sent == short.sent and full.steps == short.steps


def test_process_that_was_slow_first_does_what_it_has_queued() -> None:
    """The second message arrives after the slow spell, and waits behind the first."""
    run = simulate(
        "causal-by-links",
        groups=1,
        replicas=2,
        clients=0,
        inputs=[Submit(10, 0, (0,)), Submit(20, 0, (0,)), Submit(120, 0, (0,))],
        faults=[faults.Slow(0, at=0, until=100, step_ticks=90)],
    )
    own = [e.msg for e in run.trace if e.kind == "deliver" and e.proc == 0]
    assert own == [(0, 1), (0, 2), (0, 3)]
