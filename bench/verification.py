"""Question: how fast is a recorded run verified in Spark, beside polars on the same files?

Load: a correct generated run, 100 processes in 10 groups, 20 deliveries a message on average. Spark
judges the six properties that bench/polars_checks.py checks too (the certificate), then everything
that the run promises; cold is the first time in a session, warm the best of the following. Bounds:
the certificate at most 3.5 (cold) and 2.1 (warm) times polars; everything at most 2.5 times the
certificate; memory given by --memory, not by the run.

Also, once each: the same with crashes and later lives, and with a flaw (an effect before its
cause), where the certificate fails and the exact checks have to look.

    python -m bench.verification [--deliveries N ...] [--memory 1g] [--out PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from bench.polars_checks import peak_mib

from shmcast.multicast.traces.flaws import FLAWS
from shmcast.multicast.traces.generate import generate
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.pipeline.session import spark_session
from shmcast.pipeline.verify import verify

PROCESSES, GROUPS = 100, 10
DELIVERIES_PER_MESSAGE = 20
SIX = ("timestamp-order", "uniform-integrity", "uniform-agreement", "uniform-fifo",
       "uniform-causal", "uniform-real-time")  # fmt: skip
COLD_MAX, WARM_MAX, ALL_MAX = 3.5, 2.1, 2.5
WARM_RUNS = 2
CRASHES, FLAW = 5, "causal"
NOTHING: set[str] = set()


@dataclass(frozen=True, slots=True)
class Sample:
    deliveries: int
    parquet_mib: int
    polars_s: float
    polars_peak_mib: int
    session_s: float
    certificate_cold_s: float
    certificate_warm_s: float
    everything_s: float  # warm
    properties: int  # of "everything"
    with_crashes_s: float  # everything, once
    with_a_flaw_s: float  # everything, once
    java_peak_mib: int


def in_polars(run: Path) -> dict[str, Any]:
    """In a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.polars_checks", str(run)],
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if any(answer["violations"].values()):
        raise AssertionError(f"polars finds fault with a correct run: {answer['violations']}")
    return answer


def timed(spark: Any, run: Path, names: tuple[str, ...], breaks: set[str] = NOTHING) -> float:
    began = time.perf_counter()
    found = verify(spark, run, names)
    took = time.perf_counter() - began
    wrong = {n for n, v in found.verdicts.items() if v.violated}
    if wrong != breaks:
        raise AssertionError(f"Spark finds {wrong} violated, not {breaks}")
    return took


def elsewhere(spark: Any, place: Path, deliveries: int, **how: Any) -> float:
    """Everything, of another run of that size."""
    with tempfile.TemporaryDirectory(prefix="bench-verification-", dir=place) as run:
        info = generated(Path(run), deliveries, **how)
        flaw = how.get("break_")
        return timed(spark, Path(run), info.promises, set(FLAWS[flaw].breaks) if flaw else NOTHING)


def generated(run: Path, deliveries: int, **how: Any) -> RunInfo:
    messages = deliveries // DELIVERIES_PER_MESSAGE
    return generate(run, processes=PROCESSES, groups=GROUPS, messages=messages, seed=1, **how)


def java_peak_mib() -> int:
    """Of this process's Java."""
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            return peak_mib(child.pid)
    raise AssertionError("no Java to be found")


def measure(run: Path, deliveries: int, memory: str) -> Sample:
    info = generated(run, deliveries)
    size = sum(path.stat().st_size for path in run.rglob("*.parquet"))
    polars = in_polars(run)
    began = time.perf_counter()
    with spark_session("bench", conf={"spark.driver.memory": memory}) as spark:
        session_s = time.perf_counter() - began
        cold = timed(spark, run, SIX)
        warm = min(timed(spark, run, SIX) for _ in range(WARM_RUNS))
        everything = min(timed(spark, run, info.promises) for _ in range(WARM_RUNS))
        crashes = elsewhere(spark, run.parent, deliveries, crashes=CRASHES)
        flaw = elsewhere(spark, run.parent, deliveries, break_=FLAW)
        peak = java_peak_mib()
    return Sample(
        deliveries=deliveries,
        parquet_mib=size >> 20,
        polars_s=round(polars["seconds"], 2),
        polars_peak_mib=polars["peak_mib"],
        session_s=round(session_s, 2),
        certificate_cold_s=round(cold, 2),
        certificate_warm_s=round(warm, 2),
        everything_s=round(everything, 2),
        properties=len(info.promises),
        with_crashes_s=round(crashes, 2),
        with_a_flaw_s=round(flaw, 2),
        java_peak_mib=peak,
    )


def table(samples: list[Sample], memory: str) -> str:
    lines = [
        "# A recorded run verified in Spark",
        "",
        f"`python -m bench.verification --deliveries {' '.join(str(s.deliveries) for s in samples)}"
        f" --memory {memory}`, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} virtual cores "
        f"({platform.machine()}), one run; load average at the end {os.getloadavg()[0]:.1f}.",
        f"{PROCESSES} processes, {GROUPS} groups; six checks in polars (its own process, files in "
        "the kernel's cache) and the same six properties in Spark, then all that are promised.",
        "",
        "| deliveries | Parquet | polars, six checks | Spark, the same six: cold / warm | "
        "all properties, warm | the same with crashes / with a flaw, once | "
        "peak memory: polars / Java |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {s.deliveries:,} | {s.parquet_mib} MiB | {s.polars_s:.1f} s | "
        f"{s.certificate_cold_s:.1f} / {s.certificate_warm_s:.1f} s | {s.everything_s:.1f} s "
        f"({s.properties}) | {s.with_crashes_s:.1f} / {s.with_a_flaw_s:.1f} s | "
        f"{s.polars_peak_mib} / {s.java_peak_mib} MiB |"
        for s in samples
    ]
    lines += ["", "| ratio | bound | found | |", "| --- | ---: | ---: | --- |"]
    last = samples[-1]
    for name, bound, ratio in (
        ("certificate, cold, to polars", COLD_MAX, last.certificate_cold_s / last.polars_s),
        ("certificate, warm, to polars", WARM_MAX, last.certificate_warm_s / last.polars_s),
        ("all properties to the certificate", ALL_MAX, last.everything_s / last.certificate_warm_s),
    ):
        word = "met" if ratio <= bound else "not met"
        lines.append(f"| {name} | {bound} | {ratio:.2f} | {word} |")
    lines += ["", f"Ratios are of {last.deliveries:,} deliveries. A session took "
              f"{last.session_s:.1f} s to start, once per command.", ""]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--memory", default="1g", help="of Java, as Spark writes it")
    parser.add_argument("--out", type=Path, help="FILE.json and FILE.md")
    asked = parser.parse_args()
    samples = []
    for deliveries in asked.deliveries:
        with tempfile.TemporaryDirectory(prefix="bench-verification-") as place:
            samples.append(measure(Path(place), deliveries, asked.memory))
        print(json.dumps(asdict(samples[-1])), flush=True)
    text = table(samples, asked.memory)
    print(text)
    if asked.out is not None:
        asked.out.with_suffix(".md").write_text(text, encoding="utf-8")
        figures = {"memory": asked.memory, "samples": [asdict(one) for one in samples]}
        asked.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
