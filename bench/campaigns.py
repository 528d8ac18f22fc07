"""Question: in how many runs with faults does a protocol break a promise?

Load: seeds 0 … N - 1 of every protocol's campaign: shape, load, delays, clocks and faults are drawn
from the seed; promises are checked on every run, invariants after each step. Bound: none violated,
none left open.

    python bench/campaigns.py [--runs 20000] [--jobs 2] [--parts FILE.jsonl] [--out DIR] [name ...]

Parts that are in the file already are not run again; without names, all protocols.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from shmcast.multicast.protocols.registry import names
from shmcast.multicast.sim.campaign import TICKS_PER_HOUR, campaign, spec_of

PART_RUNS = 500
GC_THRESHOLD = 50_000
COLUMNS = (
    "Crash",
    "Recover",
    "Partition",
    "Slow",
    "WrongNomination",
    "WrongSuspicion",
    "Disturbance",
    "SendOmission",
    "ReceiveOmission",
    "ClockFault",
)

HEAD = """# Campaigns: every protocol under seeded faults

Made by `python bench/campaigns.py --runs {runs} --out bench/results`; one protocol's by
`shmcast sim --campaign NAME --seeds {runs}`, one run's by `shmcast sim NAME --replay SEED`. The
seed decides everything but the CPU time: the same code gives the same table. A third of the runs
have no fault. Invariants are checked after each step, promises on each run; *open* is a run that
never came to rest, so that liveness could not be judged.

"""


@dataclass(slots=True)
class Part:
    name: str
    first: int
    runs: int
    steps: int
    ticks: int
    faults: dict[str, int]
    failures: dict[str, str]
    undetermined: list[int]
    cpu: float


@dataclass(slots=True)
class Total:
    runs: int = 0
    steps: int = 0
    ticks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violated: int = 0
    undetermined: int = 0
    cpu: float = 0.0

    def add(self, part: Part) -> None:
        self.runs += part.runs
        self.steps += part.steps
        self.ticks += part.ticks
        self.faults.update(part.faults)
        self.violated += len(part.failures)
        self.undetermined += len(part.undetermined)
        self.cpu += part.cpu


def run_part(name: str, first: int, runs: int) -> Part:
    gc.set_threshold(GC_THRESHOLD)
    began = time.process_time()
    found = campaign(spec_of(name), range(first, first + runs))
    return Part(
        name=name,
        first=first,
        runs=found.runs,
        steps=found.steps,
        ticks=found.virtual_ticks,
        faults=dict(found.faults),
        failures={str(seed): text for seed, text in found.failures.items()},
        undetermined=found.undetermined,
        cpu=round(time.process_time() - began, 3),
    )


def parts_of(protocols: Iterable[str], runs: int) -> Iterator[tuple[str, int, int]]:
    for first in range(0, runs, PART_RUNS):
        for name in protocols:
            yield name, first, min(PART_RUNS, runs - first)


def known_parts(path: Path | None) -> dict[tuple[str, int, int], Part]:
    if path is None or not path.exists():
        return {}
    parts = [Part(**json.loads(line)) for line in path.read_text().splitlines()]
    return {(p.name, p.first, p.runs): p for p in parts}


def run_parts(wanted: list[tuple[str, int, int]], jobs: int, path: Path | None) -> Iterator[Part]:
    known = known_parts(path)
    yield from (known[key] for key in wanted if key in known)
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        missing = [pool.submit(run_part, *key) for key in wanted if key not in known]
        for done in as_completed(missing):
            part = done.result()
            if path is not None:
                with path.open("a") as file:
                    file.write(json.dumps(asdict(part)) + "\n")
            yield part


def table(totals: dict[str, Total]) -> Iterator[str]:
    kinds = [kind for kind in COLUMNS if any(t.faults[kind] for t in totals.values())]
    kinds += sorted({k for t in totals.values() for k in t.faults} - set(COLUMNS))
    head = ["protocol", "runs", "violated", "open", "steps", "virtual h", "CPU s", *kinds]
    yield f"| {' | '.join(head)} |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    for name, total in sorted(totals.items()):
        cells = [
            name,
            f"{total.runs:,}",
            str(total.violated),
            str(total.undetermined),
            f"{total.steps:,}",
            f"{total.ticks / TICKS_PER_HOUR:.2f}",
            f"{total.cpu:.0f}",
            *(f"{total.faults[kind]:,}" for kind in kinds),
        ]
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--parts", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    totals: dict[str, Total] = {}
    wanted = list(parts_of(args.names or names(), args.runs))
    for part in run_parts(wanted, args.jobs, args.parts):
        totals.setdefault(part.name, Total()).add(part)
        for text in part.failures.values():
            print(text, flush=True)
    text = "\n".join(table(totals))
    print(text)
    everything = sum(t.runs for t in totals.values())
    faults = sum(t.faults.total() for t in totals.values())
    bad = sum(t.violated + t.undetermined for t in totals.values())
    summary = f"{everything:,} runs, {faults:,} faults, {bad} runs violated or open."
    print(summary)
    if args.out is not None:
        page = HEAD.format(runs=args.runs) + summary + "\n\n" + text + "\n"
        (args.out / "campaigns.md").write_text(page)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
