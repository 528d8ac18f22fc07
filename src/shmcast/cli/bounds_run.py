"""What ``shmcast bench bounds`` measures: a mailbox with a process that sends, a process that
receives, both timed in C, and others that are connected. The same file is the worker, which does
one row of operations for every number that it is told:

    python -m shmcast.cli.bounds_run ROLE NAME GAP_NS
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import reduce
from types import TracebackType
from typing import Any, NamedTuple, Self

from shmcast._native import lib
from shmcast.cli.demo.interrupts import uninterrupted
from shmcast.errors import Rejected
from shmcast.mailbox import faults
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.records import ReceiverStats
from shmcast.realtime.bounds import NS_PER_MS, Bounds
from shmcast.realtime.calibrate import Calibration, load_stored
from shmcast.realtime.histogram import Histogram
from shmcast.realtime.measure import Driven, Worst, drive

PATIENCE_S = 120.0  # of one row of operations
SIZE = 64
CAPACITY = 4096  # so many are under way at once: the timed protocols wait out a bound on each
SENDERS = 36
_WORST = 4  # operations whose causes are kept
_VICTIM_GAP_NS = 50_000
SETTLED_S = 1.0  # nothing came for so long: nothing will; far above every bound here


CALIBRATED, FIXED = "calibrated", "fixed"
PERCENTILE, MARGIN = 99.99, 2.0  # of calibrated bounds, as `shmcast calibrate` proposes them
PERCENTILES = (50, 99, 99.9, 99.99)


class Cell(NamedTuple):
    protocol: str
    copies: int
    load: tuple[str, ...]
    operations: int
    connected: int = 2
    faults: bool = False  # a sending process is killed midway, and a copy where there is another
    bounds: str = FIXED

    def title(self) -> str:
        load = "+".join(self.load) or "idle"
        killed = "copy and process" if self.copies > 1 else "process"
        extra = f", {killed} killed" if self.faults else ""
        extra += f", {self.connected} processes" if self.connected != 2 else ""
        return f"{self.protocol}, n={self.copies}, {load}{extra}"


class Round(NamedTuple):
    send: Driven
    receive: Driven
    decided_against: int  # messages that the receiver saw rejected, also after their send
    filled: int  # sent in the place of those, so that the receiver gets its number
    violations: int
    killed_after: float | None = None  # share of the messages that had come


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of one cell."""

    cell: Cell
    rounds: tuple[Round, ...]

    @property
    def send(self) -> Driven:
        return reduce(_add, (r.send for r in self.rounds))

    @property
    def receive(self) -> Driven:
        return reduce(_add, (r.receive for r in self.rounds))

    def count(self, name: str) -> int:
        return sum(getattr(r, name) for r in self.rounds)


def _add(a: Driven, b: Driven) -> Driven:
    causes = {c: a.causes.get(c, 0) + b.causes.get(c, 0) for c in {*a.causes, *b.causes}}
    return Driven(
        a.operations + b.operations,
        a.misses + b.misses,
        a.rejected + b.rejected,
        a.full + b.full,
        a.bound_ns,
        causes,
        a.histogram + b.histogram,
        a.error or b.error,
        tuple(sorted(a.worst + b.worst, reverse=True)[:_WORST]),
    )


def bounds_of(protocol: str, copies: int) -> Bounds:
    """Short enough to be broken by an ordinary process under load, so that there is something to
    see. In `crash` every receive takes n·δd, in `timing` n·δd is the lateness that a thread may
    have: hence two values of δd."""
    return Bounds(
        copies=copies,
        write_ns=NS_PER_MS // 5,
        flag_ns=NS_PER_MS // 20,
        decide_ns=4 * NS_PER_MS if protocol == "timing" else 2_000,
        read_ns=NS_PER_MS // 5,
        clear_ns=NS_PER_MS // 20,
        poll_ns=NS_PER_MS,
    )


def calibration() -> Calibration:
    try:
        return load_stored()
    except FileNotFoundError:
        raise FileNotFoundError(
            "this machine was never calibrated: run `shmcast calibrate` first"
        ) from None


def bounds_for(cell: Cell) -> Bounds:
    if cell.bounds == FIXED:
        return bounds_of(cell.protocol, cell.copies)
    return calibration().propose(
        copies=cell.copies,
        message_bytes=SIZE,
        protocol=cell.protocol,
        percentile=PERCENTILE,
        margin=MARGIN,
    )


