"""Faults on purpose: copies, processes and clocks.

``kill_copy(box, 0)`` truncates the first segment under everybody's feet; whoever uses the mailbox
goes on with the others. Nothing here needs the victim's cooperation, except clocks: each process
skews its own, or allows others to.
"""

from __future__ import annotations

import enum
import errno
import os
import random
import signal

import posix_ipc
import psutil

from shmcast._native import lib
from shmcast.errors import error_from
from shmcast.mailbox.clock_fault import allow_skew, ask, skew_clock
from shmcast.mailbox.core import CopyState, check
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox

__all__ = [
    "Kill",
    "allow_skew",
    "continue_process",
    "intact_copies",
    "kill_copy",
    "kill_process",
    "segment_name",
    "skew_clock",
    "skew_process",
    "stop_process",
]


class Kill(enum.StrEnum):
    TRUNCATE = "truncate"  # access raises SIGBUS
    POISON = "poison"  # marked as failed
    CORRUPT = "corrupt"  # overwritten with random bytes
    UNLINK = "unlink"  # its name disappears; newcomers cannot find it


def segment_name(domain: str, serial: int) -> str:
    """The POSIX name of one copy."""
    return f"/shmcast.{domain}.{serial}"


def kill_copy(
    box: Mailbox | Domain, copy: int, how: Kill | str = Kill.TRUNCATE, *, seed: int = 0
) -> None:
    """Kills the copy with this number. `seed` chooses the bytes of `corrupt`."""
    segments = box.segments if isinstance(box, Mailbox) else box._segments
    if copy not in segments.serials():
        raise ValueError(f"{segments.name} has no copy {copy}; it has {list(segments.serials())}")
    name = segment_name(segments.name, copy)
    match Kill(how):
        case Kill.TRUNCATE:
            _truncate(name)
        case Kill.POISON:
            check(lib.sc_fault_poison(segments.require(), copy), segments.name)
        case Kill.CORRUPT:
            _overwrite(name, seed)
        case Kill.UNLINK:
            posix_ipc.unlink_shared_memory(name)


def _truncate(name: str) -> None:
    memory = posix_ipc.SharedMemory(name)
    try:
        os.ftruncate(memory.fd, 0)
    finally:
        memory.close_fd()


def _overwrite(name: str, seed: int) -> None:
    """Every page gets random bytes, so that no word can be believed."""
    memory = posix_ipc.SharedMemory(name)
    noise = random.Random(seed)
    try:
        for offset in range(0, os.fstat(memory.fd).st_size, 4096):
            os.pwrite(memory.fd, noise.randbytes(4096), offset)
    finally:
        memory.close_fd()


def intact_copies(box: Mailbox | Domain) -> list[int]:
    """Numbers of the copies that are still there."""
    segments = box.segments if isinstance(box, Mailbox) else box._segments
    return [n for n, state in segments.serials().items() if state is CopyState.INTACT]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        process = psutil.Process(pid)  # pins the process, so that a reused pid is not hit
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            raise psutil.NoSuchProcess(pid)
        process.send_signal(number)
    except psutil.NoSuchProcess:
        raise error_from(lib.SC_PEER_DEAD, f"process {pid}") from None
    except psutil.AccessDenied:
        raise error_from(-errno.EPERM, f"process {pid}") from None


def kill_process(pid: int) -> None:
    """SIGKILL: it dies at whichever instruction it is. PeerDead if it is dead already."""
    _signal(pid, signal.SIGKILL)


def stop_process(pid: int) -> None:
    """SIGSTOP: it is late, and does not know."""
    _signal(pid, signal.SIGSTOP)


def continue_process(pid: int) -> None:
    _signal(pid, signal.SIGCONT)


def skew_process(pid: int, offset_s: float = 0.0, drift: float = 0.0) -> None:
    """Skews the protocol clock of a process that has called `allow_skew`, or was started with
    ``shmcast inject clock -- COMMAND``. Zero and zero make it right again."""
    if ask(pid, offset_s, drift):
        return
    if not psutil.pid_exists(pid):
        raise error_from(lib.SC_PEER_DEAD, f"process {pid}")
    raise ProcessLookupError(
        f"process {pid} lets nobody skew its clock: start it with `shmcast inject clock -- "
        "COMMAND`, or have it call shmcast.mailbox.faults.allow_skew()"
    )
