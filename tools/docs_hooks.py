"""What mkdocs does not do by itself; mkdocs.yml names this file.

- a folder in the navigation stands for all its pages that are not named there themselves;
- links to files of the repository outside of docs/ become their path, as text;
- the page of commands is made from the program;
- mkdocstrings reads ordinary packages only: it gets a copy of the rooms, an empty __init__.py in
  each of them (the originals have none, see tests/test_tidy.py).
"""

from __future__ import annotations

import enum
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STAGED = ROOT / "build" / "docs-source"  # mkdocs.yml has it as the path of mkdocstrings
GENERATED = {"proof.md"}  # not there before `make prove`
COMMANDS_HERE = "<!-- commands -->"
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)]+)\)")


def on_startup(**_: Any) -> None:
    stage()


def on_config(config: Any) -> Any:
    config.nav = expand(config.nav, set(named(config.nav)))
    return config


def stage() -> None:
    def others(folder: str, names: list[str]) -> set[str]:
        return {n for n in names if "." in n and not n.endswith((".py", ".pyi"))} | {"__pycache__"}

    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "shmcast", STAGED / "shmcast", ignore=others)
    for folder in STAGED.rglob("*/"):
        (folder / "__init__.py").touch()


def named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for inner in nav.values() if isinstance(nav, dict) else nav:
            yield from named(inner)


def expand(nav: Any, known: set[str]) -> Any:
    """Without entries that stand for nothing: an empty folder, a page that is not made yet."""
    if isinstance(nav, dict):
        return {title: expand(inner, known) for title, inner in nav.items()}
    if isinstance(nav, list):
        wider = [expand(item, known) for item in nav]
        return [w for w in wider if w and not (isinstance(w, dict) and not all(w.values()))]
    if nav.endswith("/"):
        return sorted({f"{nav}{page.name}" for page in (DOCS / nav).glob("*.md")} - known)
    return nav if nav not in GENERATED or (DOCS / nav).exists() else None


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    here = (DOCS / page.file.src_uri).parent

    def as_text(match: re.Match[str]) -> str:
        target = (here / match[2].partition("#")[0]).resolve()
        if target.is_relative_to(DOCS):
            return match[0]
        path = target.relative_to(ROOT)
        return f"{match[1]} (`{path}`)" if match[1].strip("`/") != str(path) else f"`{path}`"

    markdown = _OUTSIDE.sub(as_text, markdown)
    if COMMANDS_HERE in markdown:
        markdown = markdown.replace(COMMANDS_HERE, commands())
    return markdown


def commands() -> str:
    """Every command of the program, as Markdown."""
    from typer.main import get_command

    from shmcast.cli.main import app

    return "\n".join(describe("shmcast", get_command(app)))


def describe(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "list_commands"):
        for inner in sorted(command.list_commands(None)):
            yield from describe(f"{name} {inner}", command.get_command(None, inner))
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    yield f"## {name}\n"
    yield " ".join([f"`{name}", *(usage(a) for a in arguments), "[OPTIONS]`\n"])
    yield (command.help or "").strip() + "\n"
    rows = [(f"`{usage(a)}`", a) for a in arguments]
    rows += [
        (", ".join(f"`{word}`" for word in (*o.opts, *o.secondary_opts)), o)
        for o in options
        if not o.hidden
    ]
    if rows:
        yield "| | default | |\n| --- | --- | --- |"
        for title, param in rows:
            yield f"| {title} | {default(param)} | {cell(explanation(param))} |"
        yield ""


def usage(argument: Any) -> str:
    word = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def default(param: Any) -> str:
    value = param.default
    if param.required:
        return "required"
    if value is None or callable(value) or value is False or value == [] or str(value) == "":
        return ""
    return f"`{getattr(value, 'value', value)}`"


def explanation(param: Any) -> str:
    kind = type(param.default)
    choices = "One of " + ", ".join(kind) + "." if issubclass(kind, enum.StrEnum) else ""
    return " ".join(filter(None, [getattr(param, "help", "") or "", choices]))


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
