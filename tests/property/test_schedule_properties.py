"""Admitted task sets against a discrete simulation: no deadline is ever missed; and where the
analysis is exact, what it refuses really misses."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcast.realtime.admission import Supply, admit
from shmcast.realtime.demand import overload
from shmcast.realtime.fixed_priority import response_time, response_times
from shmcast.realtime.simulate import simulate
from shmcast.realtime.table import NoTable, build, violations
from shmcast.realtime.tasks import Task, by_priority, utilisation

PERIODS = (4, 5, 6, 8, 10, 12, 15, 20)


@st.composite
def task_sets(draw: st.DrawFn, most: int = 4, plain: bool = False) -> list[Task]:
    found = []
    for i in range(draw(st.integers(1, most))):
        period = draw(st.sampled_from(PERIODS))
        work = draw(st.integers(1, max(1, period // 2)))
        deadline = draw(st.integers(work, period if plain else 2 * period))
        found.append(
            Task(
                name=f"t{i}",
                period_ns=period,
                work_ns=work,
                deadline_ns=deadline,
                offset_ns=0 if plain else draw(st.integers(0, period)),
                jitter_ns=0 if plain else draw(st.integers(0, 3)),
                locked_ns=0 if plain else draw(st.integers(0, work)),
            )
        )
    return found


def horizon(tasks: Sequence[Task]) -> int:
    return 3 * math.lcm(*(t.period_ns for t in tasks)) + max(t.offset_ns for t in tasks)


def run_randomly(tasks: list[Task], seed: int, background: Sequence[Task] = (), **options):  # type: ignore[no-untyped-def]
    rng = random.Random(seed)
    return simulate(
        tasks,
        horizon_ns=horizon([*tasks, *background]),
        background=background,
        work=lambda task, _: task.work_ns if seed % 2 else rng.randint(1, task.work_ns),
        lateness=lambda task, _: rng.randint(0, task.jitter_ns),
        **options,
    )


@pytest.mark.parametrize("policy", ["fixed", "edf"])
@pytest.mark.parametrize("preemptive", [True, False])
@given(tasks=task_sets(), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=150)
def test_an_admitted_set_never_misses(
    policy: str, preemptive: bool, tasks: list[Task], seed: int
) -> None:
    found = admit(tasks, policy, preemptive=preemptive, advise=False)
    if not found.admitted:
        return
    outcome = run_randomly(tasks, seed, policy=policy, preemptive=preemptive)
    assert sum(outcome.misses.values()) == 0
    for name, response in found.responses_ns.items():
        assert response is not None and outcome.worst_ns[name] <= response


@pytest.mark.parametrize("policy", ["fixed", "edf"])
@given(tasks=task_sets(3), below=task_sets(2), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=100)
def test_an_admitted_set_with_python_tasks_never_misses(
    policy: str, tasks: list[Task], below: list[Task], seed: int
) -> None:
    below = [
        Task(name=f"py{i}", period_ns=4 * t.period_ns, work_ns=t.work_ns, jitter_ns=t.jitter_ns)
        for i, t in enumerate(below)
    ]
    found = admit(tasks, policy, background=below, advise=False)
    if not found.admitted:
        return
    outcome = run_randomly(tasks, seed, below, policy=policy, preemptive=False)
    assert sum(outcome.misses.values()) == 0
    for task in below:
        assert outcome.worst_ns[task.name] <= (found.responses_ns[task.name] or 0)


@given(tasks=task_sets(plain=True))
@settings(deadline=None, max_examples=300)
def test_response_times_are_exact_when_all_start_together(tasks: list[Task]) -> None:
    found = response_times(tasks)
    outcome = simulate(tasks, policy="fixed", horizon_ns=horizon(tasks))
    if utilisation(tasks) > 1:
        return
    for task in tasks:
        response = found[task.name]
        assert response is not None
        if response <= task.deadline_ns:
            assert outcome.worst_ns[task.name] == response
        else:
            assert outcome.misses[task.name] > 0


@given(tasks=task_sets(plain=True))
@settings(deadline=None, max_examples=300)
def test_the_demand_test_is_exact_when_all_start_together(tasks: list[Task]) -> None:
    outcome = simulate(tasks, policy="edf", horizon_ns=horizon(tasks))
    assert (overload(tasks) is None) == (sum(outcome.misses.values()) == 0)


def begun_before(blocker: Task | None, tasks: Sequence[Task]) -> list[Task]:
    """All released together, one tick after the job that is then in the way has begun."""
    return [replace(t, offset_ns=int(blocker is not None and t is not blocker)) for t in tasks]


@given(tasks=task_sets(plain=True))
@settings(deadline=None, max_examples=300)
def test_response_times_without_preemption_are_exact(tasks: list[Task]) -> None:
    """The dispatcher's own mode: what the analysis fears really happens."""
    if utilisation(tasks) > 1:
        return
    found, order = response_times(tasks, preemptive=False), by_priority(tasks)
    for i, task in enumerate(order):
        blocker = max(order[i + 1 :], key=lambda t: t.work_ns, default=None)
        outcome = simulate(
            begun_before(blocker, tasks),
            policy="fixed",
            horizon_ns=horizon(tasks),
            preemptive=False,
        )
        response = found[task.name]
        if response is None:  # full load, and something in the way: it only gets later
            continue
        if response <= task.deadline_ns:
            assert outcome.worst_ns[task.name] == response
        else:
            assert outcome.misses[task.name] > 0


