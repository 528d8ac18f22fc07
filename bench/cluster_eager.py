"""How fast is a multicast to groups of three replicas, with the engine `eager`?

Closed loop, 20-byte messages, all groups as destinations, every replica and every client process
real; up to 8 client processes, the clients beyond share them as threads. Latency is the time of one
multicast() call, which returns when the message is ordered; `lag` is from then until a replica's
application has it. Reference, quoted, from the same kind of machine over loopback TCP: WbCast in C,
14,700/s at 1043 µs with 16 clients and two groups, 332 µs with one client.

    python bench/cluster_eager.py [--groups 2] [--seconds 3] [--clients 1 2 4 8 16 64] [--out x.md]

With --out the figures lie beside it as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from shmcast.multicast.run import config as configs
from shmcast.multicast.run import eager, eager_domain

REFERENCE = {  # groups, clients: multicasts/s, p50 in µs
    (1, 1): (6_400, 152.0),
    (1, 16): (33_400, 456.0),
    (2, 1): (3_000, 332.0),
    (2, 4): (7_000, 549.0),
    (2, 16): (14_700, 1043.0),
    (3, 1): (1_700, 585.0),
    (3, 16): (8_100, 1897.0),
}
PROCESSES_MAX = 8
PAYLOAD = b"20 bytes of payload."


def replica(path: str, name: str) -> None:
    """Takes deliveries until it is killed; every second it says how many, and its lag."""
    count, lags, end = 0, [], time.monotonic_ns() + 10**9
    with eager.node(configs.load(path), name) as node:
        for delivery in node.deliveries():
            count += 1
            if not count & 255:
                now = time.monotonic_ns()
                lags.append(now - delivery.timestamp.time)
                if now > end:
                    lags.sort()
                    print(json.dumps([count, lags[len(lags) // 2]]), flush=True)
                    count, lags, end = 0, [], now + 10**9


def client(path: str, threads: int, seconds: float) -> None:
    config = configs.load(path)
    groups = tuple(group.name for group in config.groups)
    made = eager.client(config)
    took: list[list[int]] = [[] for _ in range(threads)]
    made.multicast(PAYLOAD, groups, timeout=60)
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic_ns() + int(seconds * 1e9)

    def loop(samples: list[int]) -> None:
        now = time.monotonic_ns()
        while now < until:
            made.multicast(PAYLOAD, groups, timeout=60)
            before, now = now, time.monotonic_ns()
            samples.append(now - before)

    workers = [threading.Thread(target=loop, args=(samples,)) for samples in took]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    every = sorted(sample for samples in took for sample in samples)
    print(json.dumps([len(every), every[:: max(1, len(every) // 5000)]]), flush=True)


def start(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def spread(clients: int) -> list[int]:
    processes = min(clients, PROCESSES_MAX)
    return [clients // processes + (n < clients % processes) for n in range(processes)]


def measure(path: Path, clients: int, seconds: float) -> dict[str, float]:
    running = [start("--client", path, threads, seconds) for threads in spread(clients)]
    for process in running:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [json.loads(process.communicate()[0]) for process in running]
    samples = sorted(sample for _, some in results for sample in some)
    return {
        "clients": clients,
        "per_second": sum(count for count, _ in results) / seconds,
        "p50_us": samples[len(samples) // 2] / 1e3,
        "p99_us": samples[len(samples) * 99 // 100] / 1e3,
        "max_us": samples[-1] / 1e3,
    }


def report(rows: list[dict[str, float]], groups: int, copies: int, lag_us: float) -> str:
    lines = [
        f"# Engine `eager`: {groups} groups x 3 replicas, all as destinations",
        "",
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}, Linux "
        f"{platform.release()}, Python {platform.python_version()}; {copies} copies; 20 bytes; "
        "closed loop. `python bench/cluster_eager.py`.",
        "",
        "| clients | multicasts/s | p50 µs | p99 µs | max µs | x reference throughput "
        "| reference latency / ours |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        known = REFERENCE.get((groups, int(row["clients"])))
        ratios = (
            f"{row['per_second'] / known[0]:.1f} | {known[1] / row['p50_us']:.0f}"
            if known else "- | -"
        )  # fmt: skip
        lines.append(
            f"| {row['clients']:.0f} | {row['per_second']:,.0f} | {row['p50_us']:.1f} "
            f"| {row['p99_us']:.1f} | {row['max_us']:.0f} | {ratios} |"
        )
    lines += [
        "",
        f"From timestamp to the application of a replica, median under load: {lag_us:.0f} µs "
        "(six replicas and the clients share the cores, so a delivery waits for its turn).",
        "The reference's figures are quoted, not measured in this run.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16, 64])
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cluster.toml"
        path.write_text(
            f'[cluster]\nname = "bench{os.getpid()}"\nengine = "eager"\ncopies = {args.copies}\n'
            "message_size = 20\n[groups]\n"
            + "".join(f'g{n + 1} = ["a", "b", "c"]\n' for n in range(args.groups))
        )
        config = configs.load(path)
        replicas = [start("--replica", path, r.name) for r in config.replicas]
        try:
            rows = [measure(path, clients, args.seconds) for clients in args.clients]
            for process in replicas:
                process.kill()
            lags = sorted(
                json.loads(line)[1]
                for process in replicas
                for line in process.communicate()[0].splitlines()
            )
        finally:
            for process in replicas:
                process.kill()
                process.wait()
            eager_domain.remove_if_unused(config)
    lag_us = lags[len(lags) // 2] / 1e3 if lags else 0.0
    text = report(rows, args.groups, args.copies, lag_us)
    print(text)
    if args.out:
        args.out.write_text(text)
        figures = {"groups": args.groups, "copies": args.copies, "lag_us": lag_us, "rows": rows}
        args.out.with_suffix(".json").write_text(json.dumps(figures) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replica"]:
        replica(sys.argv[2], sys.argv[3])
    elif sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
