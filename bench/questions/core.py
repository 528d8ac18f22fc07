"""How fast is the C core by itself, and how near to the physical limit?

Runs build/core_bench (see bench/core/core_bench.c), which `make bench` builds.
"""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

from bench.harness import Case, Measurement, Scale
from bench.peers.base import Peer

PROGRAM = Path(__file__).parents[2] / "build" / "core_bench"
LIMITS = ("line", "clockline")
_TIMEOUT_S = 60


def _run(what: str, copies: int, seconds: float) -> Measurement:
    done = subprocess.run(
        [PROGRAM, str(copies), str(seconds), what],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    found = json.loads(done.stdout)
    if "per_second" in found:
        count = found["messages"]
        return Measurement(found["per_second"], "messages/s", count, count, extra=found)
    value = found.get("p50_ns", found["mean_ns"])
    return Measurement(value, "ns", found["operations"], found["operations"], extra=found)


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    if not PROGRAM.exists():
        return []
    seconds = max(scale.seconds / 2, 0.1)
    found = [
        Case("C core", what, "two cores", 0, partial(_run, what, 1, seconds)) for what in LIMITS
    ]
    for what in ("roundtrip", "stream", "batch"):
        for copies in (1, 3):
            name = f"shmcast, {copies} {'copy' if copies == 1 else 'copies'}"
            found.append(Case("C core", what, name, copies, partial(_run, what, copies, seconds)))
    return found
