"""`shmcast verify` on small runs, in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shmcast.cli.main import app
from shmcast.multicast.traces.generate import generate
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.schema import parts


def verify(*args: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["verify", *map(str, args)])
    return done.exit_code, done.stdout, done.stderr


def test_a_correct_run_passes_and_the_engine_is_named(tmp_path: Path) -> None:
    generate(tmp_path, messages=40)
    code, out, _ = verify(tmp_path)
    assert code == 0
    assert "checked in memory" in out
    assert "violated" not in out


def test_a_violation_is_exit_code_1_with_rows_and_words(tmp_path: Path) -> None:
    generate(tmp_path, messages=150, break_="total")
    code, out, _ = verify(tmp_path, "--json")
    assert code == 1
    answer = json.loads(out)
    found = answer["properties"]["uniform-pairwise-total"]
    assert found["verdict"] == "violated"
    assert "the other way round" in found["reason"]
    assert {row["kind"] for row in found["counterexamples"]} == {"deliver"}
    assert answer["properties"]["uniform-fifo"]["verdict"] == "passed"


def test_a_damaged_file_is_named_and_nothing_passes(tmp_path: Path) -> None:
    generate(tmp_path, messages=40)
    parts(tmp_path)[0].path.write_bytes(b"PAR1 but no more")
    code, out, err = verify(tmp_path)
    assert code == 0
    assert "passed" not in out
    assert "part-00000.parquet is damaged" in err


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (lambda run: None, 3, "no recorded run"),
        (lambda run: RunInfo("r", "eager", ((0,),)).write(run), 3, "no rows"),
        (lambda run: (run / "run.json").write_text("{"), 5, "restore"),
    ],
    ids=["no run", "empty run", "damaged description"],
)
def test_bad_input_is_one_sentence(tmp_path: Path, spoil: object, code: int, says: str) -> None:
    assert callable(spoil)
    spoil(tmp_path)
    got, _, err = verify(tmp_path)
    assert got == code
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_an_unknown_property_is_a_usage_error(tmp_path: Path) -> None:
    generate(tmp_path, messages=5)
    code, _, err = verify(tmp_path, "--property", "speed")
    assert code == 2
    assert "no property 'speed'" in err


@pytest.mark.parametrize(
    ("master", "code", "says"),
    [
        ("spark://127.0.0.1:1", 3, "no Spark master answers at spark://127.0.0.1:1"),
        ("spark://nowhere", 2, "no Spark master is called 'spark://nowhere'"),
    ],
)
def test_a_master_that_is_not_there_is_one_sentence(
    tmp_path: Path, master: str, code: int, says: str
) -> None:
    pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")
    generate(tmp_path, messages=5)
    got, _, err = verify(tmp_path, "--engine", "spark", "--master", master)
    assert got == code
    assert says in err
    assert len(err.strip().splitlines()) == 1
