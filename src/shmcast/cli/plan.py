"""Plans of faults: a small TOML file, read and checked before anything is done.

[[fault]]
at_s = 0.5                  # since the start of the plan
do = "truncate"             # poison, corrupt, unlink; kill, stop, continue; replace, reap
mailbox = "telemetry"
copy = 0                    # for faults of copies

[[fault]]
at_s = 1.0
do = "kill"
mailbox = "telemetry"
receiver = 0                # or sender = 0: by place; or pid = 1234

[[fault]]
at_s = 2.0
do = "skew"                 # a clock, of a process that allows it
offset_s = -0.05
drift = 1e-4                # seconds gained per second
mailbox = "telemetry"
sender = 0
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shmcast.mailbox.clock_fault import as_words
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import (
    Kill,
    continue_process,
    kill_copy,
    kill_process,
    skew_process,
    stop_process,
)
from shmcast.mailbox.survey import surveys

COPY_FAULTS = {kill.value for kill in Kill}
PROCESS_FAULTS: dict[str, Callable[[int], None]] = {
    "kill": kill_process,
    "stop": stop_process,
    "continue": continue_process,
}
SKEW = "skew"
REPAIRS = {"replace", "reap"}
_OF_PROCESSES = {*PROCESS_FAULTS, SKEW}
_KNOWN = {*COPY_FAULTS, *_OF_PROCESSES, *REPAIRS}
_ROLES = ("sender", "receiver", "pid")
_SKEWS = ("offset_s", "drift")
_KEYS = {"at_s", "do", "mailbox", "copy", "seed", *_ROLES, *_SKEWS}


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    do: str
    mailbox: str = ""  # or domain, or domain/mailbox
    copy: int = -1
    seed: int = 0
    role: str = ""  # which of _ROLES `number` speaks of
    number: int = -1
    offset_s: float = 0.0
    drift: float = 0.0

    def describe(self) -> str:
        if self.do in COPY_FAULTS:
            return f"{self.do} copy {self.copy} of {self.mailbox}"
        if self.do in REPAIRS:
            return f"{self.do} in {self.mailbox}"
        whom = f"process {self.number}" if self.role == "pid" else f"{self.role} {self.number}"
        whom += f" of {self.mailbox}" if self.mailbox else ""
        if self.do == SKEW:
            return f"skew the clock of {whom}: {self.offset_s:+g} s, {self.drift:+g} s/s"
        return f"{self.do} {whom}"


def parse(text: str) -> list[Fault]:
    """Raises ValueError, naming the entry and what is wrong with it."""
    try:
        entries = tomllib.loads(text).get("fault", [])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None
    if not isinstance(entries, list) or not entries:
        raise ValueError("it has no [[fault]] entry")
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("fault is a list of values; write each one as a table: [[fault]]")
    faults = [_fault(number, entry) for number, entry in enumerate(entries, 1)]
    return sorted(faults, key=lambda fault: fault.at_s)


def load(path: Path) -> list[Fault]:
    try:
        return parse(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _fault(number: int, entry: dict[str, Any]) -> Fault:
    def wrong(text: str) -> ValueError:
        return ValueError(f"fault {number}: {text}")

    if unknown := set(entry) - _KEYS:
        raise wrong(f"unknown key {sorted(unknown)[0]!r}; known are {', '.join(sorted(_KEYS))}")
    do, at_s = entry.get("do", ""), entry.get("at_s", 0)
    if not isinstance(do, str) or do not in _KNOWN:
        raise wrong(f"do = {do!r}; choose one of {', '.join(sorted(_KNOWN))}")
    if not _is_number(at_s) or not 0 <= at_s < math.inf:
        raise wrong(f"at_s = {at_s!r}; it must be a number of seconds, not negative")
    roles = [role for role in _ROLES if role in entry]
    if do in _OF_PROCESSES and len(roles) != 1:
        raise wrong("say which process: one of sender = 0, receiver = 0, pid = 1234")
    if do in COPY_FAULTS and "copy" not in entry:
        raise wrong("say which copy: copy = 0")
    for key in {"copy", "seed", *roles} & entry.keys():
        if not _is_count(entry[key]):
            raise wrong(f"{key} = {entry[key]!r}; it must be a whole number, from 0")
    if unclear := _unclear_skew(entry):
        raise wrong(unclear)
    if "mailbox" not in entry and roles != ["pid"]:
        raise wrong('say where: mailbox = "name"')
    mailbox = entry.get("mailbox", "")
    if not isinstance(mailbox, str):
        raise wrong(f'mailbox = {mailbox!r}; it must be a name in quotes: mailbox = "name"')
    role = roles[0] if do in _OF_PROCESSES else ""
    return Fault(
        at_s=float(at_s),
        do=do,
        mailbox=mailbox,
        copy=entry.get("copy", -1),
        seed=entry.get("seed", 0),
        role=role,
        number=entry[role] if role else -1,
        offset_s=float(entry.get("offset_s", 0)),
        drift=float(entry.get("drift", 0)),
    )


def _unclear_skew(entry: dict[str, Any]) -> str:
    for key in _SKEWS:
        if not _is_number(entry.get(key, 0)):
            return f"{key} = {entry[key]!r}; it must be a number"
    try:
        as_words(entry.get("offset_s", 0), entry.get("drift", 0))
    except ValueError as error:
        return str(error)
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    """TOML's true is a Python int as well."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def member(fault: Fault) -> int:
    """The process that a fault speaks of. Refuses any that is no member of a mailbox here."""
    found = surveys()
    if fault.role == "pid":
        if not any(fault.number in domain.members() for domain in found):
            raise ProcessLookupError(
                f"process {fault.number} holds no place in any mailbox here: see shmcast ls --json"
            )
        return fault.number
    domain_name, _, inner = fault.mailbox.partition("/")
    for domain in found:
        for box in domain.boxes:
            if domain.name == domain_name and box.name == (inner or domain_name):
                stats = box.stats
                places = stats.senders if fault.role == "sender" else stats.receivers
                pids = [place.pid for place in places if place.pid]
                if fault.number < len(pids):
                    return pids[fault.number]
                raise ProcessLookupError(f"{fault.mailbox} has {len(pids)} {fault.role}s")
    raise FileNotFoundError(f"{fault.mailbox}: it does not exist: create it first")


def carry_out(fault: Fault) -> str:
    """Does it, and says what was done."""
    if fault.do == SKEW:
        # It may be no member yet: it has said itself that it takes part.
        pid = fault.number if fault.role == "pid" else member(fault)
        skew_process(pid, fault.offset_s, fault.drift)
        return f"{fault.describe()} (pid {pid})"
    if fault.do in PROCESS_FAULTS:
        pid = member(fault)
        PROCESS_FAULTS[fault.do](pid)
        return f"{fault.describe()} (pid {pid})"
    with Domain.open(fault.mailbox.partition("/")[0]) as domain:
        if fault.do in COPY_FAULTS:
            kill_copy(domain, fault.copy, fault.do, seed=fault.seed)
            return fault.describe()
        done = domain.replace() if fault.do == "replace" else domain.reap()
        return f"{fault.describe()}: {done}"
