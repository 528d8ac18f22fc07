"""FIFO, local, causal and total order, on the scenarios of paper 004 (numbers as in its digest)."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from shmcast.multicast.checks.graph import find_cycle
from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.table import CAUSAL_ATOMIC, check, uniform
from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.checks.written import Written

ALL = ((0, 1, 2),)


def outcome(trace: Trace, name: str) -> str:
    return check(trace, [name])[name].outcome.value


def test_overtaking_breaks_fifo() -> None:
    """Scenario 8: m1 overtaken by m2."""
    t = Written(ALL).multicast(0, "m1").multicast(0, "m2").deliver(1, "m2", "m1").trace()
    assert outcome(t, "fifo") == "violated"


def test_gap_breaks_fifo_although_the_rest_is_in_order() -> None:
    """Scenario 9: q delivers m1, m3 over R."""
    t = Written(ALL).multicast(0, "m1").multicast(0, "m2").multicast(0, "m3")
    assert outcome(t.deliver(1, "m1", "m3").trace(), "fifo") == "violated"


def test_fifo_of_a_faulty_process_is_uniform_only() -> None:
    t = Written(ALL).multicast(0, "m1").multicast(0, "m2").deliver(1, "m2").crash(1).trace()
    assert outcome(t, "fifo") == "passed"
    assert outcome(t, "uniform-fifo") == "violated"


def test_later_life_may_begin_in_the_middle_of_a_line_but_not_skip_in_it() -> None:
    t = Written(ALL).multicast(0, "m1").multicast(0, "m2").multicast(0, "m3").multicast(0, "m4")
    t.crash(1).restart(1).deliver(1, "m2")
    assert outcome(t.trace(), "uniform-fifo") == "passed"
    assert outcome(t.deliver(1, "m4").trace(), "uniform-fifo") == "violated"


def test_local_fifo_looks_at_each_group_alone() -> None:
    groups = ((0, 1), (1, 2))
    t = Written(groups, clients=(3,)).multicast(3, "a", dest=(0,)).multicast(3, "b", dest=(1,))
    t.deliver(1, "b", "a")
    assert outcome(t.trace(), "local-fifo") == "passed"
    assert outcome(t.trace(), "global-fifo") == "violated"


def test_reply_before_the_post_breaks_local_and_causal_order() -> None:
    """Scenario 11: A posts, B replies, C gets the reply first."""
    t = Written(ALL).multicast(0, "post").deliver(1, "post").multicast(1, "reply")
    t.deliver(2, "reply", "post")
    for name in ("local-order", "causal"):
        assert outcome(t.trace(), name) == "violated"
    assert outcome(t.trace(), "fifo") == "passed"


def test_post_that_only_a_faulty_process_saw_breaks_causal_order() -> None:
    """Scenario 12: A's post delivered only by faulty B, who replies."""
    t = Written(ALL).multicast(0, "post").crash(0).deliver(1, "post").multicast(1, "reply")
    t.crash(1).deliver(2, "reply")
    assert outcome(t.trace(), "causal") == "violated"


def test_concurrent_messages_in_any_order_are_causal_but_not_total() -> None:
    """Scenario 16: "+20" and "×1.10" on 100, concurrent."""
    t = Written(ALL).multicast(0, "+20").multicast(1, "x1.10")
    t.deliver(0, "+20", "x1.10").deliver(1, "x1.10", "+20")
    assert outcome(t.trace(), "causal") == "passed"
    assert outcome(t.trace(), "total") == "violated"


def test_faulty_skipper_breaks_no_total_order_until_it_reorders() -> None:
    """Scenario 14: r: y, x, z; correct: x, y, z."""
    t = Written(ALL).multicast(0, "x").multicast(1, "y").multicast(0, "z")
    t.deliver(0, "x", "y", "z").deliver(1, "x", "y", "z").deliver(2, "y", "x", "z").fault(2)
    assert outcome(t.trace(), "total") == "passed"
    assert outcome(t.trace(), "uniform-total") == "violated"


def test_uniform_total_lets_a_faulty_process_skip_and_ordering_does_not() -> None:
    t = Written(ALL).multicast(0, "x").multicast(1, "y")
    t.deliver(0, "x", "y").deliver(1, "x", "y").deliver(2, "y").crash(2)
    assert outcome(t.trace(), "uniform-total") == "passed"
    assert outcome(t.trace(), "ordering") == "violated"


def test_crashed_prefix_keeps_ordering() -> None:
    t = Written(ALL).multicast(0, "x").multicast(1, "y")
    t.deliver(0, "x", "y").deliver(1, "x", "y").deliver(2, "x").crash(2)
    assert outcome(t.trace(), "ordering") == "passed"


def test_global_causal_spans_groups_and_local_causal_does_not() -> None:
    """Scenario 24: p sends m to {p,q}, then m″ to {p,q,r}; r replies; q delivers m″, m′, m."""
    groups = ((0, 1), (0, 1, 2))
    t = Written(groups).multicast(0, "m", dest=(0,)).multicast(0, "m2", dest=(1,))
    t.deliver(2, "m2").multicast(2, "m1", dest=(1,)).deliver(1, "m2", "m1", "m")
    assert outcome(t.trace(), "local-causal") == "passed"
    assert outcome(t.trace(), "global-causal") == "violated"


