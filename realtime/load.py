"""Load on purpose: processes that keep the machine busy while something is measured.

They are ordinary processes. Each ends by itself when its parent is gone or its time is over, so
nothing is left behind even if the measuring process is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType
from typing import Self

KINDS = ("cpu", "memory", "io")
_LONGEST_S = 1800

_LOOP = """
import os, sys, tempfile, time
parent, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
{prepare}
print(flush=True)
while os.getppid() == parent and time.monotonic() < end:
    {work}
"""
_CODE = {
    "cpu": ("", "sum(range(20000))"),
    "memory": ("a = bytearray(64 << 20)", "b = bytes(a); del b"),
    "io": (
        "f = tempfile.TemporaryFile(); block = bytes(1 << 20)",
        "f.seek(0); f.write(block); f.flush(); os.fsync(f.fileno())",
    ),
}


class Load:
    """`with Load("cpu", "memory"): ...`; one process per core for cpu, one each for the others."""

    def __init__(self, *kinds: str) -> None:
        unknown = set(kinds) - set(KINDS)
        if unknown:
            raise ValueError(f"no such load: {sorted(unknown)[0]}; there is {', '.join(KINDS)}")
        self._kinds = kinds
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for kind in self._kinds:
            prepare, work = _CODE[kind]
            code = _LOOP.format(prepare=prepare, work=work)
            for _ in range(len(os.sched_getaffinity(0)) if kind == "cpu" else 1):
                arguments = [sys.executable, "-c", code, str(os.getpid()), str(_LONGEST_S)]
                self._processes.append(
                    subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                )
        for process in self._processes:  # until each one is at work
            assert process.stdout
            process.stdout.readline()
        return self

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            assert process.stdout
            process.stdout.close()
        self._processes.clear()
