"""Builds the checker over a directory of C sources: csrc/ itself, or a mutant's copy of it.

A mutant differs from csrc/ in a file or two, so only these are compiled anew. Objects and programs
lie in a directory of the caller's; nothing is left elsewhere.
"""

from __future__ import annotations

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prove.mutants import mailbox_sources, partial

HERE = Path(__file__).parent
REPLACED = {"sys.c", "segment.c", "guard.c"}  # fake_sys.c, fake_segment.c instead
COMMON = [
    "-std=gnu11", "-O2", "-g1", "-fno-pie", "-fno-stack-protector", "-fcf-protection=none",
    '-DSHMCAST_ATOMICS="checked_atomics.h"', f"-I{HERE}",
]  # fmt: skip
OURS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-Wno-override-init"]
CORE = ["-w", "-include", str(HERE / "seam.h")]  # their warnings are `make check`'s business


def _digest(*texts: bytes) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def _headers(*directories: Path) -> bytes:
    return b"".join(p.read_bytes() for d in directories for p in sorted(d.glob("*.h")))


def _compile(source: Path, flags: list[str], headers: bytes, objects: Path, csrc: Path) -> Path:
    name = _digest(source.read_bytes(), headers, " ".join(flags).encode())
    out = objects / f"{source.stem}-{name}.o"
    if not out.exists():
        part = partial(out)
        subprocess.run(["cc", *flags, f"-I{csrc}", "-c", str(source), "-o", str(part)], check=True)
        part.rename(out)
    return out


def build(csrc: Path, into: Path) -> Path:
    """The checker's program over `csrc`; objects already in `into` are used again."""
    objects = into / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    headers = _headers(HERE, csrc)
    core = [p for p in mailbox_sources(csrc) if p.name not in REPLACED]
    jobs = [(p, [*COMMON, *CORE]) for p in core]
    jobs += [(p, [*COMMON, *OURS]) for p in sorted(HERE.glob("*.c"))]

    def one(job: tuple[Path, list[str]]) -> Path:
        source, flags = job
        return _compile(source, flags, headers, objects, csrc)

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(one, jobs))
    program = into / f"checker-{_digest(*(str(p).encode() for p in made))}"
    if not program.exists():
        part = partial(program)
        subprocess.run(["cc", "-no-pie", "-o", str(part), *map(str, made)], check=True)
        part.rename(program)
    return program
