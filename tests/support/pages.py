"""Pages of the documentation: their blocks, their links, and the runs of their blocks.

How a block is marked in the source of a page:

    ```python                   run; neighbours run in one process, as a reader would type them
    ```sh                       run by bash, from the page's own directory
    ```python title="bank.py"   written to that file there (any language); blocks after it use it
    ```text title="prints"      what the block before must have printed; … stands for anything
    <!-- not run: reason -->    on the line before a block that cannot run here
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
PRINTS = "prints"
RUNNABLE = ("python", "sh")

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"\n]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
_LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
_HEADING = re.compile(r"^#+ (.+?)(?: \{ *#([\w-]+) *\})?$", re.M)
_DIRECTIVE = re.compile(r"^::: (\S+)$", re.M)


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str
    not_run: str  # the reason, or empty


@dataclass
class Step:
    """Blocks that run in one process, and the lines that they must print."""

    language: str
    text: str
    prints: list[str]


def blocks(text: str) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
        found.append(
            Block(match["language"], match["title"] or "", body, (match["reason"] or "").strip())
        )
    return found


def steps(found: list[Block]) -> list[Step | Block]:
    """In order: what to run, and the files to write."""
    plan: list[Step | Block] = []
    for block in found:
        last = plan[-1] if plan else None
        if block.not_run:
            continue
        if block.title == PRINTS:
            assert isinstance(last, Step), f"nothing runs before {block.text!r}"
            last.prints += block.text.splitlines()
        elif block.title:
            plan.append(block)
        elif block.language in RUNNABLE:
            if isinstance(last, Step) and last.language == block.language == "python":
                last.text += "\n" + block.text
            else:
                plan.append(Step(block.language, block.text, []))
    return plan


def missing_lines(wanted: list[str], printed: str) -> list[str]:
    """The first wanted line that does not come, in order; … in it stands for anything."""
    lines = iter(printed.splitlines())
    for line in wanted:
        parts = map(re.escape, line.strip().split("…"))
        pattern = re.compile(".*".join(parts))
        if not any(pattern.fullmatch(one.strip()) for one in lines):
            return [line]
    return []


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))


def slug(heading: str) -> str:
    """As Python-Markdown makes it."""
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(text: str) -> set[str]:
    bare = _BLOCK.sub("", text)
    return {given or slug(title) for title, given in _HEADING.findall(bare)} | set(
        _DIRECTIVE.findall(bare)
    )


def broken_links(page: Path, text: str) -> list[str]:
    broken = []
    for link in _LINK.findall(without_code(text)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            broken.append(link)
        elif anchor and target.suffix == ".md":
            there = text if target == page else target.read_text()
            if anchor not in anchors(there):
                broken.append(link)
    return broken


def nav_entries(config: str) -> list[str]:
    """Pages and folders (with a slash at their end) that mkdocs.yml lists."""
    _, _, nav = config.partition("\nnav:\n")
    return re.findall(r"^\s+- (?:[^\n]+: )?(\S+(?:\.md|/))$", nav.split("\n\n")[0] + "\n", re.M)


def outside_nav(entries: list[str], pages: list[str]) -> list[str]:
    folders = tuple(entry for entry in entries if entry.endswith("/"))
    return [page for page in pages if page not in entries and not page.startswith(folders)]
