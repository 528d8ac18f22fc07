"""What there is on this host, seen from outside: segments, their users, who left them behind.

Reads names in /dev/shm and maps of processes, and opens domains for a moment. It never becomes a
member, so nobody waits for it.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from shmcast.errors import ShmcastError
from shmcast.mailbox.core import CopyState
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.records import MailboxStats

SHM = Path("/dev/shm")
_SEGMENT = re.compile(r"shmcast\.(?P<domain>[A-Za-z0-9][A-Za-z0-9_.-]*)\.(?P<serial>[0-9]{1,2})")
# Address range, permissions, offset, device, inode: what follows may be any text.
_MAPPING = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ \S+ [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+)", re.M)


@dataclass(frozen=True, slots=True)
class Segment:
    """One copy, as a file."""

    domain: str
    serial: int
    size_bytes: int
    mode: int  # permission bits
    user_id: int
    inode: tuple[int, int, int]  # device major and minor, number: what a process's map shows


@dataclass(frozen=True, slots=True)
class Box:
    """One mailbox of a domain."""

    name: str
    protocol: str
    message_size: int
    capacity: int
    stats: MailboxStats


@dataclass(slots=True)
class Survey:
    """One domain. `error` says why it could not be opened; then only its segments are known."""

    name: str
    segments: list[Segment]
    boxes: list[Box] = field(default_factory=list)
    copies: list[CopyState] = field(default_factory=list)
    error: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def is_single(self) -> bool:
        """A mailbox by itself, not a domain with several."""
        return [box.name for box in self.boxes] == [self.name]

    def members(self) -> set[int]:
        """Processes that hold a place as sender or receiver."""
        senders = {s.pid for box in self.boxes for s in box.stats.senders}
        receivers = {r.pid for box in self.boxes for r in box.stats.receivers}
        return (senders | receivers) - {0}


def segments() -> dict[str, list[Segment]]:
    """Every segment on this host, by domain."""
    found: defaultdict[str, list[Segment]] = defaultdict(list)
    for path in SHM.iterdir():
        match = _SEGMENT.fullmatch(path.name)
        if match is None:
            continue
        try:
            info = path.stat()
        except FileNotFoundError:  # removed meanwhile
            continue
        inode = (os.major(info.st_dev), os.minor(info.st_dev), info.st_ino)
        found[match["domain"]].append(
            Segment(
                match["domain"],
                int(match["serial"]),
                info.st_size,
                info.st_mode & 0o777,
                info.st_uid,
                inode,
            )
        )
    return {name: sorted(found[name], key=lambda s: s.serial) for name in sorted(found)}


def survey(name: str, files: list[Segment] | None = None) -> Survey:
    """One domain and all its mailboxes. Raises FileNotFoundError if nothing has that name."""
    if files is None:
        files = segments().get(name, [])
    if not files:
        raise FileNotFoundError(f"{name}: it does not exist: create it first")
    found = Survey(name, files)
    try:
        with Domain.open(name, timeout=0.2) as domain:
            found.copies = domain.copies
            for inner in domain.mailboxes():
                box = domain.mailbox(inner)
                found.boxes.append(
                    Box(inner, box.protocol.value, box.message_size, box.capacity, box.stats())
                )
    except (ShmcastError, OSError) as error:
        found.error = str(error)
    return found


def surveys() -> list[Survey]:
    return [survey(name, files) for name, files in segments().items()]


def users() -> dict[tuple[int, int, int], set[int]]:
    """Which processes have which file mapped, members or not.

    By inode, since a segment's creator maps a file that had no name yet. Processes of others are
    invisible without privileges, so an empty set proves nothing about them.
    """
    found: defaultdict[tuple[int, int, int], set[int]] = defaultdict(set)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            maps = (process / "maps").read_bytes()
        except OSError:  # gone, or not ours
            continue
        for major, minor, inode in _MAPPING.findall(maps):
            if inode != b"0":
                found[int(major, 16), int(minor, 16), int(inode)].add(int(process.name))
    return dict(found)


def is_abandoned(found: Survey, mapped: dict[tuple[int, int, int], set[int]]) -> bool:
    """No process that we can see has it mapped. It may still be wanted: mailboxes outlive their
    creators on purpose, so this is for people to decide upon."""
    ours = {os.getpid()}
    return not any(mapped.get(segment.inode, set()) - ours for segment in found.segments)
