"""The code base itself: who imports whom, sizes, where atomics live, no sleeping in tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("mailbox", "multicast", "realtime", "pipeline")
LONGEST = 600

# What each part may import of shmcast; the longest prefix that fits a module counts.
CORE = ("shmcast._native", "shmcast._fast", "shmcast.errors")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "shmcast.errors": (),
    "shmcast.multicast.protocols": ("shmcast.multicast.protocols",),
    "shmcast.multicast.checks": ("shmcast.multicast.checks", "shmcast.multicast.protocols"),
    "shmcast.multicast.sim": ("shmcast.multicast",),
    "shmcast.multicast.traces": (
        "shmcast.multicast.traces",
        "shmcast.multicast.checks",
        "shmcast.multicast.protocols",
        "shmcast.errors",
    ),
    "shmcast.multicast": ("shmcast.multicast", "shmcast.mailbox", "shmcast.realtime", *CORE),
    "shmcast.realtime": ("shmcast.realtime", *CORE),
    "shmcast.mailbox": ("shmcast.mailbox", "shmcast.realtime", *CORE),
    "shmcast.pipeline": (
        "shmcast.pipeline",
        "shmcast.multicast.checks",
        "shmcast.multicast.traces",
        "shmcast.mailbox",
        "shmcast.realtime",
        *CORE,
    ),
    "shmcast.cli": ("shmcast",),
    "shmcast": ("shmcast.mailbox", "shmcast.realtime", "shmcast.multicast", *CORE),
}
PURE = ("shmcast.multicast.protocols", "shmcast.multicast.checks")
IMPURE_MODULES = {"time", "threading", "socket", "random", "asyncio", "multiprocessing"}


def files(*patterns: str) -> list[Path]:
    skipped = {".venv", "build", ".git"}
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(p for p in found if not skipped & set(p.relative_to(ROOT).parts))


def sources() -> list[tuple[str, Path]]:
    """Module names and files: the rooms, and the import root without its symlinks to them."""
    found = [(f"shmcast.{path.relative_to(ROOT).with_suffix('')}", path)
             for room in ROOMS for path in files(f"{room}/**/*.py")]  # fmt: skip
    root = ROOT / "src" / "shmcast"
    for path in [*root.glob("*.py"), *(root / "cli").rglob("*.py")]:
        name = f"shmcast.{path.relative_to(root).with_suffix('')}"
        found.append((name.removesuffix("/__init__").removesuffix(".__init__"), path))
    return [(name.replace("/", "."), path) for name, path in found]


def for_types_only(tree: ast.Module) -> set[int]:
    """What stands below `if TYPE_CHECKING`: it is never run."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }


def imports(path: Path, *, types_too: bool = True) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    skipped = set() if types_too else for_types_only(tree)
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by full name"
            yield node.module or ""


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def impure_imports(name: str, imported: list[str]) -> list[str]:
    if not any(is_within(name, pure) for pure in PURE):
        return []
    return [module for module in imported if module.split(".")[0] in IMPURE_MODULES]


def wrong_imports(name: str, imported: list[str]) -> list[str]:
    rule = max((key for key in MAY_IMPORT if is_within(name, key)), key=len)
    wrong = [
        module
        for module in imported
        if is_within(module, "shmcast")
        and not any(is_within(module, allowed) for allowed in MAY_IMPORT[rule])
    ]
    wrong += impure_imports(name, imported)
    if not is_within(name, "shmcast.pipeline"):
        wrong += [module for module in imported if is_within(module, "pyspark")]
    return wrong


@pytest.mark.parametrize(("name", "path"), sources(), ids=lambda value: str(value).rsplit("/")[-1])
def test_imports_point_downwards(name: str, path: Path) -> None:
    run = list(imports(path, types_too=False))
    types = [module for module in imports(path) if is_within(module, "shmcast")]
    assert wrong_imports(name, [*run, *types]) == []


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("shmcast.realtime.bounds", "shmcast.mailbox.core"),
        ("shmcast.mailbox.sender", "shmcast.multicast.run"),
        ("shmcast.mailbox.sender", "shmcast.cli.main"),
        ("shmcast.multicast.protocols.skeen", "time"),
        ("shmcast.mailbox.sender", "pyspark.sql"),
        ("shmcast.errors", "shmcast.mailbox.core"),
    ],
)
def test_a_wrong_import_would_be_noticed(name: str, imported: str) -> None:
    assert wrong_imports(name, [imported]) == [imported]


def test_no_room_has_an_init_that_would_hide_the_standard_library() -> None:
    assert [room for room in ROOMS if (ROOT / room / "__init__.py").exists()] == []


def test_no_file_is_too_long_to_be_read() -> None:
    long = {}
    for path in files("**/*.py", "csrc/*.[ch]", "docs/**/*.md", "tools/*"):
        lines = len(path.read_text().splitlines())
        name = str(path.relative_to(ROOT))
        if lines > LONGEST:
            long[name] = lines
    assert long == {}


def test_only_atomics_h_names_a_memory_order() -> None:
    named = [
        path.name
        for path in files("csrc/*.[ch]")
        if re.search(r"\bmemory_order_\w|#include <stdatomic", path.read_text())
    ]
    assert named == ["atomics.h"]


def test_nothing_depends_on_one_machine() -> None:
    path_of_a_machine = re.compile(r"(?<![\w.])/(?:home|root|work|Users|mnt|opt)/\w+")
    kinds = ("**/*.py", "**/*.md", "**/*.toml", "csrc/*.[ch]", "tools/*", "Makefile", ".ci/*")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files(*kinds)
        for match in path_of_a_machine.finditer(path.read_text())
    ]
    assert found == []


def sleeps(text: str) -> list[int]:
    """Lines of calls of sleep() outside of helpers that wait for a condition."""
    tree = ast.parse(text)
    allowed = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "wait_until" in node.name
        for inner in ast.walk(node)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and id(node) not in allowed
        and ast.unparse(node) != "asyncio.sleep(0)"  # lets others run, waits for nothing
        and (getattr(node.func, "attr", "") == "sleep" or getattr(node.func, "id", "") == "sleep")
    ]


@pytest.mark.parametrize("path", files("tests/**/*.py"), ids=lambda path: path.name)
def test_tests_wait_for_conditions_and_never_sleep(path: Path) -> None:
    assert sleeps(path.read_text()) == []


def test_a_sleep_would_be_noticed() -> None:
    assert sleeps("import time\ntime.sleep(1)") == [2]
    assert sleeps("def wait_until():\n    time.sleep(1)") == []
