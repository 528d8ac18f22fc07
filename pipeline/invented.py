"""Deliveries that come before their multicast: what rests on itself was made up.

A multicast comes before the deliveries of its message, and a process's rows follow each other.
Where these two say that a row comes before itself, as when p0 delivers m1, then multicasts m0, and
p1 delivers m0, then multicasts m1, some delivery came before its multicast, whatever the clocks
say. Such messages lie in one strongly connected component; which of their deliveries is to blame
is decided as in memory, by traces/order.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from shmcast.multicast.checks.trace import DELIVER, MULTICAST, TraceEvent
from shmcast.multicast.traces.order import in_causal_order
from shmcast.pipeline.causal_checks import causal_steps
from shmcast.pipeline.cycles import components
from shmcast.pipeline.tables import MESSAGE, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOUND = "run string, proc int, inc int, lseq long"


def before_their_multicast(t: Tables) -> DataFrame:
    """run, proc, inc, lseq: of deliveries, those at their own sender left out."""
    sent = t.multicasts.select(*MESSAGE, "mproc", "minc", "mlseq", F.col("run").alias("scope"))
    knots = components(causal_steps(t, sent), t.potential()).select(*MESSAGE, "component")
    made = t.multicasts.select(
        *MESSAGE, F.col("mproc").alias("proc"), F.col("minc").alias("inc"),
        F.col("mlseq").alias("lseq"), F.col("mreal").alias("real_t"),
        F.lit(MULTICAST).alias("kind"),
    )  # fmt: skip
    read = t.deliveries.select(
        *MESSAGE, "proc", "inc", "lseq", "real_t", F.lit(DELIVER).alias("kind")
    )
    rows = made.unionByName(read).join(knots, MESSAGE)
    return rows.groupBy("run", "component").applyInArrow(_blamed, schema=_FOUND)


def _event(row: dict[str, Any]) -> TraceEvent:
    life = (row["proc"], row["inc"], row["lseq"])
    return TraceEvent(-1, row["real_t"], 0, *life, row["kind"], msg=(row["s"], row["n"]))


def _blamed(table: Any) -> Any:
    events = [_event(row) for row in table.to_pylist()]
    unsent, found = {row.msg for row in events if row.kind == MULTICAST}, []
    for row in in_causal_order(events):
        if row.kind == MULTICAST:
            unsent.discard(row.msg)
        elif row.msg in unsent:
            found.append(row)
    return pa.table(
        {
            "run": pa.array([table["run"][0].as_py()] * len(found), pa.string()),
            "proc": pa.array([row.proc for row in found], pa.int32()),
            "inc": pa.array([row.incarnation for row in found], pa.int32()),
            "lseq": pa.array([row.lseq for row in found], pa.int64()),
        }
    )
