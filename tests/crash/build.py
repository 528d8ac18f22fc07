"""Builds the core with crash points: csrc/ as it is, crash_atomics.h for its atomics.h, and the
linker's --wrap for its system calls.

Objects are kept by the content of their sources, so that a broken variant costs one file's time.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import itertools
import re
import shutil
import subprocess
from pathlib import Path

from prove.mutants import CSRC, ROOT, mailbox_sources, partial

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "crash"
COMPILER = shutil.which("gcc") or shutil.which("cc") or "cc"
# No sibling calls and no position-independent code: a system call's return address is its site.
FLAGS = ("-std=gnu11", "-O1", "-g", "-fno-pie", "-fno-optimize-sibling-calls",
         "-Wall", "-Wextra", "-Werror", "-pthread")  # fmt: skip
WRAPPED = ("close", "fchmod", "fchown", "fstat", "flock", "pread", "posix_fallocate", "fallocate",
           "linkat", "unlink", "opendir", "closedir", "pthread_create", "open", "mmap", "munmap",
           "syscall", "clock_nanosleep", "clock_gettime")  # fmt: skip
NO_SITE = {"clock_nanosleep", "clock_gettime"}  # measured, but no crash point
# What else the core asks of the C library: nothing here writes what another process could see. A
# name in neither list fails the proof, so that no new system call goes without its crash point.
HARMLESS = {
    "calloc": "memory", "free": "memory", "malloc": "memory",
    "getpid": "asks", "getrandom": "asks", "getrusage": "asks", "lstat": "asks", "stat": "asks",
    "poll": "asks: its time is 0", "kill": "asks: its signal is 0", "read": "of /proc",
    "readdir": "asks", "raise": "ends this process, as whoever sends SIGBUS wants",
    "sigaction": "of this process", "signal": "of this process",
    "pthread_atfork": "of this process", "pthread_join": "waits for a thread of its own",
    "pthread_mutex_*": "of this process", "pthread_mutexattr_*": "of this process",
    "mem*": "pure", "str*": "pure", "snprintf": "pure", "sigemptyset": "pure", "__*": "compiler",
    "_GLOBAL_OFFSET_TABLE_": "linker", "stderr": "pure",
}  # fmt: skip


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def _object(source: Path, csrc: Path, headers: bytes) -> Path:
    flags = [*FLAGS, '-DSHMCAST_ATOMICS="crash_atomics.h"', f"-I{HERE}", f"-I{csrc}"]
    key = _digest(source.name.encode(), source.read_bytes(), headers, " ".join(FLAGS).encode())
    out = BUILD / f"{source.stem}-{key}.o"
    if not out.exists():
        part = partial(out)
        _run([COMPILER, *flags, "-c", str(source), "-o", str(part)])
        part.rename(out)
    return out


def build(csrc: Path = CSRC) -> Path:
    """The program for these sources of the core."""
    BUILD.mkdir(parents=True, exist_ok=True)
    headers = b"".join(
        p.read_bytes() for p in [*sorted(csrc.glob("*.h")), *sorted(HERE.glob("*.h"))]
    )
    sources = [*mailbox_sources(csrc), *sorted(HERE.glob("*.c"))]
    objects = [_object(source, csrc, headers) for source in sources]
    program = BUILD / f"crash-{_digest(*(o.name.encode() for o in objects))}"
    if not program.exists():
        wraps = [f"-Wl,--wrap={name}" for name in WRAPPED]
        part = partial(program)
        _run([COMPILER, "-no-pie", "-pthread", *map(str, objects), *wraps, "-o", str(part)])
        part.rename(program)
    return program


def unknown_calls(csrc: Path = CSRC) -> list[str]:
    """What the core calls outside itself that is neither wrapped nor known as harmless."""
    BUILD.mkdir(parents=True, exist_ok=True)
    headers = b"".join(
        p.read_bytes() for p in [*sorted(csrc.glob("*.h")), *sorted(HERE.glob("*.h"))]
    )
    objects = [str(_object(source, csrc, headers)) for source in mailbox_sources(csrc)]
    symbols = [line.split() for line in _run(["nm", *objects]).splitlines()]
    defined = {words[2] for words in symbols if len(words) == 3}
    called = {words[1] for words in symbols if len(words) == 2 and words[0] in "Uw"} - defined
    ours = {"crash_point", "crash_copy", *WRAPPED}
    return sorted(
        name for name in called - ours
        if not any(fnmatch.fnmatchcase(name, known) for known in HARMLESS)
    )  # fmt: skip


@functools.cache
def _lines(program: Path, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """file:line of each address; one before the return address is within the call."""
    before = [hex(int(address, 16) - 1) for address in addresses]
    found = _run(["addr2line", "-e", str(program), *before]).splitlines()
    return tuple(f"csrc/{Path(line.split(' ')[0]).name}" for line in found)


def named(program: Path, text: str) -> str:
    """The text with every "@address" as file:line."""
    addresses = tuple(sorted(set(re.findall(r"@([0-9a-f]{5,})(?= )", text))))
    if not addresses:
        return text
    for address, line in zip(addresses, _lines(program, addresses), strict=True):
        text = text.replace(f"@{address} ", f"{line} ")
    return text


def static_sites(program: Path) -> set[str]:
    """Every place in csrc/ that has a crash point: "csrc/agree.c:43 cas"."""
    output = _run([str(program), "sites"])
    sites = {line.removeprefix("site ") for line in output.splitlines()}
    calls = []
    listing = _run(["objdump", "-d", "--no-show-raw-insn", str(program)]).splitlines()
    for line, after in itertools.pairwise(listing):
        call = re.search(r"\bcall\s+[0-9a-f]+ <__wrap_(\w+)>", line)
        if call and call[1] not in NO_SITE:
            calls.append(f"@{after.split(':')[0].strip()} {call[1]}")
    sites |= {named(program, call) for call in calls}
    core = {path.name for path in CSRC.glob("*.[ch]")}
    return {s for s in sites if s.startswith("csrc/") and s.split("/")[1].split(":")[0] in core}
