"""How many 64-byte messages per second does Spark read from one mailbox, and how long is a batch?

A keeper receives; a query reads Arrow batches into Spark's no-op sink. Twice: from a sender that
sends batches of 64 as fast as it can (rows per second), and from one that sends a batch every
20 ms (how old is a row when its micro-batch is done). Warm-up batches are left out. The processor
time of each process says where the time goes, also on a busy machine.

    python -m bench.streaming [--seconds S] [--out PATH]

Bound: 1 million rows/s. Writes PATH.json and PATH.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from shmcast import Mailbox
from shmcast.pipeline.intake import Intake
from shmcast.pipeline.session import spark_session
from shmcast.pipeline.source import register

RECORD_BYTES = 64
WARM_UP_BATCHES = 5
PATIENCE_S = 120.0
TARGET_ROWS_PER_S = 1_000_000
NAME = "bench-streaming"
SENDER = """
import sys, time, shmcast
pause_s = float(sys.argv[2])
with shmcast.Mailbox.open(sys.argv[1]) as box, box.sender() as tx:
    messages = [bytes(64)] * 64
    while True:
        try:
            tx.send_many(messages, timeout=60)
        except shmcast.Rejected:
            continue
        if pause_s:
            time.sleep(pause_s)
"""


@dataclass(frozen=True, slots=True)
class Reading:
    rows: int
    batches: int
    batch_median_ms: float
    batch_worst_ms: float
    rows_per_s: float  # while micro-batches ran
    cpu_s: dict[str, float]  # per million rows, by process


@contextmanager
def sending(pause_s: float) -> Iterator[None]:
    with (
        Mailbox.create(NAME, message_size=RECORD_BYTES, capacity=16384, copies=1),
        subprocess.Popen([sys.executable, "-c", SENDER, NAME, str(pause_s)]) as sender,
    ):
        try:
            yield
        finally:
            sender.kill()
            Mailbox.remove(NAME)


def cpu_s() -> dict[str, float]:
    """Of all processes of this benchmark, by what they do."""
    me = psutil.Process()
    keepers = [p for p in psutil.process_iter(["cmdline"]) if _is_keeper(p.info["cmdline"])]
    found = {"driver": _cpu(me), "keeper": sum(map(_cpu, keepers))}
    for child in me.children(recursive=True):
        if child in keepers:
            continue
        words = child.cmdline()
        what = "Java" if child.name() == "java" else "sender" if NAME in words else "worker"
        found[what] = found.get(what, 0.0) + _cpu(child)
    return found


def _is_keeper(words: list[str] | None) -> bool:
    return bool(words) and "shmcast.pipeline.keeper" in words and NAME in words[-1]


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def receiving_alone(seconds: float) -> float:
    """Rows per second of the intake, without Spark."""
    rows = 0
    with Intake([NAME]) as intake:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rows += sum(len(batch) for batch in intake.take(0.1))
    return rows / seconds


def reading_in_spark(spark: Any, seconds: float) -> Reading:
    with tempfile.TemporaryDirectory() as place:
        query = (
            spark.readStream.format("mailbox")
            .option("mailbox", NAME)
            .option("spool", f"{place}/spool")
            .option("linger", "0")
            .option("maxRowsPerBatch", "2000000")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", f"{place}/checkpoint")
            .start()
        )
        limit = time.monotonic() + PATIENCE_S
        while len(query.recentProgress) < WARM_UP_BATCHES and time.monotonic() < limit:
            time.sleep(0.1)
        done, before = len(query.recentProgress), cpu_s()
        time.sleep(seconds)
        batches, after = query.recentProgress[done:], cpu_s()
        error = query.exception()
        query.stop()
        if error is not None:
            raise RuntimeError(str(error).splitlines()[0])
    return reading([b for b in batches if b["numInputRows"]], before, after)


def reading(batches: list[Any], before: dict[str, float], after: dict[str, float]) -> Reading:
    rows = sum(b["numInputRows"] for b in batches)
    took_ms = [float(b["batchDuration"]) for b in batches]
    spent = {name: (after[name] - before.get(name, 0.0)) / (rows / 1e6) for name in after}
    return Reading(
        rows=rows,
        batches=len(batches),
        batch_median_ms=statistics.median(took_ms),
        batch_worst_ms=max(took_ms),
        rows_per_s=round(rows / sum(took_ms) * 1e3),
        cpu_s={name: round(value, 2) for name, value in sorted(spent.items())},
    )


def text(alone: float, full: Reading, slow: Reading, seconds: float) -> str:
    word = "met" if full.rows_per_s >= TARGET_ROWS_PER_S else "missed"
    spent = ", ".join(f"{name} {value}" for name, value in full.cpu_s.items())
    return f"""# Spark reading one mailbox

`python -m bench.streaming --seconds {seconds:g}`, {time.strftime("%Y-%m-%d")}, {os.cpu_count()}
virtual cores ({platform.machine()}), one run, load average at the end {os.getloadavg()[0]:.1f}.
{RECORD_BYTES}-byte records, 1 copy, no-op sink. Sender, keeper, Spark and its Python worker share
the cores.

| question | figure |
| --- | ---: |
| receiving into Arrow, without Spark | {alone / 1e6:.2f} M rows/s |
| in Spark, a sender without pause | {full.rows_per_s / 1e6:.2f} M rows/s |
| its micro-batches: how many, median / longest | {full.batches}, \
{full.batch_median_ms:.0f} / {full.batch_worst_ms:.0f} ms |
| a sender of 64 rows every 20 ms: micro-batches, median / longest | {slow.batches}, \
{slow.batch_median_ms:.0f} / {slow.batch_worst_ms:.0f} ms |

Target, 1 million rows/s: **{word}** in this run. Processor seconds per million rows: {spent}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with spark_session("bench") as spark:
        register(spark)
        with sending(0.0):
            alone = receiving_alone(min(5.0, asked.seconds))
            full = reading_in_spark(spark, asked.seconds)
        with sending(0.02):
            slow = reading_in_spark(spark, asked.seconds)
    told = text(alone, full, slow, asked.seconds).replace("\\\n", "")
    print(told)
    if asked.out is not None:
        figures = {"alone_rows_per_s": round(alone), "full": asdict(full), "slow": asdict(slow)}
        asked.out.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
        asked.out.with_suffix(".md").write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main()
