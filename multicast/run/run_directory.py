"""What the supervisor of one host leaves for `down` and `status` to find, and how it is told from
one that died.

    /dev/shm/shmcast-up.<user id>.<cluster>.<host>/
        lock          held by the living supervisor; the kernel frees it, whatever kills that
        state.json    the last state, replaced as a whole
        log           what a supervisor without a terminal has to say; cut at LOG_BYTES_MAX

In shared memory, because it means nothing after a reboot.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from shmcast.errors import NotPermitted
from shmcast.multicast.run.config import ClusterConfig

LOG_BYTES_MAX = 1 << 20
STATE_BYTES_MAX = 1 << 20
ACQUIRE_S = 0.5
_SHM = Path("/dev/shm")


def identity(pid: int) -> list[float] | None:
    """A process, told from a later one with the same pid. None: there is no such process."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return [pid, process.create_time()]
    except psutil.Error:
        return None


def living(who: object) -> tuple[int, float] | None:
    """Pid and start of a process on record, if it is still that one that has this pid."""
    if not isinstance(who, list) or len(who) != 2 or not isinstance(who[0], int):
        return None
    return (who[0], who[1]) if identity(who[0]) == who else None


class RunDirectory:
    def __init__(self, config: ClusterConfig, host: str) -> None:
        self.path = _SHM / f"shmcast-up.{os.getuid()}.{config.name}.{host}"
        self._lock = -1

    def make(self) -> None:
        with contextlib.suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise NotPermitted(f"{self.path} belongs to somebody else: remove it, or rename yours")

    def acquire(self) -> bool:
        """True: this process is the supervisor now, until it ends or removes the directory."""
        end_s = time.monotonic() + ACQUIRE_S
        while not self._try_lock():  # `is_held` of another process locks it for a moment, too
            if time.monotonic() > end_s:
                return False
            time.sleep(0.005)
        return True

    def _try_lock(self) -> bool:
        self.make()
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # removed by the one before, which is on its way out
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(self.path / "lock").st_ino == os.fstat(lock).st_ino:
                self._lock = lock
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(lock)
        return False

    def is_held(self) -> bool:
        """Does a supervisor live? Asks the kernel, not the file."""
        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def write(self, state: Mapping[str, Any]) -> None:
        beside = self.path / ".state.json"
        beside.write_text(json.dumps(state))
        beside.replace(self.path / "state.json")

    def read(self) -> dict[str, Any]:
        """The last state; empty if there is none that can be read."""
        try:
            with (self.path / "state.json").open("rb") as file:
                state = json.loads(file.read(STATE_BYTES_MAX))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    @staticmethod
    def replicas_in(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        found = state.get("replicas")
        if not isinstance(found, dict):
            return {}
        return {name: known for name, known in found.items() if isinstance(known, dict)}

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
