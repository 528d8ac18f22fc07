"""The lives of a replica on its host: one small file each in shared memory.

    | magic, wire version | process, incarnation | pid, start time | beat | epoch, leader |
    | complete | CRC32 |

The magic and the wire version behind it stay where they are, whatever else a later release has:
a replica of another one is told from a damaged record, and ends before it speaks.

Only the living replica writes it; the lock on it ends with the process, at whichever instruction
that dies. The record stays, so the next life knows its number. Read with pread: a file that was
cut off or overwritten is a replica that cannot be seen, never a signal.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from shmcast.errors import Corrupt, Incompatible, PeerDead
from shmcast.multicast.protocols.core import ProcessId
from shmcast.multicast.run.config import ClusterConfig
from shmcast.multicast.run.wire import VERSION

_RECORD = struct.Struct("<8sIxxxxqqqdqqqq")
_HEAD = struct.Struct("<7scI")
_SEALED = struct.Struct("<I")
_MAGIC = b"shmlife3"
_BYTES = _RECORD.size + _SEALED.size
_DIRECTORY = Path("/dev/shm")
_ENDED = -1  # for a beat: this life ended in order
_ANOTHER = (
    "{path}: written by another release of shmcast ({other}; this one has "
    f"records of form {_MAGIC[7:].decode()}, wire version {VERSION}): end the whole cluster with "
    "that release (shmcast down), then start it with this one"
)
_READ_ATTEMPTS = 3  # a record that is being written is whole a moment later


@dataclass(frozen=True, slots=True)
class Life:
    process: ProcessId
    incarnation: int
    pid: int
    started: float  # of the process, as psutil has it: pids are used again
    beat_ns: int = 0  # CLOCK_MONOTONIC when it last showed that it is alive
    epoch: int = 0  # of the group's leadership, as this replica sees it
    leader: ProcessId = -1
    complete: int = 0  # it has its group's state

    @property
    def has_begun(self) -> bool:
        """Its inbox is there from the first beat on."""
        return self.beat_ns != 0

    @property
    def ended(self) -> bool:
        """In order, by its own word."""
        return self.beat_ns == _ENDED

    def encode(self) -> bytes:
        body = _RECORD.pack(
            _MAGIC, VERSION, self.process, self.incarnation, self.pid, self.started,
            self.beat_ns, self.epoch, self.leader, self.complete,
        )  # fmt: skip
        return body + _SEALED.pack(zlib.crc32(body))


def decode(data: bytes) -> Life | None:
    if len(data) != _BYTES:
        return None
    body, seal = data[: _RECORD.size], data[_RECORD.size :]
    magic, wire, *fields = _RECORD.unpack(body)
    if magic != _MAGIC or wire != VERSION or _SEALED.unpack(seal) != (zlib.crc32(body),):
        return None
    return Life(*fields)


def other_release(data: bytes) -> str:
    """What another release calls itself; empty for a record of this one, or of none."""
    if len(data) < _HEAD.size or data[:7] != _MAGIC[:7]:
        return ""
    _, form, wire = _HEAD.unpack_from(data)
    if form != _MAGIC[7:]:
        return f"records of form {form.decode(errors='replace')}"
    return "" if wire == VERSION else f"wire version {wire}"


def path_of(config: ClusterConfig, process: ProcessId) -> Path:
    return _DIRECTORY / f"shmcast-life.{config.name}.{process}"


def _born(path: Path, life: Life) -> int:
    """The record of a first life, whole from its first moment on, and locked. -1: there is one."""
    beside = path.with_name(f".{path.name}.{life.pid}")
    beside.unlink(missing_ok=True)  # of a process that had this pid before
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.pwrite(fd, life.encode(), 0)
        os.link(beside, path)
    except FileExistsError:
        os.close(fd)
        return -1
    finally:
        beside.unlink(missing_ok=True)
    return fd


class OwnLife:
    """The life of this process as a replica."""

    def __init__(self, config: ClusterConfig, process: ProcessId) -> None:
        path, name = path_of(config, process), config.replicas[process].name
        self.life = Life(process, 0, os.getpid(), psutil.Process().create_time(), leader=-1)
        self._fd = _born(path, self.life)
        if self._fd >= 0:
            return
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.pread(self._fd, _BYTES + 1, 0)
            before = decode(found)
        except BlockingIOError:
            os.close(self._fd)
            raise FileExistsError(
                f"{name} of cluster {config.name} is alive already: stop it first (shmcast down)"
            ) from None
        if before is None and (other := other_release(found)):
            os.close(self._fd)
            raise Incompatible(_ANOTHER.format(path=path, other=other))
        if before is None or before.process != process:
            os.close(self._fd)
            raise Corrupt(
                f"{path}, the record of {name}'s lives, is damaged: with a number that was used "
                "before it would be taken for one that remembers; stop the whole cluster (shmcast "
                "down), which removes the record, and start it anew"
            )
        self.life = replace(self.life, incarnation=before.incarnation + 1)
        os.pwrite(self._fd, self.life.encode(), 0)

    @property
    def incarnation(self) -> int:
        return self.life.incarnation

    def begin_after(self, number: int) -> None:
        """Ends this life; the next one counts on from `number`, which others remember."""
        self.life = replace(self.life, incarnation=max(number, self.incarnation))
        self.beat(_ENDED, self.life.epoch, self.life.leader)

    def show_complete(self, complete: bool) -> None:
        """From the next beat on."""
        if complete != self.life.complete:
            self.life = replace(self.life, complete=int(complete))

    def beat(self, now_ns: int, epoch: int, leader: ProcessId) -> None:
        self.life = replace(self.life, beat_ns=now_ns, epoch=epoch, leader=leader)
        os.pwrite(self._fd, self.life.encode(), 0)

    def close(self, orderly: bool = True) -> None:
        """The record stays: the next life counts on from it."""
        if self._fd >= 0:
            if orderly:
                self.beat(_ENDED, self.life.epoch, self.life.leader)
            os.close(self._fd)
            self._fd = -1


class PeerLife:
    """Another replica of this host, as its record and the kernel show it."""

    def __init__(self, config: ClusterConfig, process: ProcessId) -> None:
        self.process = process
        self._path = path_of(config, process)
        self._fd = -1
        self._data = b""  # as it was read last, and what it says
        self._life: Life | None = None
        self._pidfd = -1
        self._of: tuple[int, int] | None = None  # incarnation and pid that the pidfd belongs to
        self._poll = select.poll()

    def read(self) -> Life | None:
        """None: it has never lived, or its record is damaged."""
        data = os.pread(self._fd, _BYTES, 0) if self._fd >= 0 else b""
        if data == self._data:  # nobody writes there: it may have been removed, and made again
            if not self._is_there():
                return None
            data = os.pread(self._fd, _BYTES, 0)
            if data == self._data and self._life is not None:
                return self._life
        for _ in range(_READ_ATTEMPTS):
            life = decode(data)
            if life is not None and life.process == self.process:
                self._data, self._life = data, life
                return life
            data = os.pread(self._fd, _BYTES, 0)
        return None

    def refuse_another_release(self) -> None:
        """A replica of another release lives there: what it says would mean something else."""
        if self._is_there() and (other := other_release(os.pread(self._fd, _BYTES, 0))):
            raise Incompatible(_ANOTHER.format(path=self._path, other=other))

    def _is_there(self) -> bool:
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
            os.close(self._fd)
            self._fd, self._data, self._life = -1, b"", None
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                return False
        return True

    def is_dead(self, life: Life) -> bool:
        """Has this life ended? The kernel knows at once, without any timeout."""
        if life.ended:
            return True
        if self._of != (life.incarnation, life.pid):
            self._watch(life)
        if self._pidfd < 0:
            return True
        return bool(self._poll.poll(0))

    def _watch(self, life: Life) -> None:
        self._forget()
        self._of = (life.incarnation, life.pid)
        try:
            self._pidfd = os.pidfd_open(life.pid)
            if psutil.Process(life.pid).create_time() != life.started:
                raise PeerDead(f"pid {life.pid} is another process by now")
        except (OSError, psutil.Error, PeerDead):
            self._forget()
            self._of = (life.incarnation, life.pid)
            return
        self._poll.register(self._pidfd, select.POLLIN)

    def _forget(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self) -> None:
        self._forget()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
