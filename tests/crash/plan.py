"""Which cases are run: every role in every protocol, by effort.

full: the kill at every point, in all protocols; a copy truncated at every point of every role in
`eager`, and in the timed protocols, whose cases wait for their bounds, at every point but those of
the two long scripts (create, replace), which are thinned there. Who cleans up after a dead sender
does so, in `eager`, for every point at which that one may have died; else for some.
short: `eager` senders and receivers killed at every point, everything else at a few points, chosen
by a seed.

What a claim says of its extent is read from its jobs, so it cannot say more than was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crash.cases import Job, Script

PROTOCOLS = ("eager", "crash", "timing")
LONG = ("create", "replace")
VICTIM_POINTS = (0, 3, 7, 9, 11, 14, 17, 20, 23, 25, 27, 29, 31, 34, 38)
VICTIM_POINTS_MAX = 86  # of `send-more`: none has more; those beyond its end are no harm
NEW_COPY = 3  # its serial, where the replacer makes one; it has a name at the last points only
NEW_COPY_POINTS = "-26"


@dataclass(frozen=True, slots=True)
class Claimed:
    """Jobs that make one claim."""

    protocol: str
    role: str
    what: str
    says: str
    jobs: tuple[Job, ...]


KILLED = "killed"
COPY_LOST = "a copy truncated, with and without the kill"
COPY_SPOILT = "a copy poisoned, overwritten or unlinked"
SAYS = {
    KILLED: "survivors go on: consensus, validity, ordering, bounded time, nothing leaks",
    COPY_LOST: "the same with one copy lost at that point, the role dead or alive",
    COPY_SPOILT: "the same for the other ways in which a copy fails",
}


def _victims(protocol: str, script: Script, fault: str, effort: str, seed: int) -> list[str]:
    """A reclaimer meets a sender that was killed in mid-send: pairs of two points."""
    if not script.has_dead_sender:
        return [fault]
    chosen: Sequence[int] = VICTIM_POINTS
    if effort == "short":
        chosen = (VICTIM_POINTS[seed % len(VICTIM_POINTS)], 20)
    elif protocol == "eager":
        chosen = range(VICTIM_POINTS_MAX)
    return [f"{fault}@{point}" for point in chosen]


def _kills(protocol: str, script: Script, effort: str, seed: int) -> Iterator[Job]:
    for i, fault in enumerate(("kill", "kill+lose")):
        if effort == "short" and protocol != "eager" and fault == "kill":
            continue
        for one in _victims(protocol, script, fault, effort, seed + i):
            yield Job(protocol, script, one, _points(protocol, script, fault, effort, seed + i))
    if effort == "full" and protocol == "eager" and script.role in ("sender", "receiver"):
        yield Job(protocol, script, "kill+lose", "all", 3)


def _points(protocol: str, script: Script, fault: str, effort: str, seed: int) -> str:
    kill_only = fault in ("kill", "kill+lose")
    if f":{NEW_COPY}" in fault:
        return NEW_COPY_POINTS
    if effort == "full":
        thin = protocol != "eager" and not kill_only and script.name in LONG
        return f"~80/{seed}" if thin else "all"
    if protocol == "eager" and kill_only:
        return "all" if script.role in ("sender", "receiver") else f"~25/{seed}"
    return f"~{12 if protocol == 'eager' else 4}/{seed}"


def _losses(protocol: str, script: Script, effort: str, seed: int) -> Iterator[Job]:
    faults = [f"{kill}truncate:{copy}" for copy in script.fault_copies for kill in ("", "kill+")]
    if script.name == "replace":
        faults += [f"truncate:{copy}+lose" for copy in script.fault_copies]
    if effort == "short" and protocol != "eager":
        faults = [faults[seed % len(faults)]]
    for i, fault in enumerate(faults):
        victim = _victims(protocol, script, fault, "short", seed + i)[-1]
        yield Job(protocol, script, victim, _points(protocol, script, fault, effort, seed + i))


def _spoils(protocol: str, script: Script, effort: str, seed: int) -> Iterator[Job]:
    faults = [f"{kind}:{copy}" for kind in ("poison", "corrupt", "unlink") for copy in (0, 1)]
    if effort == "short":
        faults = [faults[(seed + len(script.name)) % len(faults)]]
    for i, fault in enumerate(faults):
        points = "all" if effort == "full" and protocol == "eager" else None
        yield Job(protocol, script, fault,
                  points or f"~{8 if effort == 'short' else 25}/{seed + i}")  # fmt: skip


def plan(scripts: list[Script], effort: str, seed: int) -> Iterator[Claimed]:
    for protocol in PROTOCOLS:
        spoken = [s for s in scripts if protocol in s.protocols]
        for role in dict.fromkeys(s.role for s in spoken):
            own = [s for s in spoken if s.role == role]
            makers = {KILLED: _kills, COPY_LOST: _losses}
            if role in ("sender", "receiver") and (effort == "full" or protocol == "eager"):
                makers[COPY_SPOILT] = _spoils
            for what, make in makers.items():
                jobs = tuple(job for s in own for job in make(protocol, s, effort, seed))
                says = f"{SAYS[what]}; run at {extent(jobs)}"
                yield Claimed(protocol, role, what, says, jobs)


def _where(points: str) -> str:
    if points == "all":
        return "every step"
    number = re.match(r"[~-](\d+)", points)
    assert number, points
    return f"{'the last' if points[0] == '-' else 'about'} {number[1]} steps"


def extent(jobs: Sequence[Job]) -> str:
    """At which steps, of which scripts; and for how many ends of the sender that died before."""
    wheres = dict.fromkeys(_where(job.points) for job in jobs)
    parts = []
    for where in wheres:
        own = dict.fromkeys(job.script.name for job in jobs if _where(job.points) == where)
        parts.append(where if len(wheres) == 1 else f"{where} ({', '.join(own)})")
    victims = {job.fault.split("@")[1] for job in jobs if "@" in job.fault}
    if victims:
        parts.append(f"with {len(victims)} points at which the sender died before")
    return ", ".join(parts)
