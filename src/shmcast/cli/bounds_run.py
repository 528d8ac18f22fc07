"""One cell of ``shmcast bench bounds``: a mailbox, a process that sends, a process that receives,
both timed in C, and whatever else the cell asks for. The same file is the worker:

    python -m shmcast.cli.bounds_run ROLE NAME OPERATIONS KERNEL_CLASS GAP_NS
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from shmcast._native import lib
from shmcast.mailbox import faults
from shmcast.mailbox.mailbox import Mailbox
from shmcast.realtime.bounds import NS_PER_MS, Bounds
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.load import Load
from shmcast.realtime.measure import Driven, drive

PATIENCE_S = 120.0
SIZE = 64
CAPACITY = 4096
SENDERS = 64


class Cell(NamedTuple):
    protocol: str
    copies: int
    load: tuple[str, ...]
    operations: int
    kernel_class: str = "other"
    connected: int = 2
    faults: bool = False  # a copy and a sending process are killed midway

    def title(self) -> str:
        load = "+".join(self.load) or "idle"
        extra = ", copy and process killed" if self.faults else ""
        extra += f", {self.connected} processes" if self.connected != 2 else ""
        return f"{self.protocol}, n={self.copies}, {load}, {self.kernel_class}{extra}"


@dataclass(frozen=True, slots=True)
class Result:
    cell: Cell
    send: Driven
    receive: Driven
    violations: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.cell._asdict(),
            "violations": self.violations,
            "send": figures(self.send),
            "receive": figures(self.receive),
        }


def figures(driven: Driven) -> dict[str, Any]:
    h = driven.histogram
    return {
        "operations": driven.operations,
        "bound_ns": driven.bound_ns,
        "misses": driven.misses,
        "causes": driven.causes,
        "rejected": driven.rejected,
        "full": driven.full,
        "error": driven.error,
        "maximum_ns": h.most_ns,
        **{f"p{p}_ns": h.percentile(p) for p in (50, 99, 99.9, 99.99)},
        "histogram": [list(pair) for pair in h.pairs()],
    }


def bounds_of(protocol: str, copies: int) -> Bounds:
    """Short enough to be broken by an ordinary process under load, so that there is something to
    see. In `crash` every receive takes n·δd, in `timing` n·δd is the lateness that a thread may
    have: hence two values of δd."""
    return Bounds(
        copies=copies,
        write_ns=NS_PER_MS // 5,
        flag_ns=NS_PER_MS // 20,
        decide_ns=2 * NS_PER_MS if protocol == "timing" else 2_000,
        read_ns=NS_PER_MS // 5,
        clear_ns=NS_PER_MS // 20,
        poll_ns=NS_PER_MS,
    )


def receive_bound_ns(bounds: Bounds, protocol: str) -> int:
    """Δr; in `eager` counted from the timestamp, so the send's share comes on top."""
    extra = bounds.latency_ns("eager") if protocol == "eager" else 0
    return bounds.receive_ns(protocol) + extra


class Worker:
    """A process that is ready, then told to go, then says its result."""

    def __init__(self, role: str, name: str, operations: int, kernel_class: str, gap_ns: int = 0):
        words = (role, name, operations, kernel_class, gap_ns)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shmcast.cli.bounds_run", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with status {self._process.wait()}")
        return json.loads(line)

    def tell(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def _driven(raw: dict[str, Any]) -> Driven:
    histogram = Histogram.sparse(raw["histogram"], raw["maximum_ns"])
    return Driven(
        raw["operations"],
        raw["misses"],
        raw["rejected"],
        raw["full"],
        raw["bound_ns"],
        raw["causes"],
        histogram,
        raw["error"],
    )


def _kill_midway(box: Mailbox, victim: Worker, operations: int) -> None:
    """When half of the messages have come, a copy and a process go; nobody is told."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if sum(r.messages for r in box.stats().receivers) >= operations // 2:
            break
        time.sleep(0.001)
    faults.kill_copy(box, 0)
    victim.kill()


@contextlib.contextmanager
def _workers(cell: Cell, name: str) -> Iterator[tuple[Worker, Worker, Worker | None]]:
    started: list[Worker] = []

    def start(role: str, operations: int, gap_ns: int = 0) -> Worker:
        started.append(Worker(role, name, operations, cell.kernel_class, gap_ns))
        return started[-1]

    try:
        expected = cell.operations * (2 if cell.faults else 1)  # of the victim as well
        receiver = start("receive", expected)
        sender = start("send", cell.operations)
        victim = start("send", cell.operations, 50_000) if cell.faults else None
        for _ in range(cell.connected - 2):
            start("idle", 0)
        for worker in started:
            worker.hear()
        yield sender, receiver, victim
    finally:
        for worker in started:
            worker.kill()


def run(cell: Cell) -> Result:
    name = f"bench-bounds-{os.getpid()}"
    bounds = bounds_of(cell.protocol, cell.copies)
    with Mailbox.create(
        name,
        copies=cell.copies,
        message_size=SIZE,
        capacity=CAPACITY,
        protocol=cell.protocol,
        senders=SENDERS,
        bounds=bounds,
    ) as box:
        try:
            with _workers(cell, name) as (sender, receiver, victim), Load(*cell.load):
                for worker in filter(None, (receiver, sender, victim)):
                    worker.tell()
                if victim is not None:
                    _kill_midway(box, victim, cell.operations)
                sent, received = _driven(sender.hear()), receiver.hear()
                violations = received.pop("violations")
                return Result(cell, sent, _driven(received), violations)
        finally:
            Mailbox.remove(name)


# ---- the worker ----


def _work(role: str, name: str, operations: int, kernel_class: str, gap_ns: int) -> None:
    box = Mailbox.open(name, timeout=10)
    sender = box.sender(timeout=10) if role != "receive" else None
    receiver = box.receiver(timeout=10, wait="block") if role == "receive" else None
    bounds = bounds_of(box.protocol, len(box.copies))
    print('"ready"', flush=True)
    if not sys.stdin.readline() or role == "idle":
        return
    options = {
        "box": box.index,
        "size": SIZE,
        "gap_ns": gap_ns,
        "limit_s": PATIENCE_S,
        "kernel_class": kernel_class,
    }
    if sender is not None:
        bound = bounds.send_ns
        done = drive(
            lib.sc_rt_drive_send,
            sender.handle,
            operations=operations,
            bound_ns=bound,
            options=options,
        )
        print(json.dumps(figures(done)), flush=True)
    if receiver is not None:
        bound = receive_bound_ns(bounds, box.protocol)
        handle = receiver.handle
        done = drive(
            lib.sc_rt_drive_receive, handle, operations=operations, bound_ns=bound, options=options
        )
        mine = next(r for r in box.stats().receivers if r.pid == os.getpid())
        print(json.dumps({**figures(done), "violations": mine.violations}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