class Worker:
    """A process that is ready, then told numbers of operations, and says a result for each."""

    def __init__(self, role: str, name: str, gap_ns: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shmcast.cli.bounds_run", role, name, str(gap_ns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_spoken(self, within_s: float) -> bool:
        assert self._process.stdout
        return bool(select.select([self._process.stdout], [], [], within_s)[0])

    def hear(self) -> Any:
        assert self._process.stdout
        if not self.has_spoken(PATIENCE_S + 30):
            raise TimeoutError("a worker said nothing for so long: is this machine overloaded?")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with status {self._process.wait()}")
        return json.loads(line)

    def tell(self, operations: int) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{operations}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Session:
    """One mailbox with its processes, for as many rounds as wanted."""

    def __init__(self, cell: Cell, number: int = 0) -> None:
        self.cell = cell
        self._name = f"bench-bounds-{os.getpid()}-{number}"
        self._workers: list[Worker] = []  # the receiver, the sender, and others
        self._listeners: list[Worker] = []  # of those, the further receivers
        self._box: Mailbox | None = None

    def __enter__(self) -> Self:
        try:
            with uninterrupted():
                self._begin(self.cell)
            self._workers[0].hear()  # it has the first place: the figures there are its
            with uninterrupted():
                self._connect(self.cell)
            for worker in self._workers[1:]:
                worker.hear()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _begin(self, cell: Cell) -> None:
        self._box = Mailbox.create(
            self._name,
            copies=cell.copies,
            message_size=SIZE,
            capacity=CAPACITY,
            protocol=cell.protocol,
            senders=SENDERS,
            receivers=SENDERS,
            bounds=bounds_for(cell),
        )
        self._workers.append(Worker("receive", self._name))

    def _connect(self, cell: Cell) -> None:
        """Of those that are only connected every other one is a receiver."""
        for _ in range(cell.connected // 2 - 1):
            self._listeners.append(Worker("receive", self._name))
        self._workers += [Worker("send", self._name), *self._listeners]
        for _ in range(cell.connected - 2 - len(self._listeners)):
            self._workers.append(Worker("idle", self._name))
        if cell.faults:
            self._workers.append(Worker("send", self._name, _VICTIM_GAP_NS))

    def _end(self) -> None:
        with uninterrupted():
            for worker in self._workers:
                worker.kill()
            if self._box is not None:
                self._box.close()
                Mailbox.remove(self._name)

    def _receiver_stats(self) -> ReceiverStats:
        assert self._box
        return self._box.stats().receivers[0]

    def run(self, operations: int, *, apart: bool = False) -> Round:
        """Sends and receives at once; or `apart`, first all of the sends, which the lane must hold:
        then neither end waits for the other, nor takes cache lines from it."""
        receiver, sender, *others = self._workers
        before = self._receiver_stats()
        expected = operations * (2 if self.cell.faults else 1)  # of the victim as well
        if not apart:
            receiver.tell(expected)
        sender.tell(operations)
        killed_after = None
        if self.cell.faults:
            others[-1].tell(100 * operations)  # it never gets to its end
            killed_after = self._kill_midway(others[-1], before, operations)
        sent = _driven(sender.hear())
        if apart:
            receiver.tell(expected)
        filled, end = self._fill_up(before.messages + expected), time.monotonic() + PATIENCE_S
        received = _driven(receiver.hear())
        while received.operations < expected and not received.error and time.monotonic() < end:
            receiver.tell(expected - received.operations)  # nothing came for so long that it ended
            filled += self._fill_up(before.messages + expected)
            received = _add(received, _driven(receiver.hear()))
        self._drain(expected)
        now = self._receiver_stats()
        return Round(
            sent,
            received,
            now.rejected - before.rejected,
            filled,
            now.violations - before.violations,
            killed_after,
        )

    def _drain(self, expected: int) -> None:
        """The others take theirs when nothing is measured any more, or no lane would be free."""
        for worker in self._listeners:
            worker.tell(expected)
        for worker in self._listeners:
            worker.hear()

    def _kill_midway(self, victim: Worker, before: ReceiverStats, operations: int) -> float:
        """When half of the messages are decided, a copy and a process go; nobody is told. The only
        copy stays: without it there is no mailbox."""
        assert self._box
        already, end = before.messages + before.rejected, time.monotonic() + PATIENCE_S
        while True:
            now = self._receiver_stats()
            decided = now.messages + now.rejected - already
            if decided >= operations // 2 or time.monotonic() > end:
                break
            time.sleep(0.0002)
        if self.cell.copies > 1:
            faults.kill_copy(self._box, 0)
        victim.kill()
        return round(decided / operations, 3)

    def _fill_up(self, wanted: int) -> int:
        """A rejected message, or one that a victim did not live to send, never comes: others are
        sent in their place until the receiver has its number. What a victim left half-sent may
        count as on its way for ever, so that alone is waited for no longer than it takes to come.
        """
        assert self._box
        receiver, filled, last, since = self._workers[0], 0, -1, time.monotonic()
        with contextlib.ExitStack() as stack:
            tx = None
            while not receiver.has_spoken(0.003):
                now = self._receiver_stats()
                missing, quiet = wanted - now.messages, now.messages == last
                if not quiet:
                    last, since = now.messages, time.monotonic()
                settled = now.depth == 0 or time.monotonic() - since > SETTLED_S
                if not quiet or not settled or missing <= 0:
                    continue
                tx = tx or stack.enter_context(self._box.sender(timeout=10))
                for _ in range(min(missing, CAPACITY // 2)):
                    with contextlib.suppress(Rejected):
                        tx.send(bytes(SIZE), timeout=10)
                    filled += 1
        return filled


# ---- results as JSON ----


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
        "worst": [w._asdict() for w in driven.worst],
        **{f"p{p}_ns": h.percentile(p) if h.supports(p) else None for p in PERCENTILES},
        "histogram": [list(pair) for pair in h.pairs()],
    }


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
        tuple(Worst(w["took_ns"], tuple(w["causes"])) for w in raw["worst"]),
    )


# ---- the worker ----


def _work(role: str, name: str, gap_ns: int) -> None:
    box = Mailbox.open(name, timeout=10)
    handle: Any
    if role == "receive":
        handle, function = box.receiver(timeout=10, wait="block"), lib.sc_rt_drive_receive
    else:
        handle, function = box.sender(timeout=10), lib.sc_rt_drive_send
    told = box.stats()
    bound = told.send_bound_ns
    if role == "receive":  # in `eager` counted from the timestamp: the send's share comes on top
        bound = told.receive_bound_ns + (told.latency_bound_ns if box.protocol == "eager" else 0)
    options = {"box": box.index, "size": SIZE, "gap_ns": gap_ns, "limit_s": PATIENCE_S}
    print('"ready"', flush=True)
    while line := sys.stdin.readline():
        done = drive(function, handle.handle, operations=int(line), bound_ns=bound, options=options)
        print(json.dumps(figures(done)), flush=True)


if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
