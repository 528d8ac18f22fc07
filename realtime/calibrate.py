"""Measures the constants on this machine and proposes bounds.

What is measured is handed in (`Measure`), so this file knows nothing of mailboxes: each step on one
copy, for every message size, with warm and cold cache, in every scheduling class permitted here,
idle and under load. The result is a file per machine; a mailbox whose bounds came from it carries
its number.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from shmcast.realtime.admission import Overhead
from shmcast.realtime.bounds import NS_PER_MS, Bounds
from shmcast.realtime.histogram import WORDS, Histogram

FORMAT = 3
SIZED = ("write", "read")  # these depend on the size of the message
FIXED = ("flag", "decide", "clear", "wake", "turn")
WARM_ONLY = ("wake", "turn")
_LIMIT_S = 5.0  # of one measurement; what takes long gets fewer samples
BUSY = 0.1  # others may use so much of a machine that is called idle


class Point(NamedTuple):
    """One condition that something was measured under."""

    step: str
    size: int
    cold: bool
    kernel_class: str
    load: str  # "idle", or kinds joined by "+"


Measure = Callable[[Point, int, float], Histogram]  # (what, samples, most seconds)


@dataclass(frozen=True, slots=True)
class Machine:
    """Figures of one machine mean nothing on another, or with another kernel or clock."""

    identity: str
    processor: str
    cores: int
    kernel: str
    clock_source: str


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return "unknown"


def this_machine() -> Machine:
    name = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            name = line.partition(":")[2].strip()
            break
    identity = _first_line("/etc/machine-id") + platform.node()
    return Machine(
        hashlib.sha256(identity.encode()).hexdigest()[:16],
        name,
        os.cpu_count() or 1,
        platform.release(),
        _first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: tuple[int, ...]
    classes: tuple[str, ...]
    loads: tuple[str, ...]
    samples: int

    def points(self) -> list[Point]:
        return [
            Point(step, size, cold, kernel_class, load)
            for load in self.loads
            for kernel_class in self.classes
            for step in (*SIZED, *FIXED)
            for size in (self.sizes if step in SIZED else (0,))
            for cold in ((False,) if step in WARM_ONLY else (False, True))
        ]

    def samples_of(self, point: Point) -> int:
        """Fewer of what takes long: a large message, a sleep."""
        if point.step == "wake":
            return max(100, self.samples // 20)
        return max(50, self.samples * 4096 // max(4096, 4 * point.size))


@dataclass(frozen=True, slots=True)
class Calibration:
    machine: Machine
    created_s: int
    epsilon_ns: int
    others: float  # share of the machine that other programs used while it was meant to be idle
    points: dict[Point, Histogram]

    @property
    def number(self) -> int:
        """Names it, in bounds and mailboxes: 63 bits of a hash of everything in it."""
        text = json.dumps(self._content(), sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1 or 1

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "machine": asdict(self.machine),
            "created_s": self.created_s,
            "epsilon_ns": self.epsilon_ns,
            "others": self.others,
            "points": [
                {**point._asdict(), "most_ns": h.most_ns, "counts": [list(p) for p in h.pairs()]}
                for point, h in sorted(self.points.items())
            ],
        }

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, **self._content()}

    @classmethod
    def from_json(cls, raw: Any) -> Calibration:
        """Raises ValueError for anything that this program did not write."""
        try:
            if raw["format"] != FORMAT:
                raise ValueError(f"format {raw['format']}, not {FORMAT}: calibrate again")
            points = {}
            for p in raw["points"]:
                if any(not 0 <= b < WORDS or c < 0 for b, c in p["counts"]):
                    raise ValueError("a bucket out of range")
                key = Point(p["step"], p["size"], p["cold"], p["kernel_class"], p["load"])
                points[key] = Histogram.sparse(p["counts"], p["most_ns"])
            machine = Machine(**raw["machine"])
            found = cls(machine, raw["created_s"], raw["epsilon_ns"], raw["others"], points)
            number = raw["number"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not a calibration: {error!r}") from None
        if found.number != number:
            raise ValueError("the calibration was changed after it was written")
        return found

    # Proposals.

    def worst(
        self, step: str, *, percentile: float, kernel_class: str, size: int = 0
    ) -> Histogram | None:
        """Of all loads and of warm and cold: the histogram whose percentile is greatest."""
        sizes = sorted({p.size for p in self.points if p.step == step})
        fitting = next((s for s in sizes if s >= size), None)
        found = [
            h
            for p, h in self.points.items()
            if p.step == step and p.kernel_class == kernel_class and p.size == fitting and h.total
        ]
        return max(found, key=lambda h: h.percentile(percentile), default=None)

    def thin(
        self, *, message_bytes: int, percentile: float, kernel_class: str = "other"
    ) -> dict[str, float]:
        """Steps with too few samples for this percentile, and the highest that theirs support. What
        is proposed for them rests on their largest value."""
        sizes = {step: message_bytes if step in SIZED else 0 for step in (*SIZED, *FIXED)}
        found = {}
        for step, size in sizes.items():
            h = self.worst(step, percentile=percentile, kernel_class=kernel_class, size=size)
            if h is not None and percentile < 100 and not h.supports(percentile):
                found[step] = round(h.highest_percentile, 4)
        return found

    def propose(
        self,
        *,
        copies: int,
        message_bytes: int,
        protocol: str = "eager",
        percentile: float = 99.99,
        margin: float = 2.0,
        kernel_class: str = "other",
        poll_ns: int = NS_PER_MS,
    ) -> Bounds:
        """Each constant at its percentile, times the margin; its largest value where the samples
        are too few for that (`thin`).

        In `timing` a receiver's thread must come in time as well: how late it is woken is spread
        over the copies' δd.
        """

        def at(step: str, size: int = 0) -> int:
            return self._at(step, size, percentile, margin, kernel_class)

        late = -(-at("wake") // copies) if protocol == "timing" else 0
        return Bounds(
            copies=copies,
            write_ns=at("write", message_bytes),
            flag_ns=at("flag"),
            decide_ns=at("decide") + late,
            read_ns=at("read", message_bytes),
            clear_ns=at("clear"),
            epsilon_ns=self.epsilon_ns,
            poll_ns=poll_ns,
            calibration=self.number,
        )

    def _at(self, step: str, size: int, percentile: float, margin: float, kernel_class: str) -> int:
        if margin < 1:
            raise ValueError(f"a margin is at least 1, not {margin}")
        h = self.worst(step, percentile=percentile, kernel_class=kernel_class, size=size)
        if h is None:
            raise ValueError(
                f"nothing was measured for {step} of {size} bytes in class {kernel_class}: "
                "run `shmcast calibrate` with a --message-size that covers it, as a user who "
                "may use this class"
            )
        return max(1, int(h.percentile(percentile) * margin))

    def overhead(
        self, *, kernel_class: str = "fifo", percentile: float = 99.99, margin: float = 2.0
    ) -> Overhead:
        """For `Scheduler(…, overhead=…)`: how late a thread of this class wakes, and what the
        dispatcher does around each job."""
        wake, turn = (self._at(s, 0, percentile, margin, kernel_class) for s in WARM_ONLY)
        return Overhead(wake, turn)


def calibrate(
    plan: Plan,
    *,
    measure: Measure,
    load: Callable[[Sequence[str]], AbstractContextManager[object]],
    epsilon: Callable[[], int],
    progress: Callable[[Point], None] = lambda _: None,
    others: Callable[[], float] | None = None,
) -> Calibration:
    """Runs the plan. `progress` is told before each measurement. `others` is the processor time
    that other programs have used so far, in seconds of the whole machine."""
    points: dict[Point, Histogram] = {}
    others, share = others or others_s, 0.0
    for name, group in _by_load(plan.points()):
        with load([] if name == "idle" else name.split("+")):
            started, used = time.monotonic(), others()
            for point in group:
                progress(point)
                points[point] = measure(point, plan.samples_of(point), _LIMIT_S)
            if name == "idle":
                took = max(1e-3, time.monotonic() - started) * (os.cpu_count() or 1)
                share = round(min(1.0, max(0.0, (others() - used) / took)), 3)
    return Calibration(this_machine(), int(time.time()), epsilon(), share, points)


def others_s() -> float:
    """Processor time that was not ours since the machine was started, stolen time included."""
    user, nice, system, _, _, *rest = map(int, _first_line("/proc/stat").split()[1:9])
    mine = os.times()
    busy = (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
    return busy - mine.user - mine.system


def _by_load(points: Sequence[Point]) -> Iterator[tuple[str, list[Point]]]:
    for load in dict.fromkeys(point.load for point in points):
        yield load, [point for point in points if point.load == load]


# The file.


def default_path(machine: Machine | None = None) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "shmcast" / f"calibration-{(machine or this_machine()).identity}.json"


def store(found: Calibration, path: Path | None = None) -> Path:
    """Whole or not at all."""
    path = path or default_path(found.machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".calibration-")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(found.to_json(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def load_stored(path: Path | None = None) -> Calibration:
    """Raises FileNotFoundError, or ValueError if it is damaged or another machine's."""
    path = path or default_path()
    try:
        found = Calibration.from_json(json.loads(path.read_text()))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not a calibration: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    now = this_machine()
    if found.machine != now:
        changed = [k for k, v in asdict(now).items() if asdict(found.machine)[k] != v]
        raise ValueError(f"{path}: measured with another {', '.join(changed)}: calibrate again")
    return found
