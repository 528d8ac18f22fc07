"""How fast are multicasts to groups of replicas in real processes, over mailboxes of one host?

Closed loop, 20-byte messages. Reference, quoted, from the same kind of machine over loopback TCP:
WbCast in C by the paper's authors. Four questions, each a table:

    peers      groups x destinations and clients as in the reference, engine wbcast
    engines    wbcast, wbcast-acks, fastcast, ft-skeen side by side, without and with an injected
               delay δ of every frame; latency in δ beside the protocol's own
    traces     wbcast recorded and not recorded, taking turns
    saturation clients from 1 to 128: throughput must not collapse

    python bench/cluster_multicast.py [--ask peers engines] [--seconds 3] [--out bench/results/x]

`cpu` is what all replicas, and all clients, use for one multicast: 2 cores give 2,000,000 µs a
second, so it says what a machine could do at best, also where others keep it busy.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster_run import Load, Running, machine, table, write

Row = dict[str, Any]
REFERENCE = {  # groups, clients: multicasts/s, p50 and p99 in µs
    (1, 1): (6_400, 152, 257),
    (1, 16): (33_400, 456, 791),
    (2, 1): (3_000, 332, 537),
    (2, 4): (7_000, 549, 1040),
    (2, 16): (14_700, 1043, 2032),
    (3, 1): (1_700, 585, 921),
    (3, 16): (8_100, 1897, 3694),
}
ENGINES = ("wbcast", "wbcast-acks", "fastcast", "ft-skeen")
DELAY_MS = 10.0
# Client to entry, entry to the other leader, the protocol, and the answer back: in δ. The
# protocol's own (paper 000) begins at the multicast, so one hop of it is the entry's to itself.
OWN_DELTAS = {"wbcast": 3, "wbcast-acks": 3, "fastcast": 4, "ft-skeen": 6}
PATIENT = ("suspect_ms = 2000", "request_ms = 5000", "retry_ms = 5000", "patience_ms = 5000")
REPETITIONS = 3


def peers(seconds: float) -> tuple[str, list[Row]]:
    found: list[Row] = []
    lines: list[list[object]] = []
    for groups in sorted({groups for groups, _ in REFERENCE}):
        with Running("wbcast", groups=groups, options=PATIENT[:1]) as cluster:
            for clients in (1, 4, 16, 64):
                load = cluster.load(clients, seconds)
                found.append({"groups": groups, **load.row()})
                lines.append([f"{groups}, {groups}", *_cells(load), *_beside(groups, load)])
    head = ["groups, destinations", *_HEAD, "x reference throughput", "reference p50 / ours"]
    return table(head, lines), found


_HEAD = ["clients", "multicasts/s", "p50 µs", "p99 µs", "cpu µs: replicas", "clients"]


def _cells(load: Load) -> list[object]:
    return [
        load.clients,
        f"{load.per_second:,.0f}",
        f"{load.at(0.5):,.0f}",
        f"{load.at(0.99):,.0f}",
        f"{load.cpu_us[0]:.0f}",
        f"{load.cpu_us[1]:.0f}",
    ]


def _beside(groups: int, load: Load) -> list[str]:
    known = REFERENCE.get((groups, load.clients))
    if known is None:
        return ["-", "-"]
    return [f"{load.per_second / known[0]:.2f}", f"{known[1] / load.at(0.5):.2f}"]


def engines(seconds: float) -> tuple[str, list[Row]]:
    found: list[Row] = []
    lines: list[list[object]] = []
    for delay_ms, clients in ((0.0, 1), (0.0, 16), (DELAY_MS, 1), (DELAY_MS, 16)):
        base: Load | None = None
        for engine in ENGINES:
            with Running(engine, delay_ms=delay_ms, options=_options(engine)) as cluster:
                load = cluster.load(clients, seconds)
            base = base or load
            found.append({"engine": engine, "delay_ms": delay_ms, **load.row()})
            deltas = f"{load.at(0.5) / 1e3 / delay_ms:.1f}" if delay_ms else "-"
            ratios = [
                f"{base.per_second / load.per_second:.2f}",
                f"{load.at(0.5) / base.at(0.5):.2f}",
            ]
            own = OWN_DELTAS[engine]
            lines.append([engine, f"{delay_ms:g} ms", *_cells(load), *ratios, deltas, own])
    head = ["engine", "δ", *_HEAD, "wbcast's throughput / its", "its p50 / wbcast's", "p50 in δ",
            "paper, at the leader"]  # fmt: skip
    return table(head, lines), found


def _options(engine: str) -> tuple[str, ...]:
    """A lone slow process must not look like a dead one."""
    return PATIENT


def traces(seconds: float) -> tuple[str, list[Row]]:
    """Both clusters live at the same time and take turns, so that both see the same machine."""
    found: list[Row] = []
    with (
        Running("wbcast", options=PATIENT[:1]) as plain,
        Running("wbcast", options=PATIENT[:1], extra=('trace = "run"',), tag="t") as recorded,
    ):
        for _ in range(REPETITIONS):
            for name, cluster in (("no", plain), ("yes", recorded)):
                found.append({"recorded": name, **cluster.load(16, seconds).row()})
    medians = {
        name: [
            statistics.median(row[key] for row in found if row["recorded"] == name)
            for key in ("per_second", "p50_us", "cpu_us_replicas", "cpu_us_clients")
        ]
        for name in ("no", "yes")
    }
    lines: list[list[object]] = [
        [name, *(f"{value:,.0f}" for value in values)] for name, values in medians.items()
    ]
    cost = 1 - medians["yes"][0] / medians["no"][0]
    cpu = sum(medians["yes"][2:]) / sum(medians["no"][2:]) - 1
    head = ["recorded", "multicasts/s", "p50 µs", "cpu µs: replicas", "clients"]
    text = table(head, lines)
    return f"{text}\n\nRecording costs {cost:.1%} of the throughput, {cpu:.1%} more CPU.", found


def saturation(seconds: float) -> tuple[str, list[Row]]:
    found: list[Row] = []
    lines: list[list[object]] = []
    with Running("wbcast", options=PATIENT[:1]) as cluster:
        for clients in (1, 2, 4, 8, 16, 32, 48):
            load = cluster.load(clients, seconds)
            found.append(load.row())
            lines.append(_cells(load))
    best = max(row["per_second"] for row in found)
    text = table(_HEAD, lines)
    return f"{text}\n\nThe last row has {found[-1]['per_second'] / best:.2f} of the best.", found


QUESTIONS: dict[str, Callable[[float], tuple[str, list[Row]]]] = {
    "peers": peers,
    "engines": engines,
    "traces": traces,
    "saturation": saturation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ask", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, help="without its ending")
    args = parser.parse_args()
    sections, figures = [], {}
    for name in args.ask:
        text, figures[name] = QUESTIONS[name](args.seconds)
        sections.append(f"## {name}\n\n{text}\n")
    head = "# Multicasts to groups of replicas, real processes over mailboxes\n\n"
    note = f"{machine()}; 20 bytes, closed loop. `python bench/cluster_multicast.py`.\n\n"
    write(args.out, head + note + "\n".join(sections), figures)


if __name__ == "__main__":
    main()
