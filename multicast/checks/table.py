"""Every property under one name, and the types of broadcast that are made of them.

Names are written as in the papers: "uniform-" widens the delivering process from the correct
ones to all. Properties of agreement problems range over all instances on record. Time bounds need
a number, which `check` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from shmcast.multicast.checks import (
    agreements,
    causal,
    dynamic,
    fifo,
    genuine,
    optimistic,
    rejoin,
    reliable,
    timeliness,
    total,
)
from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.settle import lacks_of, settled
from shmcast.multicast.checks.trace import Trace
from shmcast.multicast.checks.verdict import Verdict

Property = Callable[[History], Verdict]

_WITH_UNIFORM_VERSION: dict[str, Callable[..., Verdict]] = {
    "agreement": reliable.agreement,
    "integrity": reliable.integrity,
    "fifo": fifo.global_fifo,
    "local-order": causal.local_order,
    "causal": causal.global_causal,
    "total": total.pairwise_total,
    "global-fifo": fifo.global_fifo,
    "local-fifo": fifo.local_fifo,
    "global-causal": causal.global_causal,
    "local-causal": causal.local_causal,
    "local-total": total.local_total,
    "pairwise-total": total.pairwise_total,
    "global-total": total.global_total,
    "consensus-agreement": agreements.every_consensus_agreement,
    "consensus-integrity": agreements.every_consensus_integrity,
    "trb-agreement": agreements.every_trb_agreement,
    "trb-integrity": agreements.every_trb_integrity,
}

TIMED: dict[str, Callable[..., Verdict]] = {
    "real-time": partial(timeliness.real_time, uniform=False),
    "uniform-real-time": partial(timeliness.real_time, uniform=True),
    "local-time": partial(timeliness.local_time, uniform=False),
    "uniform-local-time": partial(timeliness.local_time, uniform=True),
}
"""These take Δ as well."""

PROPERTIES: dict[str, Property] = {
    "validity": reliable.validity,
    "multicast-validity": reliable.multicast_validity,
    "termination": reliable.termination,
    "ordering": total.ordering,
    "timestamp-order": total.timestamp_order,
    "genuineness": genuine.genuineness,
    "consensus-termination": agreements.every_consensus_termination,
    "trb-termination": agreements.every_trb_termination,
    "trb-validity": agreements.every_trb_validity,
    "contiguous-slices": dynamic.contiguous_slices,
    "incarnation-order": dynamic.incarnation_order,
    "sender-order": dynamic.sender_order,
    "join-liveness": dynamic.join_liveness,
    "leave-liveness": dynamic.leave_liveness,
    "member-delivery": dynamic.member_delivery,
    "rejoin-contiguity": rejoin.rejoin_contiguity,
    "rejoin-liveness": rejoin.rejoin_liveness,
    **optimistic.PROPERTIES,
    **{name: partial(check, uniform=False) for name, check in _WITH_UNIFORM_VERSION.items()},
    **{
        f"uniform-{name}": partial(check, uniform=True)
        for name, check in _WITH_UNIFORM_VERSION.items()
    },
}

REJOIN = ("rejoin-contiguity", "rejoin-liveness")
RELIABLE = ("validity", "agreement", "integrity")
FIFO = (*RELIABLE, "fifo")
CAUSAL = (*RELIABLE, "causal")
ATOMIC = (*RELIABLE, "total")
FIFO_ATOMIC = (*FIFO, "total")
CAUSAL_ATOMIC = (*CAUSAL, "total")


def uniform(names: Iterable[str]) -> tuple[str, ...]:
    """Every row but validity widened: validity has no uniform version."""
    return tuple(n if f"uniform-{n}" not in PROPERTIES else f"uniform-{n}" for n in names)


def check(
    trace: Trace,
    names: Iterable[str],
    layer: str = "",
    multicast_layer: str | None = None,
    bound: int | None = None,
) -> dict[str, Verdict]:
    """The verdict on each named property of one layer; `bound` is Δ, for the timely ones.

    Checkers convict only of what no row that is missing could excuse; where a missing row could
    convict, `settled` takes a "passed" back."""
    history = History(trace, layer, multicast_layer)
    found = {name: _verdict(history, name, bound) for name in names}
    if not trace.gaps:
        return found
    lacks = lacks_of(history)
    return {name: settled(name, verdict, lacks) for name, verdict in found.items()}


def _verdict(history: History, name: str, bound: int | None) -> Verdict:
    if name not in TIMED:
        return PROPERTIES[name](history)
    assert bound is not None, f"{name} needs a number"
    return TIMED[name](history, lambda dest: bound)
