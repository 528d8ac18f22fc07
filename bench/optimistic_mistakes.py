"""How often is the optimistic order wrong, as the wait window grows? Paper 002, Fig. 2 (right).

    python bench/optimistic_mistakes.py [--messages N] [--out DIR]

Load: 5 groups × 3 processes, each process multicasts at a constant rate to up to 3 groups; delays
are a base and a log-normal tail, clocks differ by up to ±200 ticks. Simulated, one tick standing
for a microsecond: numbers depend on the delays, not on the machine. Bound: none; the curve must
fall, and the estimate of §6 must lie on it.
"""

from __future__ import annotations

import argparse
import runpy
from dataclasses import dataclass
from pathlib import Path
from random import Random

from shmcast.multicast.checks.optimistic import mistakes
from shmcast.multicast.protocols.core import ProcessId, Wire
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.clock import Clock
from shmcast.multicast.sim.delays import HeavyTailed
from shmcast.multicast.sim.run import Run

TAIL = HeavyTailed(median=60, sigma=1.2)
WINDOWS = (0, 300, 450, 600, 900, 1200, 2000, 4000)
SKEW = 200


@dataclass(frozen=True, slots=True)
class Lan:
    """A base delay, and now and then much more."""

    base: int = 400
    tail: HeavyTailed = TAIL

    def sample(self, src: ProcessId, dst: ProcessId, message: Wire, rng: Random) -> int:
        return self.base + self.tail.sample(src, dst, message, rng)


@dataclass(frozen=True, slots=True)
class Row:
    window: str
    deliveries: int
    mistakes: float  # fraction
    optimistic: tuple[int, int]  # median and maximum latency, in ticks
    conservative: tuple[int, int]

    def __str__(self) -> str:
        return (
            f"{self.window:>9} {self.deliveries:>11} {self.mistakes:>9.3%} "
            f"{self.optimistic[0]:>11} {self.optimistic[1]:>8} "
            f"{self.conservative[0]:>13} {self.conservative[1]:>8}"
        )


HEADING = (
    f"{'window':>9} {'deliveries':>11} {'mistakes':>9} {'optimistic':>11} {'max':>8} "
    f"{'conservative':>13} {'max':>8}"
)


def measure(window: int | None, *, messages: int, seed: int = 1, groups: int = 5) -> Row:
    """None: each process estimates its window."""
    topology = Topology.regular(groups, 3)
    rng = Random(f"{seed}/clocks")
    run = simulate(
        "optimistic",
        topology=topology,
        messages=messages,
        interval=120,
        dest_max=3,
        seed=seed,
        delay=Lan(),
        clocks={p: Clock(rng.randint(-SKEW, SKEW)) for p in topology.processes},
        options={} if window is None else {"window": window},
        record="application",
        invariants=False,
    )
    found = mistakes(run.trace)
    return Row(
        window="estimate" if window is None else str(window),
        deliveries=found.deliveries,
        mistakes=float(found.rate),
        optimistic=_latency(run, "optimistic"),
        conservative=_latency(run, ""),
    )


def _latency(run: Run, layer: str) -> tuple[int, int]:
    took = sorted(delay.last for delay in run.delays(layer))
    return took[len(took) // 2], took[-1]


HEAD = """# Mistakes of optimistic delivery against the wait window, simulated

Made by `python bench/optimistic_mistakes.py --messages {messages} --out bench/results`. Windows and
latencies in microseconds of virtual time (one tick each), latencies as median and maximum.

![mistakes](optimistic-mistakes.svg)

Paper 002, Fig. 2 (right) and §7.1.3, on a cluster at maximum throughput: "the percentage of
mistakes decreases as the wait window becomes larger"; from 0.6 to 0.9 ms it falls by more than
half, to less than 0.02 %; more than 1 ms is "not very effective in comparison to how much it
increased latency". Levels are not comparable: delays and clocks here are those at the head of the
script, not those of the paper's cluster.

"""


def markdown(rows: list[Row]) -> str:
    lines = [
        "| window | deliveries | mistakes | optimistic | max | conservative | max |",
        "| ---: " * 7 + "|",
    ]
    lines += [
        f"| {r.window} | {r.deliveries} | {r.mistakes:.3%} | {r.optimistic[0]} | {r.optimistic[1]} "
        f"| {r.conservative[0]} | {r.conservative[1]} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def save(out: Path, messages: int, rows: list[Row]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = HEAD.format(messages=messages) + markdown(rows)
    (out / "optimistic-mistakes.md").write_text(text, encoding="utf-8")
    fixed = [row for row in rows if row.window != "estimate"]
    panels = {
        "mistakes": {"%": [(int(r.window), 100 * r.mistakes) for r in fixed]},
        "latency (median)": {
            "optimistic": [(int(r.window), r.optimistic[0]) for r in fixed],
            "conservative": [(int(r.window), r.conservative[0]) for r in fixed],
        },
    }
    plots = runpy.run_path(str(Path(__file__).with_name("plots.py")))
    plots["lines"](out / "optimistic-mistakes.svg", panels, x="wait window, µs", y="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print(HEADING)
    rows: list[Row] = []
    for window in (*WINDOWS, None):
        rows.append(measure(window, messages=arguments.messages))
        print(rows[-1], flush=True)
    if arguments.out:
        save(arguments.out, arguments.messages, rows)


if __name__ == "__main__":
    main()
