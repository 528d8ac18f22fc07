"""Every block of README.md and docs/ runs as it stands, every link leads somewhere, and every page
is in the navigation. tests/support/pages.py says how blocks are marked."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import shmcast
from support.pages import (
    DOCS,
    PAGES,
    ROOT,
    RUNNABLE,
    Step,
    blocks,
    broken_links,
    missing_lines,
    nav_entries,
    outside_nav,
    slug,
    steps,
)

RUNNER = ROOT / "tests" / "support" / "run_page.py"
PAGE_S = 840  # several sessions of Spark on a busy machine
NAMESPACE = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def namespace() -> list[str]:
    """What to run a page with, so that its names in shared memory are its own."""
    for command in (NAMESPACE, [*NAMESPACE, "--map-root-user"]):
        try:
            tried = "mount -t tmpfs shmcast-docs /dev/shm && ip link set lo up"
            subprocess.run(
                [*command, "sh", "-c", tried], check=True, capture_output=True, timeout=20
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return []


def run_page(page: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    memory = "own" if namespace() else "shared"
    command = [*namespace(), sys.executable, str(RUNNER), str(page), str(directory), memory]
    return subprocess.run(command, capture_output=True, text=True, timeout=PAGE_S, check=False)


WITH_STEPS = [
    page for page in PAGES if any(isinstance(s, Step) for s in steps(blocks(page.read_text())))
]


@pytest.mark.timeout(PAGE_S + 60)
@pytest.mark.parametrize("page", WITH_STEPS, ids=name_of)
def test_the_blocks_of_the_page_run(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr


def test_blocks_that_do_not_run_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    runnable = [b for page in PAGES for b in blocks(page.read_text()) if b.language in RUNNABLE]
    reasons = Counter(block.not_run for block in runnable if block.not_run)
    with capsys.disabled():
        print(f"\ndocs: {len(runnable)} blocks, {reasons.total()} of them not run")
        for reason, count in sorted(reasons.items()):
            print(f"  {count}: {reason}")
    assert reasons.total() < len(runnable) / 4


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language(page: Path) -> None:
    assert [block.text for block in blocks(page.read_text()) if not block.language] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```python\nassert False\n```\n", "assert False"),
        ("```sh\nfalse | true\n```\n", "exit 1"),
        ('```sh\necho one\n```\n```text title="prints"\ntwo\n```\n', "not printed: ['two']"),
        ("```python\nopen('/dev/shm/shmcast-docs-left', 'w')\n```\n", "left behind"),
    ],
)
def test_a_wrong_block_would_be_noticed(text: str, wrong: str, tmp_path: Path) -> None:
    if wrong == "left behind" and not namespace():
        pytest.skip("no namespace of its own is permitted here: nobody can tell whose it is")
    page = tmp_path / "page.md"
    page.write_text(text)
    done = run_page(page, tmp_path)
    assert done.returncode == 1
    assert wrong in done.stderr


def test_blocks_are_read_as_they_are_marked() -> None:
    text = (
        "```python\na = 1\n```\n\n```python\nb = a\n```\n"
        '```text title="prints"\none\n```\n'
        "<!-- not run: no such machine -->\n```sh\nboom\n```\n"
        '- item\n\n    ```toml title="c.toml"\n    x = 1\n    ```\n'
    )
    plan = steps(blocks(text))
    assert plan[0] == Step("python", "a = 1\n\nb = a\n", ["one"])
    assert [(b.title, b.text) for b in plan[1:]] == [("c.toml", "x = 1\n")]  # type: ignore[union-attr]
    assert [b.not_run for b in blocks(text)] == ["", "", "", "no such machine", ""]
    assert missing_lines(["a … c", "d"], "a b c\nx\nd") == []
    assert missing_lines(["d", "a … c"], "a b c\nd") == ["a … c"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_would_be_noticed() -> None:
    page = DOCS / "architecture.md"
    assert broken_links(page, "[a](nowhere.md) [b](failure-model.md#nowhere)") == [
        "nowhere.md",
        "failure-model.md#nowhere",
    ]
    assert slug("What `send` returns, [or](not.md)") == "what-send-returns-or"


def test_every_page_is_in_the_navigation_and_the_other_way_round() -> None:
    entries = nav_entries((ROOT / "mkdocs.yml").read_text())
    pages = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))]
    assert outside_nav(entries, pages) == []
    assert [e for e in entries if not (DOCS / e).exists() and e not in hooks().GENERATED] == []


def test_a_page_outside_of_the_navigation_would_be_noticed() -> None:
    config = (
        "a: b\nnav:\n  - Start: index.md\n  - Why:\n      - x/\n      - y.md\n\n"
        "plugins:\n  - z.md\n"
    )
    assert nav_entries(config) == ["index.md", "x/", "y.md"]
    assert outside_nav(["index.md", "x/"], ["index.md", "x/1.md", "z.md"]) == ["z.md"]


def test_a_folder_in_the_navigation_stands_for_its_other_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nav = [{"Start": "index.md"}, {"More": "explain/"}, "explain/engines.md", {"Proof": "gone.md"}]
    monkeypatch.setattr(hooks(), "GENERATED", {"gone.md"})
    wide = hooks().expand(nav, set(hooks().named(nav)))
    assert wide == [{"Start": "index.md"}, {"More": ["explain/mailbox-protocols.md"]}, nav[2]]
    assert hooks().expand([{"More": "explain/"}], {*wide[1]["More"], nav[2]}) == []


@cache
def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "tools" / "docs_hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs is not installed: make .venv/.docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "shmcast.mailbox.faults" in (tmp_path / "reference" / "tools.html").read_text()


def test_every_public_name_has_a_reference() -> None:
    text = "\n".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    listed = {line[4:] for line in text.splitlines() if line.startswith("::: ")}
    assert [name for name in shmcast.__all__ if f"shmcast.{name}" not in listed] == []


def test_every_public_class_says_what_it_is_for() -> None:
    def is_bare(thing: Any) -> bool:
        text = (thing.__doc__ or "").strip()
        return not text or text.startswith(f"{getattr(thing, '__name__', '')}(")  # made by Python

    bare = []
    for name in shmcast.__all__:
        public = getattr(shmcast, name)
        members = {
            f"{name}.{inner}": value
            for inner, value in vars(public).items()
            if not inner.startswith("_")
            and (callable(value) or isinstance(value, property | classmethod | staticmethod))
        }
        bare += [what for what, thing in {name: public, **members}.items() if is_bare(thing)]
    assert bare == []


def test_the_page_of_commands_has_every_command() -> None:
    page = hooks().commands()
    for command in ("demo", "up", "keys", "inject copy", "bench bounds", "verify"):
        assert f"## shmcast {command}\n" in page
    assert "`--message-size`" in page and "Largest message, in bytes." in page
