"""The table of the README is the stored result, and nothing else."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def readme() -> Any:
    sys.path.insert(0, str(ROOT))
    try:
        from bench import readme as module
    finally:
        sys.path.remove(str(ROOT))
    return module


@pytest.fixture(scope="module")
def content(readme: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(readme.newest().read_text())
    return found


def test_the_readme_shows_what_was_stored(readme: Any, content: dict[str, Any]) -> None:
    text = readme.README.read_text()
    assert readme.replaced(text, readme.section(content)) == text


def test_it_names_machine_date_and_command(readme: Any, content: dict[str, Any]) -> None:
    shown = readme.section(content)
    machine = content["machine"]
    for wanted in (machine["processor"], machine["date"][:10], content["command"]):
        assert wanted in shown


def test_other_figures_make_another_table(readme: Any, content: dict[str, Any]) -> None:
    slower = copy.deepcopy(content)
    for row in slower["rows"]:
        if row["copies"] and row["median"]:
            row["median"] = row["median"] * 2 if row["unit"] == "ns" else row["median"] / 2
    text = readme.README.read_text()
    assert readme.replaced(text, readme.section(slower)) != text


def test_a_question_that_was_not_measured_is_named(readme: Any, content: dict[str, Any]) -> None:
    less = {**content, "rows": [r for r in content["rows"] if r["question"] != "round trip"]}
    shown = readme.section(less)
    assert "| round trip" not in shown
    (named,) = [line for line in shown.splitlines() if line.startswith("Not measured in that run:")]
    assert all(words in named for words in ("round trip, spinning", "round trip, blocking, one"))


def test_every_figure_of_a_stored_result_is_drawn_beside_it(readme: Any) -> None:
    stored = readme.newest()
    drawn = stored.with_suffix(".svg").read_text()
    rows = [r for r in json.loads(stored.read_text())["rows"] if r["median"]]
    questions = {f"{r['question']}: {r['case']}" for r in rows if r["question"] != "counters"}
    several = {q for q in questions if sum(q == f"{r['question']}: {r['case']}" for r in rows) > 1}
    assert several and [q for q in several if f">{q} (" not in drawn] == []
