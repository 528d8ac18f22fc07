"""Every property that Spark decides, under the names of multicast/checks/table.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from shmcast.pipeline import causal_checks, delivery_checks, order_checks
from shmcast.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Check = Callable[[Tables], "DataFrame"]

_BOTH: dict[str, Callable[..., DataFrame]] = {
    "agreement": delivery_checks.agreement,
    "integrity": delivery_checks.integrity,
    "fifo": delivery_checks.fifo,
    "global-fifo": delivery_checks.fifo,
    "local-fifo": partial(delivery_checks.fifo, local=True),
    "local-order": causal_checks.local_order,
    "causal": causal_checks.causal,
    "global-causal": causal_checks.causal,
    "local-causal": partial(causal_checks.causal, local=True),
    "total": order_checks.pairwise_total,
    "pairwise-total": order_checks.pairwise_total,
    "local-total": partial(order_checks.pairwise_total, local=True),
    "global-total": order_checks.global_total,
    "real-time": partial(delivery_checks.timely, clock="real_t"),
    "local-time": partial(delivery_checks.timely, clock="local_t"),
}

PROPERTIES: dict[str, Check] = {
    "validity": delivery_checks.validity,
    "multicast-validity": delivery_checks.multicast_validity,
    "termination": delivery_checks.termination,
    "ordering": order_checks.ordering,
    "timestamp-order": order_checks.timestamp_order,
    "genuineness": delivery_checks.genuineness,
    **{name: partial(check, uniform=False) for name, check in _BOTH.items()},
    **{f"uniform-{name}": partial(check, uniform=True) for name, check in _BOTH.items()},
}
