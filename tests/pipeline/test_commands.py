"""Commands that start Spark, on the session of the tests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

import numpy as np

from shmcast.cli.demo.logs import DELIVERY, Log, What
from shmcast.cli.demo.record import Attempt, Receiver, Sender, Story
from shmcast.cli.demo.verification import SPARK, verify
from shmcast.cli.main import app
from shmcast.multicast.traces.generate import generate
from support.spark_runs import for_small_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)
MS = 1_000_000


@pytest.fixture
def lent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever starts Spark gets the session of the tests."""
    monkeypatch.setattr(
        "shmcast.pipeline.session.spark_session",
        lambda *args, **more: contextlib.nullcontext(spark),
    )
    with for_small_tables(spark):
        yield


@pytest.mark.usefixtures("lent")
def test_verify_in_spark_passes_a_correct_run(tmp_path: Path) -> None:
    generate(tmp_path, messages=40)
    asked = ("uniform-integrity", "timestamp-order")
    words = [word for name in asked for word in ("--property", name)]
    done = CliRunner().invoke(app, ["verify", str(tmp_path), "--engine", "spark", "--json", *words])
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["engine"] == "spark"
    assert {name: one["verdict"] for name, one in answer["properties"].items()} == dict.fromkeys(
        asked, "passed"
    )


@pytest.mark.usefixtures("lent")
def test_a_report_from_spark_is_the_one_from_memory(tmp_path: Path) -> None:
    """To the letter: of so short a run the sample that it draws is all that is shown."""
    info = generate(tmp_path, messages=60)
    (tmp_path / "run.json").unlink()
    replace(info, promises=("timestamp-order",)).write(tmp_path)
    pages = {}
    for engine in ("memory", "spark"):
        page = tmp_path / f"{engine}.html"
        words = ["report", str(tmp_path), "--engine", engine, "--out", str(page)]
        done = CliRunner().invoke(app, words)
        assert (done.exit_code, done.stdout.split(":")[0]) == (0, "passed"), done.stderr
        pages[engine] = page.read_text().replace("checked in spark", "checked in memory")
    assert pages["spark"] == pages["memory"]


def a_story(folder: Path) -> Story:
    """One sender of 0, 1, 2 to two receivers."""
    attempts = [Attempt(n, 1, n * MS, What.ACKNOWLEDGED, 10 * n + 1, n * MS + 10) for n in range(3)]
    receivers = []
    rows = [(10 * n + 1, 0, (n + 1) * MS * 10, 100, n) for n in range(3)]
    for p in range(2):
        np.array(rows, DELIVERY).tofile(folder / str(p))
        log = Log(folder / str(p), DELIVERY)
        receivers.append(Receiver(f"box.{p}", p, 0, "box", 0, 1, 0, (0, 0), log))
    sender = Sender("sender.1", 100, 1, 0, attempts)
    promises = ("multicast-validity", "uniform-agreement", "timestamp-order")
    return Story("test", "eager", promises, None, receivers, [sender], [])


@pytest.mark.usefixtures("lent")
def test_the_demo_is_verified_in_spark_as_well(tmp_path: Path) -> None:
    found = verify([a_story(tmp_path)], tmp_path, lambda *step: None)
    assert found.notes == []
    assert SPARK in found.engines
    assert found.problems == []
    assert found.words() == "3 properties verified in memory, and all of them in Spark"


@pytest.mark.usefixtures("lent")
def test_spark_convicts_what_the_demo_wrote_down_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where memory looks away."""
    story = a_story(tmp_path)
    rows = np.fromfile(tmp_path / "1", DELIVERY)
    rows[[0, 1]] = rows[[1, 0]]
    rows.tofile(tmp_path / "1")
    monkeypatch.setattr("shmcast.cli.demo.verification.check", lambda *_: {})
    found = verify([story], tmp_path, lambda *step: None)
    assert any("timestamp-order violated in Spark" in problem for problem in found.problems)
