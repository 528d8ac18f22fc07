"""The benchmarks work: every question gets an answer of the right shape, and nothing is lost.

How fast anything is, is not asked here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = ["roundtrip", "throughput", "multicast", "frames", "scaling", "idle", "counters"]
OURS = ["--peers", "shmcast", "Pipe"]  # one other peer, from the standard library


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "bench.run", "--tiny", "--only", *QUESTIONS, *OURS]
    done = subprocess.run(
        [*command, "--out", out], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def results(written: Path) -> dict[str, Any]:
    [path] = written.glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_no_case_fails(results: dict[str, Any]) -> None:
    assert [row["error"] for row in results["rows"] if row["error"]] == []


def test_every_message_arrives(results: dict[str, Any]) -> None:
    for row in results["rows"]:
        assert row["arrived"] == row["sent"], row


@pytest.mark.parametrize(
    "question",
    [
        "round trip",
        "stream 64 B",
        "fan-out 1 to 3",
        "1 to 3 groups",
        "fan-in 3 to 1",
        "stream 4 KiB",
        "frames 1 MiB",
        "copies",
        "connected processes",
        "idle",
        "counters",
    ],
)
def test_each_question_has_a_row_with_median_and_spread(
    results: dict[str, Any], question: str
) -> None:
    rows = [row for row in results["rows"] if row["question"] == question]
    assert rows
    for row in rows:
        assert row["least"] <= row["median"] <= row["most"]
        assert row["unit"]


def test_raw_samples_and_the_page_are_kept(written: Path, results: dict[str, Any]) -> None:
    import numpy as np

    [samples], [page] = written.glob("*.npz"), written.glob("*.md")
    with np.load(samples) as raw:
        assert set(raw) == {run["samples"] for run in results["runs"] if "samples" in run}
    assert "## Targets" in page.read_text()


def test_every_question_of_several_peers_is_drawn(
    results: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.plots import draw

    assert draw(results["rows"], tmp_path / "plot") == [".svg"]
    drawn = (tmp_path / "plot.svg").read_text()
    for question in ("round trip", "stream 64 B", "1 to 3 groups"):
        assert f">{question}: " in drawn


def test_the_command_line_asks_the_same_questions_and_names_missing_peers() -> None:
    command = [sys.executable, "-m", "shmcast.cli", "bench", "multicast", "--quick", "--json"]
    done = subprocess.run(
        [*command, "--peer", "Pipe"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert {row["question"] for row in content["rows"]} == {"fan-out 1 to 3", "1 to 3 groups"}
    for row in content["rows"]:
        assert row["error"] is None and row["arrived"] == row["sent"]
    assert all(f"not measured: {name}" in done.stderr for name in content["missing"])
