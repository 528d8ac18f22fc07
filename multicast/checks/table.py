"""Every property under one name, and the types of broadcast that are made of them.

Names are written as in the papers: "uniform-" widens the delivering process from the correct
ones to all. Time bounds need a number and are called directly, from timeliness.py; so are the
properties of agreement problems, from agreements.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from shmcast.multicast.checks import causal, fifo, genuine, optimistic, reliable, total
from shmcast.multicast.checks.history import History
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
}

PROPERTIES: dict[str, Property] = {
    "validity": reliable.validity,
    "multicast-validity": reliable.multicast_validity,
    "termination": reliable.termination,
    "ordering": total.ordering,
    "timestamp-order": total.timestamp_order,
    "genuineness": genuine.genuineness,
    **optimistic.PROPERTIES,
    **{name: partial(check, uniform=False) for name, check in _WITH_UNIFORM_VERSION.items()},
    **{
        f"uniform-{name}": partial(check, uniform=True)
        for name, check in _WITH_UNIFORM_VERSION.items()
    },
}

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
    trace: Trace, names: Iterable[str], layer: str = "", multicast_layer: str | None = None
) -> dict[str, Verdict]:
    """The verdict on each named property of one layer."""
    history = History(trace, layer, multicast_layer)
    return {name: PROPERTIES[name](history) for name in names}