@given(tasks=task_sets(plain=True))
@settings(deadline=None, max_examples=300)
def test_what_edf_without_preemption_refuses_can_really_miss(tasks: list[Task]) -> None:
    over = overload(tasks, preemptive=False)
    if over is None:
        return
    later = [t for t in tasks if t.deadline_ns > over]
    blocker = max(later, key=lambda t: t.work_ns, default=None) if over else None
    outcome = simulate(
        begun_before(blocker, tasks), policy="edf", horizon_ns=horizon(tasks), preemptive=False
    )
    assert sum(outcome.misses.values()) > 0


def test_a_needlessly_pessimistic_analysis_would_be_caught() -> None:
    """A tick of blocking too many: the simulation never gets that late."""
    low = Task(name="low", work_ns=4, period_ns=20)
    high = Task(name="high", work_ns=2, period_ns=10)
    outcome = simulate(
        begun_before(low, [low, high]), policy="fixed", horizon_ns=40, preemptive=False
    )
    assert outcome.worst_ns["high"] == response_time(high, [], 4 - 1) == 5
    assert outcome.worst_ns["high"] < (response_time(high, [], 4) or 0)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(PERIODS)), min_size=1, max_size=5))
def test_edf_accepts_every_load_up_to_one_with_implicit_deadlines(
    values: list[tuple[int, int]],
) -> None:
    tasks = [Task(name=f"t{i}", work_ns=w, period_ns=p) for i, (w, p) in enumerate(values)]
    assert (overload(tasks) is None) == (utilisation(tasks) <= 1)


@given(tasks=task_sets())
@settings(deadline=None)
def test_every_table_is_right(tasks: list[Task]) -> None:
    try:
        table = build(tasks, nodes=500)
    except NoTable:
        return
    assert violations(tasks, table) == []


def test_an_optimistic_analysis_would_be_caught() -> None:
    """Without the blocking of less urgent jobs the analysis admits what the simulation misses."""
    urgent = Task(name="urgent", work_ns=1, period_ns=10, deadline_ns=2, offset_ns=1)
    long = Task(name="long", work_ns=5, period_ns=10)
    assert (response_times([urgent, long], preemptive=True)["urgent"] or 99) <= 2
    outcome = simulate([urgent, long], policy="fixed", horizon_ns=20, preemptive=False)
    assert outcome.misses["urgent"] > 0
    assert not admit([urgent, long], "fixed", preemptive=False).admitted


def test_the_supply_of_a_throttled_dispatcher_is_never_overestimated() -> None:
    """Against the worst pattern: a budget used up at once, then the next one as late as can be."""
    for runtime, period in ((2, 5), (4, 5), (3, 10)):
        supply = Supply(runtime, period)
        gap = 2 * (period - runtime)
        given_by: list[int] = [0]
        for t in range(200):
            inside = t >= gap and (t - gap) % period < runtime
            given_by.append(given_by[-1] + inside)
        for work in range(1, 20):
            task = supply.apply(Task(name="x", work_ns=work, period_ns=1000))
            assert given_by[task.work_ns + supply.late_ns] >= work
