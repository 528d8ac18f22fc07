"""Recorded runs in Spark: the same verdicts as in memory, rows and words for each violation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shmcast.errors import Corrupt, Incompatible
from shmcast.multicast.traces.flaws import FLAWS
from shmcast.multicast.traces.generate import generate
from shmcast.multicast.traces.judge import check_record
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import parts
from shmcast.multicast.traces.writer import TraceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")
from shmcast.pipeline.session import plain
from shmcast.pipeline.verify import verify

CHEAP = ("uniform-integrity", "uniform-agreement", "timestamp-order", "uniform-fifo")


@pytest.fixture(autouse=True, scope="module")
def uncompiled(spark: SparkSession) -> Iterator[None]:
    """Of small tables, compiling a query takes longer than running it."""
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    spark.conf.unset("spark.sql.codegen.wholeStage")


def test_both_engines_say_the_same_of_a_flaw(spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, messages=150, break_="twice")
    in_memory = check_record(read_record(tmp_path), CHEAP)
    found = verify(spark, tmp_path, CHEAP)
    assert {n: v.outcome for n, v in found.verdicts.items()} == {
        n: v.outcome for n, v in in_memory.items()
    }
    assert {n for n, v in found.verdicts.items() if v.violated} == set(FLAWS["twice"].breaks)
    assert all(found.examples[name] for name in FLAWS["twice"].breaks)
    assert "twice" in found.verdicts["uniform-integrity"].reason


def test_two_orders_are_found_without_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, messages=150, break_="total")
    found = verify(spark, tmp_path, ["uniform-global-total"])
    verdict = found.verdicts["uniform-global-total"]
    assert verdict.violated
    assert "no one order" in verdict.reason


def test_a_hole_is_undetermined_in_both(spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, messages=40)
    parts(tmp_path)[3].path.write_bytes(b"PAR1")
    parts(tmp_path)[1].path.unlink()
    found = verify(spark, tmp_path, ["timestamp-order"])
    assert {v.outcome.value for v in found.verdicts.values()} == {"undetermined"}
    assert found.gaps == read_record(tmp_path).gaps


def test_a_damaged_page_is_a_hole_in_both(spark: SparkSession, tmp_path: Path) -> None:
    """The end of the file is sound, so only reading it tells."""
    generate(tmp_path, messages=40)
    with parts(tmp_path)[2].path.open("r+b") as file:
        file.seek(4)  # after the magic
        file.write(b"\xff" * 64)
    found = verify(spark, tmp_path, ["timestamp-order", "uniform-integrity"])
    assert {v.outcome.value for v in found.verdicts.values()} == {"undetermined"}
    assert found.gaps == read_record(tmp_path).gaps
    assert len(found.files) == len(parts(tmp_path)) - 1


def test_what_only_memory_decides_is_undetermined_and_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    generate(tmp_path, messages=20)
    asked = ["join-liveness", "leave-liveness", "member-delivery", "contiguous-slices"]
    found = verify(spark, tmp_path, asked)
    assert {(v.outcome.value, v.reason) for v in found.verdicts.values()} == {
        ("undetermined", "only the checkers in memory decide this one: --engine memory")
    }


def test_an_empty_run_and_another_version_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    generate(tmp_path, messages=5)
    table = pq.read_table(parts(tmp_path)[0].path)
    versioned = table.replace_schema_metadata({b"shmcast.trace.version": b"9"})
    pq.write_table(versioned, parts(tmp_path)[0].path)
    with pytest.raises(Incompatible, match="version 9"):
        verify(spark, tmp_path)
    for part in parts(tmp_path):
        part.path.unlink()
    with pytest.raises(FileNotFoundError, match="holds no rows"):
        verify(spark, tmp_path)


def test_what_spark_says_becomes_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    generate(tmp_path, messages=40)
    for part in parts(tmp_path):
        data = bytearray(part.path.read_bytes())
        data[4:300] = bytes(296)  # pages gone, end intact
        part.path.write_bytes(data)
    with pytest.raises(Corrupt, match="Spark could not read") as caught:
        verify(spark, tmp_path, ["uniform-integrity"])
    assert "\n" not in str(caught.value)
    assert plain(ValueError("x")) is None


def test_a_clock_that_stepped_leaves_time_bounds_open_in_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    generate(tmp_path, messages=40)
    set_back(parts(tmp_path)[2].path, column="local_t")
    names = ["uniform-real-time", "uniform-local-time", "uniform-integrity"]
    in_memory = check_record(read_record(tmp_path), names)
    found = verify(spark, tmp_path, names)
    outcomes = [*["undetermined"] * 2, "passed"]
    assert [v.outcome.value for v in in_memory.values()] == outcomes
    assert [v.outcome.value for v in found.verdicts.values()] == outcomes
    reason = in_memory["uniform-real-time"].reason
    assert "the clock of p2 runs backwards by" in reason
    assert found.verdicts["uniform-real-time"].reason == reason


def set_back(path: Path, column: str, by_ns: int = 10**9) -> None:
    """From the middle of a part on, a clock is behind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    times = table.column(column).to_numpy().copy()
    times[len(times) // 2 :] -= by_ns
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(times)), path)


def test_a_run_in_progress_is_undetermined_in_both(spark: SparkSession, tmp_path: Path) -> None:
    info = RunInfo("r", "test", ((0, 1),), promises=("uniform-agreement", "uniform-integrity"))
    with TraceWriter(tmp_path, info, 0) as one, TraceWriter(tmp_path, info, 1) as two:
        one.event("multicast", message_id=(0, 1), dest=(0,))
        one.event("deliver", message_id=(0, 1), dest=(0,), ts=(1, 0))
        one.flush()
        two.flush()
        in_memory = check_record(read_record(tmp_path))
        found = verify(spark, tmp_path)
    assert {n: v.outcome for n, v in found.verdicts.items()} == {
        n: v.outcome for n, v in in_memory.items()
    }
    assert {v.outcome.value for v in found.verdicts.values()} == {"undetermined"}
    assert found.gaps.open == {(0, 0), (1, 0)}


def test_rows_in_the_file_of_another_process_are_a_hole_in_both(tmp_path: Path) -> None:
    from shmcast.pipeline.verify import sound_parts

    generate(tmp_path, messages=40)
    first, second = parts(tmp_path)[:2]
    first.path.write_bytes(second.path.read_bytes())
    good, bad = sound_parts(tmp_path)
    assert bad == [first]
    assert len(good) == len(parts(tmp_path)) - 1
    assert list(read_record(tmp_path).gaps.holes) == [0]