def test_global_causal_needs_the_transitive_closure() -> None:
    """Scenario 25: m to {p,q}; m″ to {p,r}; r then sends m′ to {p,q}; q delivers m′, m."""
    groups = ((0, 1), (0, 2))
    t = Written(groups).multicast(0, "m", dest=(0,)).multicast(0, "m2", dest=(1,))
    t.deliver(2, "m2").multicast(2, "m1", dest=(0,)).deliver(1, "m1", "m")
    assert outcome(t.trace(), "global-causal") == "violated"
    assert outcome(t.trace(), "local-order") == "passed"
    assert outcome(t.trace(), "global-fifo") == "passed"
    assert outcome(t.trace(), "local-causal") == "passed"


def test_pairwise_sees_what_local_total_misses() -> None:
    """Scenario 28: groups {p,q,r}, {p,q,r′}; p and q disagree on m and m′."""
    t = Written(((0, 1, 2), (0, 1, 3))).multicast(0, "m", dest=(0,)).multicast(1, "n", dest=(1,))
    t.deliver(0, "m", "n").deliver(1, "n", "m")
    assert outcome(t.trace(), "local-total") == "passed"
    assert outcome(t.trace(), "pairwise-total") == "violated"


def test_global_total_sees_the_cycle_that_pairwise_misses() -> None:
    """Scenario 29: p: m3, m1; q: m1, m2; r: m2, m3."""
    groups = ((0, 1), (1, 2), (2, 0))
    t = Written(groups).multicast(0, "m1", (0,)).multicast(1, "m2", (1,)).multicast(2, "m3", (2,))
    t.deliver(0, "m3", "m1").deliver(1, "m1", "m2").deliver(2, "m2", "m3")
    assert outcome(t.trace(), "pairwise-total") == "passed"
    verdict = check(t.trace(), ["global-total"])["global-total"]
    assert verdict.violated
    assert verdict.reason.count("→") == 3


def test_crashed_sequencer_breaks_uniform_total_only() -> None:
    """Scenario 32: the sequencer delivers m, m′, crashes; its successor orders m′, m."""
    t = Written(ALL).multicast(1, "m").multicast(2, "n").deliver(0, "m", "n").crash(0)
    t.deliver(1, "n", "m").deliver(2, "n", "m")
    assert outcome(t.trace(), "total") == "passed"
    assert outcome(t.trace(), "uniform-total") == "violated"


def test_timestamps_must_be_equal_unique_and_growing() -> None:
    def delivered(*shown: tuple[int, str, tuple[int, int]]) -> str:
        t = Written(ALL).multicast(0, "a").multicast(1, "b")
        for proc, message, ts in shown:
            t.deliver(proc, message, ts=ts)
        return outcome(t.trace(), "timestamp-order")

    assert delivered((0, "a", (1, 0)), (0, "b", (2, 0)), (1, "a", (1, 0))) == "passed"
    assert delivered((0, "a", (1, 0)), (1, "a", (2, 0))) == "violated"
    assert delivered((0, "a", (1, 0)), (1, "b", (1, 0))) == "violated"
    assert delivered((0, "a", (2, 0)), (0, "b", (1, 0))) == "violated"


def test_uniform_widens_every_row_but_validity() -> None:
    assert uniform(CAUSAL_ATOMIC) == (
        "validity",
        "uniform-agreement",
        "uniform-integrity",
        "uniform-causal",
        "uniform-total",
    )


@st.composite
def broadcasts(draw: st.DrawFn) -> Trace:
    """Random runs of three processes over unordered reliable links."""
    t = Written(ALL)
    waiting: list[list[str]] = [[], [], []]
    for step in range(draw(st.integers(1, 12))):
        proc = draw(st.integers(0, 2))
        delivers = draw(st.booleans())
        if delivers and waiting[proc]:
            index = draw(st.integers(0, len(waiting[proc]) - 1))
            t.deliver(proc, waiting[proc].pop(index))
        else:
            t.multicast(proc, f"m{step}")
            for queue in waiting:
                queue.append(f"m{step}")
    return t.trace(closed=False)


@given(broadcasts())
@settings(max_examples=200, deadline=None)
def test_causal_order_of_broadcasts_is_fifo_plus_local_order(trace: Trace) -> None:
    """Paper 004 Thm 1/2."""
    verdicts = check(trace, ["causal", "fifo", "local-order"])
    both = not verdicts["fifo"].violated and not verdicts["local-order"].violated
    assert (not verdicts["causal"].violated) == both


@given(broadcasts())
@settings(max_examples=200, deadline=None)
def test_total_order_agrees_with_its_definition(trace: Trace) -> None:
    history = History(trace)
    disagree = any(
        a in q and b in q and (p[a] < p[b]) != (q[a] < q[b])
        for p in history.position.values()
        for q in history.position.values()
        for a, b in permutations(p, 2)
    )
    assert (outcome(trace, "total") == "violated") == disagree


def test_long_chain_has_no_cycle_and_needs_no_recursion() -> None:
    chain = {i: [i + 1] for i in range(50_000)}
    assert find_cycle(chain) is None
    chain[50_000] = [0]
    found = find_cycle(chain)
    assert found is not None and len(found) == 50_001
