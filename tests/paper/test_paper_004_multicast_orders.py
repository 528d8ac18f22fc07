"""Paper 004 §9, orders of multicasts: scenarios 24, 25 and 28-30 of broadcast-stack.md."""

from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.written import Written

P, Q, R, S = range(4)


def violated(trace: Written, *names: str) -> set[str]:
    return {name for name, v in check(trace.trace(), names).items() if v.violated}


def test_scenario_24_global_causal_order_spans_groups() -> None:
    """m to {p, q}, then m″ to {p, q, r}; r answers m″ with m′; q delivers m″, m′, m."""
    t = Written(((P, Q), (P, Q, R)))
    t.multicast(P, "m", (0,)).multicast(P, "m″", (1,)).deliver(R, "m″").multicast(R, "m′", (1,))
    t.deliver(P, "m", "m″", "m′").deliver(R, "m′").deliver(Q, "m″", "m′", "m")
    assert violated(t, "local-causal", "global-causal") == {"global-causal"}


def test_scenario_25_linking_message_may_go_to_a_group_that_q_is_not_in() -> None:
    """m to {p, q}; m″ to {p, r}; r then sends m′ to {p, q}: one step of order sees nothing."""
    t = Written(((P, Q), (P, R)))
    t.multicast(P, "m", (0,)).multicast(P, "m″", (1,)).deliver(R, "m″").multicast(R, "m′", (0,))
    t.deliver(P, "m", "m″", "m′").deliver(Q, "m′", "m")
    found = violated(t, "global-fifo", "local-order", "local-causal", "global-causal")
    assert found == {"global-causal"}


def test_scenario_28_local_total_order_allows_disagreement_across_groups() -> None:
    t = Written(((P, Q, R), (P, Q, S)))
    t.multicast(R, "m", (0,)).multicast(S, "m′", (1,))
    t.deliver(P, "m", "m′").deliver(Q, "m′", "m").deliver(R, "m").deliver(S, "m′")
    assert violated(t, "local-total", "pairwise-total") == {"pairwise-total"}


def test_scenario_29_pairwise_total_order_allows_a_cycle() -> None:
    t = Written(((P, Q), (Q, R), (R, P)))
    t.multicast(P, "m1", (0,)).multicast(Q, "m2", (1,)).multicast(R, "m3", (2,))
    t.deliver(P, "m3", "m1").deliver(Q, "m1", "m2").deliver(R, "m2", "m3")
    assert violated(t, "pairwise-total", "global-total") == {"global-total"}
    verdict = check(t.trace(), ["global-total"])["global-total"]
    assert all(m in verdict.reason for m in ("m0.1", "m1.1", "m2.1")), "the cycle is reported"


def test_scenario_30_group_without_a_correct_member_asks_nothing_of_the_sender() -> None:
    t = Written(((P, Q), (R,)), clients=(S,)).fault(P).fault(Q).multicast(S, "m", (0,))
    assert violated(t, "multicast-validity") == set()
    t.multicast(S, "n", (1,))
    assert violated(t, "multicast-validity") == {"multicast-validity"}
