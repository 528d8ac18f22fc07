"""What was recorded under fire, judged by the checkers of the simulator: in memory and in Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.chaos import Chaos
from shmcast.multicast.checks.verdict import Outcome
from shmcast.multicast.traces.judge import check_record
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.schema import parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")
from shmcast.pipeline.verify import verify

# In memory the run is asked for all that it promises; in Spark a property costs seconds.
PROPERTIES = {"run": ("timestamp-order",), "broken": ("timestamp-order",)}


@pytest.mark.timeout(400)
def test_a_run_with_kills_is_judged_alike_in_memory_and_in_spark(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    run, broken = tmp_path / "run", tmp_path / "broken"
    with Chaos(tmp_path, name, "wbcast", clients=2, seed=5, recorded=True) as chaos:
        chaos.kill("g1.a")
        chaos.kill("g2.b")
        going_on = read_record(run)
        assert any(event.kind == "deliver" for event in going_on.trace.events)
        found = chaos.finish()
    assert found == [], chaos.events
    shutil.copytree(run, broken)
    _exchange(broken)
    in_memory = [
        {
            name: verdict.outcome.value
            for name, verdict in check_record(read_record(tmp_path / one), asked).items()
        }
        for one, asked in PROPERTIES.items()
    ]
    in_spark = [
        {
            name: verdict.outcome.value
            for name, verdict in verify(spark, tmp_path / one, asked).verdicts.items()
        }
        for one, asked in PROPERTIES.items()
    ]
    assert in_spark == in_memory
    assert Outcome.VIOLATED.value not in in_memory[0].values()
    assert in_memory[1]["timestamp-order"] == Outcome.VIOLATED.value


def _exchange(run: Path) -> None:
    """Two deliveries of one life change places; their timestamps stay where they are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part in parts(run):
        table = pq.read_table(part.path)
        rows = table.to_pylist()
        delivered = [row for row in rows if row["kind"] == "deliver"]
        if len(delivered) > 1:
            one, other = delivered[-2:]
            for column in ("msg_sender", "msg_seq", "dest"):
                one[column], other[column] = other[column], one[column]
            pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), part.path)
            return
    raise AssertionError("nobody delivered two messages")
