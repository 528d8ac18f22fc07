"""Runs every question against every peer, interleaved, and writes the results.

    python -m bench.run [--quick] [--only QUESTION ...] [--peers NAME ...] [--repetitions N]
                        [--out DIRECTORY]

Writes <date>-<host kind>.json (all runs), .npz (raw samples in ns), .md (tables and targets)
and .svg (every question as bars with their spread).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench.harness import Case, Scale, cpus
from bench.peers.all import missing_peers, present_peers
from bench.peers.base import Peer
from bench.plots import draw
from bench.questions import (
    core,
    counters,
    frames,
    idle,
    multicast,
    roundtrip,
    scaling,
    throughput,
)
from bench.report import page, rows_of

from shmcast.cli.output import progress

QUESTIONS = {
    "core": core,
    "roundtrip": roundtrip,
    "throughput": throughput,
    "multicast": multicast,
    "frames": frames,
    "scaling": scaling,
    "idle": idle,
    "counters": counters,
}
RESULTS = Path(__file__).parent / "results"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _machine() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": len(cpus()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load before": round(os.getloadavg()[0], 2),
    }


def _host_kind() -> str:
    return f"{platform.machine()}-{len(cpus())}cores"


def _once(case: Case, number: int, samples: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {
        "question": case.question,
        "case": case.case,
        "peer": case.peer,
        "copies": case.copies,
        "repetition": number,
        "error": None,
        "worst_sample_ns": None,
    }
    try:
        found = case.run()
    except Exception as error:  # a peer that fails is named, not hidden
        return run | {"error": str(error) or repr(error)}
    if found.samples is not None:
        run["samples"] = f"{case.question}/{case.case}/{case.peer}/{number}"
        run["worst_sample_ns"] = int(found.samples.max())
        samples[run["samples"]] = found.samples
    return run | {
        "value": found.value,
        "unit": found.unit,
        "sent": found.sent,
        "arrived": found.arrived,
        "extra": found.extra,
    }


def _runs_of(cases: list[Case], scale: Scale, samples: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Repetitions outside, peers inside, so that the machine's moods hit everyone."""
    failed: set[tuple[str, str, str]] = set()
    for number in range(scale.repetitions):
        for case in cases:
            key = (case.question, case.case, case.peer)
            if key in failed:
                continue  # it would only hang again
            run = _once(case, number, samples)
            if run["error"]:
                failed.add(key)
            yield run


def measure(
    scale: Scale, wanted: list[str], peers: list[Peer], samples: dict[str, Any]
) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    every = {name: QUESTIONS[name].cases(peers, scale) for name in wanted}
    with progress("measuring", scale.repetitions * sum(map(len, every.values()))) as show:
        for name, cases in every.items():
            start = time.monotonic()
            for run in _runs_of(cases, scale, samples):
                runs.append(run)
                show(len(runs))
            if not sys.stderr.isatty():
                print(f"{name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return runs


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less than a minute, once each")
    parser.add_argument("--tiny", action="store_true", help="only to see that it works")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--peers", nargs="+", default=[""], help="parts of their names")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    scale = Scale.named("tiny" if arguments.tiny else "quick" if arguments.quick else "full")
    if arguments.repetitions:
        scale = Scale(scale.seconds, scale.round_trips, scale.frames, arguments.repetitions)
    machine, samples = _machine(), {}
    peers = [peer for peer in present_peers() if any(part in peer.name for part in arguments.peers)]
    runs = measure(scale, arguments.only, peers, samples)
    machine["load after"] = round(os.getloadavg()[0], 2)
    rows = rows_of(runs)
    text = page(machine, missing_peers(), rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / f"{machine['date'][:10]}-{_host_kind()}"
    command = " ".join(["python -m bench.run", *map(shlex.quote, sys.argv[1:])])
    content = {
        "command": command,
        "machine": machine,
        "missing": missing_peers(),
        "rows": rows,
        "runs": runs,
    }
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    stem.with_suffix(".md").write_text(text + "\n")
    np.savez_compressed(stem.with_suffix(".npz"), **samples)
    written = [".json", ".npz", ".md", *([] if arguments.tiny else draw(rows, stem))]
    print(text)
    print(f"\nwritten: {stem}{', '.join(written)}")


if __name__ == "__main__":
    main()
