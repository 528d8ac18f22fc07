"""Builds of the C core and its C tests, one per tool, from csrc/ or from a broken copy of it.

Objects are kept by what they are made of (compiler, flags, text of the source and of every
header), so a mutant costs one file and a link, and a second run costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
C_TESTS = ROOT / "tests" / "c"
FUZZ = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "sanitize"
SUPPRESSIONS = Path(__file__).with_name("tsan.supp")
COMMON = ("-std=gnu11", "-O1", "-g", "-pthread", "-fno-omit-frame-pointer", "-Wall", "-Wextra")
CLANG_ONLY = ("-Wno-gnu-variable-sized-type-not-at-end",)
UBSAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True, slots=True)
class Tool:
    """A compiler with a sanitizer, or a program that runs the other."""

    name: str
    flags: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    runner: tuple[str, ...] = ()


# SIGBUS is the guard's: a sanitizer that takes it first would call every failed copy a crash.
ASAN = Tool(
    "asan", UBSAN, {"ASAN_OPTIONS": "handle_sigbus=0:abort_on_error=0:quarantine_size_mb=16"}
)
TSAN = Tool(
    "tsan",
    ("-fsanitize=thread",),
    {"TSAN_OPTIONS": f"handle_sigbus=0:halt_on_error=1:suppressions={SUPPRESSIONS}"},
)
VALGRIND = Tool(
    "valgrind",
    (),
    runner=(
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--fair-sched=yes",  # one thread at a time, in turn: a spinning one must not starve others
    ),
)
# libFuzzer where clang has it, else a plain driver that mutates without guidance.
GUIDED = Tool("guided", (*UBSAN, "-fsanitize=fuzzer-no-link"), ASAN.environment)
UNGUIDED = Tool("unguided", UBSAN, ASAN.environment)


def compiler() -> str | None:
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def clang_with_fuzzer() -> str | None:
    """clang, if it can link a fuzz target: its runtime is a package of its own."""
    clang = shutil.which("clang")
    if not clang:
        return None
    BUILD.mkdir(parents=True, exist_ok=True)
    probe = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *d, size_t n)"
    done = subprocess.run(
        [clang, "-fsanitize=fuzzer,address", "-x", "c", "-", "-o", str(BUILD / "probe")],
        input=probe + " { (void)d; (void)n; return 0; }\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return clang if done.returncode == 0 else None


def fuzz_tool() -> tuple[Tool, str | None]:
    clang = clang_with_fuzzer()
    return (GUIDED, clang) if clang else (UNGUIDED, compiler())


def _digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode() if isinstance(part, str) else part)
        whole.update(b"\0")
    return whole.hexdigest()[:24]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def _object(cc: str, flags: tuple[str, ...], source: Path, csrc: Path) -> Path:
    headers = [path for folder in (csrc, C_TESTS, FUZZ) for path in sorted(folder.glob("*.h"))]
    texts = [path.read_bytes() for path in (source, csrc / "sys.c", *headers)]
    made = BUILD / "objects" / f"{source.stem}-{_digest(cc, *flags, source.name, *texts)}.o"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        if source.name == "virtual_sys.c":  # it takes in the sys.c of the tree that is built
            text = text.replace("../../csrc/sys.c", str(csrc / "sys.c"))
        partial = made.with_suffix(f".{os.getpid()}.o")
        copy = made.with_suffix(f".{os.getpid()}.c")
        copy.write_text(f'#line 1 "{source.name}"\n{text}')
        include = ("-I", str(csrc), "-I", str(source.parent))
        try:
            _run([cc, *flags, *include, "-c", str(copy), "-o", str(partial)])
        finally:
            copy.unlink()
        partial.rename(made)
    return made


def build(
    name: str, tool: Tool, sources: Sequence[Path], cc: str, csrc: Path = CSRC, *, sys: bool = True
) -> Path:
    """The program `name`, of these sources and the core (without its sys.c, if `sys` is false)."""
    flags = (*COMMON, *tool.flags, *(CLANG_ONLY if "clang" in Path(cc).name else ()))
    core = [
        path
        for path in sorted(csrc.glob("*.c"))
        if path.name != "_native.c" and (sys or path.name != "sys.c")
    ]
    objects = [_object(cc, flags, path, csrc) for path in (*sources, *core)]
    link = ("-fsanitize=fuzzer",) if tool is GUIDED else ()
    made = BUILD / f"{name}-{tool.name}-{_digest(*(path.name for path in objects))}"
    if not made.exists():
        partial = made.with_suffix(f".{os.getpid()}")
        _run([cc, *flags, *link, *map(str, objects), "-lrt", "-o", str(partial)])
        partial.rename(made)
    return made


def build_unit_tests(tool: Tool, cc: str, csrc: Path = CSRC) -> Path:
    return build("test_core", tool, [C_TESTS / "test_core.c"], cc, csrc)


def build_stress(tool: Tool, cc: str, csrc: Path = CSRC) -> Path:
    sources = [C_TESTS / f"{part}.c" for part in ("stress", "traffic", "trouble")]
    return build("stress", tool, sources, cc, csrc)


def build_fuzz(target: str, tool: Tool, cc: str, csrc: Path = CSRC) -> Path:
    parts = [target, "harness", "virtual_sys", *(["plain_driver"] if tool is UNGUIDED else [])]
    return build(target, tool, [FUZZ / f"{part}.c" for part in parts], cc, csrc, sys=False)
