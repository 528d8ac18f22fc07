"""What a cluster leaves in shared memory when all of it has ended, and a fresh start on one host.

A replica knows from the record of its lives that it lived before, and asks the others for what it
missed. Where all of them have ended there is nobody to ask: then a cluster begins anew, and the
records must go, or everybody would wait for everybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from shmcast.mailbox import survey
from shmcast.mailbox.mailbox import Mailbox
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.life import decode, path_of

_SHM = Path("/dev/shm")
_ASIDE_MAX = 10_000


def remove_segments(config: ClusterConfig) -> list[str]:
    """Those that no process has open any more."""
    mapped = survey.users()
    removed = []
    for name, files in survey.segments().items():
        ours = name == config.name or name.startswith(f"{config.name}.")
        if ours and survey.is_abandoned(survey.Survey(name, files), mapped):
            with contextlib.suppress(OSError):
                Mailbox.remove(name)
                removed.append(name)
    return removed


def lives_lost(config: ClusterConfig) -> bool:
    """Have replicas lived here, on the only host, that nobody ended with `down`, and lives none of
    them any more? Then what they knew is gone, and so is what was acknowledged."""
    if not config.one_host:
        return False
    records = [path_of(config, replica.proc) for replica in config.replicas]
    if any(is_locked(path) for path in records):
        return False
    found = [decode(path.read_bytes()) for path in records if path.exists()]
    return any(life is not None and life.has_begun for life in found)


def forget_lives(config: ClusterConfig, *, new: bool = False) -> bool:
    """True: no replica lives, and the records are gone. On several hosts nothing is forgotten: the
    replicas elsewhere may live, and numbers of lives are never used again; unless somebody says
    that the cluster begins anew. If it does not, the others remember."""
    if not config.one_host and not new:
        return False
    records = list(_SHM.glob(f"shmcast-life.{config.name}.*"))
    records += _SHM.glob(f".shmcast-life.{config.name}.*")  # of a birth that was cut short
    if any(is_locked(path) for path in records):
        return False
    for path in records:
        path.unlink(missing_ok=True)
    return True


def is_locked(path: Path) -> bool:
    """Does a process hold it? Locks end with their processes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def set_trace_aside(config: ClusterConfig) -> Path | None:
    """A record of an earlier run gets another name: runs/today becomes runs/today.1."""
    if config.trace is None or not (config.trace / "run.json").exists():
        return None
    for number in range(1, _ASIDE_MAX):
        aside = config.trace.with_name(f"{config.trace.name}.{number}")
        if not aside.exists():
            config.trace.rename(aside)
            return aside
    raise FileExistsError(f"{config.trace}.1 to .{_ASIDE_MAX} are all there: remove some")
