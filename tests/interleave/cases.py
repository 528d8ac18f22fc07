"""Which scenarios are run, how, and what is claimed of them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAST_RESORT_SECONDS = 3600  # a search ends by its states: the same on a busy machine
SC_ONE_TIME = "grows=0"  # the clock stands still while anyone can run: stamps are equal
TSO = "model=tso"


@dataclass(frozen=True, slots=True)
class Case:
    scenario: str
    options: tuple[str, ...] = ()
    how: str = "all"  # or "random"
    seconds: float = 2  # a random search takes so long; another one about so long, on one core
    states: int = 20_000_000  # where a search that should end gives up
    short: bool = False
    breaks: str = ""  # must be violated: the paper says so

    @property
    def name(self) -> str:
        return " ".join([self.scenario, *self.options])


def case(text: str, **more: Any) -> Case:
    scenario, *options = text.split()
    return Case(scenario, tuple(options), **more)


# Searched to the end: claims of "every interleaving".
ALL = [
    case(f"eager-1x2 {SC_ONE_TIME}", short=True),
    case(f"eager-1x2 {SC_ONE_TIME} fine=1"),
    case("eager-2s1r"),
    case(f"eager-2s1r {SC_ONE_TIME}", short=True),
    case(f"eager-2s1r {SC_ONE_TIME} {TSO}", short=True),
    case(f"eager-2s1r {SC_ONE_TIME} ticks=1"),
    case(f"eager-2x1 {SC_ONE_TIME}", seconds=35),
    case(f"eager-low {SC_ONE_TIME}", short=True),
    case(f"eager-crash {SC_ONE_TIME}", seconds=4),
    case(f"eager-boxes-crash {SC_ONE_TIME}", short=True),
    case("eager-sleep", short=True),
    case(f"eager-sleep {TSO}", short=True),
    case("eager-full"),
    case(f"eager-full-2r {SC_ONE_TIME}"),
    case(f"eager-full-dead {SC_ONE_TIME}"),
    case("eager-join", short=True),
    case(f"eager-leave {SC_ONE_TIME}", short=True),
    case(f"eager-reclaim {SC_ONE_TIME}", short=True),
    case("crash-two", short=True),
    case("crash-two ticks=1", seconds=9),
    case("crash-two-killed", short=True),
    case("crash-split crashes=0", seconds=2),
    case("crash-split copies=0 ticks=1", short=True),
    case("crash-half-two", short=True),
    case("crash-split", seconds=16),
    case("crash-split crashes=0 ticks=1", seconds=43),
    case("timing-two", short=True),
    case("timing-two-killed", short=True),
    case("timing-three crashes=0", short=True),
    case("timing-three-early", short=True),
    # A copy fails, in every protocol; three copies; two senders, two receivers, two copies.
    case(f"eager-copy-small {SC_ONE_TIME}", seconds=10),
    case(f"eager-copy-small {SC_ONE_TIME} fault=poison", seconds=5),
    case(f"eager-three-copies {SC_ONE_TIME} copies=1", seconds=46),
    case(f"eager-three {SC_ONE_TIME}", short=True),
    case(f"eager-three-2r {SC_ONE_TIME}", short=True),
    case("timing-one-copy", short=True),
    case("timing-three-copies", seconds=50),
    case("timing-two-copy", seconds=45),
    case("timing-half-two", seconds=42),
    case(f"eager-late {SC_ONE_TIME}", seconds=65),
    case(f"eager-boxes {SC_ONE_TIME}", seconds=35),
    case(f"eager-2x1x2 {SC_ONE_TIME}", seconds=20),
    case("crash-2x2 ticks=0", seconds=30),
    # Store buffers.
    case(f"eager-1x2 {SC_ONE_TIME} {TSO}", seconds=3),
    case(f"eager-low {SC_ONE_TIME} {TSO}", seconds=3),
    case(f"eager-leave {SC_ONE_TIME} {TSO}", seconds=3),
    case(f"eager-boxes-crash {SC_ONE_TIME} {TSO}", short=True),
    case(f"eager-full {TSO}"),
    case(f"eager-join {TSO}"),
    case(f"crash-two {TSO}", short=True),
    case(f"crash-half-two {TSO}"),
    case(f"timing-two {TSO}", short=True),
    case(f"timing-two-killed {TSO}"),
]
# Searched twice: the reduction must not change which ends there are.
SOUND = [
    case(f"eager-tiny {SC_ONE_TIME}"),
    case("eager-tiny"),
    case(f"eager-tiny {SC_ONE_TIME} {TSO} crashes=0"),
    case(f"eager-2s1r {SC_ONE_TIME}"),
]
# Too many states: as far as the bound on preemptions, or at random, as the name says.
SOME = [
    case(f"eager-copy {SC_ONE_TIME} preemptions=1", seconds=4),
    case(f"eager-replace {SC_ONE_TIME} preemptions=0", seconds=1),
    case(f"eager-poison {SC_ONE_TIME} preemptions=2", seconds=10, states=2_000_000),
    case("crash-two-copy preemptions=1", seconds=4),
    case("timing-threads preemptions=1", seconds=70),
    *(
        case(name, how="random", seconds=10)
        for name in (
            "random-3x3", "random-members", "random-replace", "random-boxes", "eager-copy",
            "eager-copy-1r", "eager-poison-tie", "eager-crash-copy", "eager-late",
            "eager-late-copy", "eager-full-copy", "eager-evict", "eager-evict-join",
            "eager-join-2", "eager-claims", "eager-low", "eager-replace-copy", "crash-1x2",
            "crash-killed", "crash-copy", "crash-half-flagged", "crash-slow-receiver",
            "timing-1x3", "timing-early", "timing-late", "timing-two-copy", "timing-three",
            "timing-three-late", "timing-threads", "timing-threads-send", "eager-poison",
            "eager-three-copies",
        )
    ),
]  # fmt: skip
NEGATIVE = [
    case("crash-fast-receiver", how="random", seconds=120, breaks="validity", short=True),
]


def run(program: Path, what: Case, seconds: float = 0) -> dict[str, Any]:
    """The checker's answer, with the command that repeats it. `seconds`: of a random search."""
    command = [str(program), what.how, what.scenario, *what.options]
    if what.how == "all":
        seconds = LAST_RESORT_SECONDS
        command.append(f"states={what.states}")
    command.append(f"seconds={seconds or what.seconds:g}")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=(seconds or what.seconds) + 120,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def listed(program: Path) -> list[str]:
    """Each scenario's name and what it is about."""
    done = subprocess.run([str(program), "list"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def story(program: Path, what: Case, schedule: str) -> str:
    """The failing schedule as a table."""
    command = [str(program), "story", what.scenario, schedule, *what.options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
