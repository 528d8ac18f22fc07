"""docs/protocols.md lists every scenario of the requirements and every deviation from a paper;
here it is held against the tests and the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "protocols.md").read_text()
MARK = re.compile(r"\bDEVIATION[:.] ")  # not where a file's head explains the word

Row = tuple[str, ...]


def table(heading: str) -> list[Row]:
    """The rows of the table below a heading, without its head."""
    _, found, rest = PAGE.partition(f"## {heading}\n")
    assert found, f"docs/protocols.md has no section {heading!r}"
    section = rest.split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def known_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
    return found


def by_scenario(paper: str) -> dict[int, list[str]]:
    """Names like test_scenario_13_… in the files about one paper."""
    files = {
        "003": ["paper/test_paper_003_*.py", "unit/multicast/test_dab_*.py"],
        "004": ["paper/test_paper_004_*.py"],
    }
    found: dict[int, list[str]] = {}
    for pattern in files[paper]:
        for path in (ROOT / "tests").glob(pattern):
            for name, numbers in re.findall(
                r"^def (test_scenarios?_((?:\d+_)+)\w+)", path.read_text(), re.MULTILINE
            ):
                for number in numbers.strip("_").split("_"):
                    found.setdefault(int(number), []).append(name)
    return found


@pytest.mark.parametrize(("paper", "scenarios"), [("003", 34), ("004", 36)])
def test_every_scenario_is_listed_and_is_a_test_that_names_its_number(
    paper: str, scenarios: int
) -> None:
    listed = {int(row[0]): row[1] for row in table(f"Scenarios of paper {paper}")}
    assert sorted(listed) == list(range(1, scenarios + 1))
    tested = by_scenario(paper)
    assert sorted(tested) == sorted(listed)
    assert all(listed.values()), "each says what it is about"


def owner(tree: ast.Module, line: int) -> str:
    """The innermost function or class around a line; else the name bound just above it."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if around:
        return max(around, key=lambda node: node.lineno).name
    return "(file)"


def deviations() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for path in sorted((ROOT / "multicast").rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        for number, line in enumerate(text.splitlines(), 1):
            if MARK.search(line) and not line.startswith("DEVIATION. Invariant"):
                found.add((path.name, owner(tree, number)))
    return found


def test_every_deviation_in_the_code_has_its_row_and_its_test() -> None:
    rows = table("Deviations, one by one")
    listed = {(row[1].strip("`"), row[2].strip("`")) for row in rows}
    assert deviations() - listed == set(), "marked in the code, not listed"
    assert listed - deviations() == set(), "listed, but no longer marked in the code"
    known = known_tests()
    for row in rows:
        assert row[0], "the paper's figure or line"
        named = re.findall(r"test_\w+", row[3])
        assert named and set(named) <= known, f"{row[1:3]}: no such test in {named}"


def test_a_missing_row_would_be_noticed() -> None:
    source = 'def f() -> None:\n    """DEVIATION: less is more."""\n'
    assert owner(ast.parse(source), 2) == "f"
    assert MARK.search(source)
