"""Six checks of a recorded run in polars: the yardstick for Spark's speed, and a second opinion.

Only for runs like those of traces/generate.py: one life per process, all closed, each sender a
member. Written apart from pipeline/ and multicast/checks on purpose. As a program it prints one
line of JSON: seconds, peak memory, and how many violations each check found.

    python -m bench.polars_checks RUN
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import polars as pl

KIB_PER_MIB = 1024
MESSAGE = ["s", "n"]


def _rows(run: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Deliveries by process and place; multicasts with how many members each is for."""
    rows = pl.scan_parquet(run / "process=*" / "incarnation=*" / "part-*.parquet").select(
        "proc", "lseq", "real_t", pl.col("kind").cast(pl.String), "dest", "ts_time", "ts_group",
        s="msg_sender", n="msg_seq",
    )  # fmt: skip
    delivered = rows.filter(kind="deliver").drop("kind", "dest").sort("proc", "lseq")
    sent = rows.filter(kind="multicast").drop("kind", "ts_time", "ts_group")
    return delivered.collect(), sent.collect()


def _owed(run: Path, sent: pl.DataFrame) -> pl.DataFrame:
    """One row per message and member of its groups."""
    groups = json.loads((run / "run.json").read_text())["groups"]
    members = pl.DataFrame(
        [(g, p) for g, group in enumerate(groups) for p in group],
        schema={"g": pl.Int32, "proc": pl.Int32},
        orient="row",
    )
    return sent.select(*MESSAGE, g="dest").explode("g").join(members, on="g").drop("g").unique()


def timestamp_order(delivered: pl.DataFrame) -> int:
    stamp = pl.struct("ts_time", "ts_group")
    shown = delivered.group_by(MESSAGE).agg(stamp.n_unique().alias("stamps"), stamp.first())
    shared = shown.group_by("ts_time").len().filter(pl.col("len") > 1).height
    before = pl.col("ts_time").shift().over("proc")
    falls = delivered.filter(before >= pl.col("ts_time")).height
    return shown.filter(pl.col("stamps") != 1).height + shared + falls


def integrity(delivered: pl.DataFrame, sent: pl.DataFrame, owed: pl.DataFrame) -> int:
    strays = delivered.join(owed, on=["proc", *MESSAGE], how="anti").height
    unsent = delivered.join(sent, on=MESSAGE, how="anti").height
    return strays + unsent + delivered.height - delivered.n_unique(["proc", *MESSAGE])


def agreement(delivered: pl.DataFrame, owed: pl.DataFrame) -> int:
    return owed.join(delivered, on=["proc", *MESSAGE], how="anti").height


def fifo(delivered: pl.DataFrame) -> int:
    before = pl.col("n").shift().over("proc", "s")
    return delivered.filter(before >= pl.col("n")).height


def causal(delivered: pl.DataFrame, sent: pl.DataFrame) -> int:
    stamps = delivered.group_by(MESSAGE).agg(pl.col("ts_time").first().alias("own"))
    made = sent.join(stamps, on=MESSAGE).select("proc", "lseq", "own")
    both = pl.concat([made, delivered.select("proc", "lseq", own=-pl.col("ts_time"))])
    seen = pl.col("own").abs().shift().cum_max().over("proc")
    both = both.sort("proc", "lseq").with_columns(seen.alias("seen"))
    return both.filter(pl.col("own") > 0, pl.col("own") <= pl.col("seen")).height


def timely(delivered: pl.DataFrame, sent: pl.DataFrame, bound_ns: int) -> int:
    both = delivered.join(sent.select(*MESSAGE, began="real_t"), on=MESSAGE)
    return both.filter(pl.col("real_t") - pl.col("began") > bound_ns).height


def check(run: Path) -> dict[str, int]:
    bound_ns = json.loads((run / "run.json").read_text())["bound_ns"]
    delivered, sent = _rows(run)
    owed = _owed(run, sent)
    return {
        "timestamp-order": timestamp_order(delivered),
        "uniform-integrity": integrity(delivered, sent, owed),
        "uniform-agreement": agreement(delivered, owed),
        "uniform-fifo": fifo(delivered),
        "uniform-causal": causal(delivered, sent),
        "uniform-real-time": timely(delivered, sent, bound_ns),
    }


def peak_mib(process: int | str) -> int:
    """Resident. (ru_maxrss begins with that of whoever started the process.)"""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // KIB_PER_MIB


def main() -> None:
    began = time.perf_counter()
    violations = check(Path(sys.argv[1]))
    answer = {
        "seconds": time.perf_counter() - began,
        "peak_mib": peak_mib("self"),
        "violations": violations,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
