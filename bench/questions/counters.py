"""After warm-up: page faults, context switches, growth of the C heap, and system calls by name.

Each process reads its own counters before and after its messages. System calls are counted by
strace where it is there and may attach; it is attached after the warm-up, so only the path counts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import Case, Measurement, Role, Scale, cpu, together
from bench.peers.base import BATCH, Peer
from bench.peers.shmcast_mailbox import MailboxChannel
from bench.questions.streaming import payloads

COPIES = 3
_WARM_UP = 4096  # messages: four times around the ring
_MESSAGES = 20480
_MESSAGES_TINY = 2048


_MALLINFO = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Heap(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO)


def _heap_bytes() -> int:
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    mallinfo2.restype = _Heap
    heap = mallinfo2()
    return int(heap.arena + heap.hblkhd)


def _reading() -> dict[str, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "minor page faults": usage.ru_minflt,
        "major page faults": usage.ru_majflt,
        "voluntary switches": usage.ru_nvcsw,
        "involuntary switches": usage.ru_nivcsw,
        "heap bytes": _heap_bytes(),
    }


class _Strace:
    """Attached to this process while the block lasts."""

    def __init__(self, wanted: bool) -> None:
        self.calls: dict[str, int] | None = None
        self._wanted = wanted and shutil.which("strace") is not None

    def __enter__(self) -> _Strace:
        if not self._wanted:
            return self
        self._file = Path(tempfile.mkstemp(prefix="shmcast-bench-strace-")[1])
        self._process = subprocess.Popen(
            ["strace", "-c", "-f", "-U", "calls,name", "-o", self._file, "-p", str(os.getpid())],
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 2
        while not self._attached() and time.monotonic() < end:
            time.sleep(0.01)
        return self

    @staticmethod
    def _attached() -> bool:
        found = re.search(r"TracerPid:\s+(\d+)", Path("/proc/self/status").read_text())
        return found is not None and found[1] != "0"

    def __exit__(self, *_: object) -> None:
        if not self._wanted:
            return
        attached = self._attached()
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if attached:
            rows = re.findall(r"^\s*(\d+)\s+(\w+)\s*$", self._file.read_text(), re.M)
            ours = {"clock_nanosleep", "openat", "read", "close", "newfstatat", "fstat", "kill"}
            ours |= {"total", "ioctl", "lseek", "rt_sigreturn", "restart_syscall", "brk"}
            self.calls = {name: int(count) for count, name in rows if name not in ours}
        self._file.unlink()


def _counted(act: Callable[[], object], trace: bool) -> dict[str, Any]:
    with _Strace(trace) as strace:
        before = _reading()
        act()
        after = _reading()
    found: dict[str, Any] = {name: after[name] - before[name] for name in before}
    if strace.calls is not None:
        found["system calls"] = strace.calls
    return found


def _count(wait: str, batched: bool, messages: int, trace: bool) -> Measurement:
    channel = MailboxChannel(1, 1, 64, wait, COPIES)

    def sending(together: Callable[[], None]) -> dict[str, Any]:
        end, batch = channel.sender(0), payloads(64)

        def send(total: int) -> None:
            for _ in range(total // BATCH):
                if batched:
                    assert end.send_many is not None
                    end.send_many(batch)
                else:
                    for data in batch:
                        end.send(data)

        together()
        send(_WARM_UP)
        _counted(lambda: None, False)
        together()
        found = _counted(lambda: send(messages), trace)
        together()
        end.close()
        return found

    def receiving(together: Callable[[], None]) -> tuple[dict[str, Any], int]:
        end, seen = channel.receiver(0), 0

        def receive(total: int) -> None:
            nonlocal seen
            seen = 0
            while seen < total:
                if batched:
                    assert end.receive_many is not None
                    seen += len(end.receive_many())
                else:
                    end.receive()
                    seen += 1

        together()
        receive(_WARM_UP)
        _counted(lambda: None, False)
        together()
        found = _counted(lambda: receive(messages), trace)
        together()
        end.close()
        return found, seen

    try:
        sender, (receiver, seen) = together([Role(sending, cpu(0)), Role(receiving, cpu(1))])
    finally:
        channel.close()
    faults = sender["minor page faults"] + receiver["minor page faults"]
    extra = {"sender": sender, "receiver": receiver}
    return Measurement(float(faults), "page faults", messages, seen, extra=extra)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    messages = _MESSAGES if scale.seconds else _MESSAGES_TINY
    found = []
    for wait in ("busy", "adaptive"):
        for batched in (False, True):
            for trace in (False, True) if scale.seconds else (False,):
                case = f"{wait}, {'batched by 64' if batched else 'single'}"
                case += ", under strace" if trace else ""
                run = partial(_count, wait, batched, messages, trace)
                found.append(Case("counters", case, "shmcast, 3 copies", COPIES, run))
    return found
