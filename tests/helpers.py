"""What the tests share: waiting for a condition, other processes, traffic and its verdict.

A test never sleeps to wait for something. It says what it waits for, and how long at most.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shmcast.realtime.bounds import NS_PER_MS, Bounds

PATIENCE_S = 60.0  # for a whole step of a test on a busy machine; never asserted
SHM = Path("/dev/shm")


def wait_until(condition: Callable[[], Any], what: str, timeout: float = PATIENCE_S) -> Any:
    """The condition's first true value. Fails, saying what did not happen."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {timeout} s: {what}")
        time.sleep(0.001)


def bounds(protocol: str, copies: int, **changes: int) -> Bounds:
    """Wide enough for a machine with more processes than cores, short enough to wait for."""
    values = {
        "write_ns": 90 * NS_PER_MS // copies,
        "flag_ns": 10 * NS_PER_MS // copies,
        "decide_ns": NS_PER_MS // 10 if protocol == "crash" else 160 * NS_PER_MS // copies,
        "read_ns": 5 * NS_PER_MS,
        "clear_ns": NS_PER_MS,
        "poll_ns": 5 * NS_PER_MS,
    }
    return Bounds(copies=copies, **{**values, **changes})


class Child:
    """A Python process that speaks lines. Its code sees `args`, and say() writes JSON."""

    PRELUDE = """
    import json, os, select, sys, time
    import shmcast
    args = json.loads(sys.argv[1])
    def say(value): print(json.dumps(value), flush=True)
    def hear(): return sys.stdin.readline().strip()
    def told(): return bool(select.select([sys.stdin], [], [], 0)[0])
    """

    def __init__(
        self, code: str, *args: Any, prelude: bool = True, before: Sequence[str] = ()
    ) -> None:
        """`before`: a command that runs Python in surroundings of its own."""
        text = (textwrap.dedent(self.PRELUDE) if prelude else "") + textwrap.dedent(code)
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", text, json.dumps(args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_lines(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr
        self._errors.extend(self.process.stderr)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        return "".join(self._errors)

    def heard(self, timeout: float = PATIENCE_S) -> Any:
        """The next value that the child said."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"the child said nothing for {timeout} s") from None
        if line is None:
            self._threads[1].join(5)
            raise AssertionError(f"the child ended: {self.process.wait(5)}\n{self.errors}")
        return json.loads(line)

    def tell(self, line: str = "") -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self, timeout: float = PATIENCE_S) -> int:
        """The exit status."""
        status = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
        return status


# A sender that goes on until it is told to stop (or for args[3] messages), then says goodbye.
# It keeps what was accepted; a rejected message is not sent again. In `timing` the receivers may
# decide against a message whose send returned (a thread of theirs was late), so it asks them.
SENDER = """
from collections import deque
name, tag, pause, most = args
box = shmcast.Mailbox.open(name, timeout=20)
tx = box.sender(timeout=20)
accepted, rejected, open_ones = [], [], deque()
def ask(keep):
    while len(open_ones) > keep:
        text, receipt = open_ones.popleft()
        try:
            tx.confirm(receipt, timeout=30)
            accepted.append(text)
        except shmcast.Rejected:
            rejected.append(text)
say("ready")
i = 0
while not told() and i < most:
    text = f"{tag}:{i}"
    try:
        receipt = tx.send(text.encode(), timeout=30)
        if box.protocol == "timing":
            open_ones.append((text, receipt))
        else:
            accepted.append(text)
    except shmcast.Rejected:
        rejected.append(text)
    ask(keep=8)
    i += 1
    time.sleep(pause)
ask(keep=0)
hear()
while True:
    try:
        receipt = tx.send(f"{tag}:end".encode(), timeout=30)
        if box.protocol == "timing":
            tx.confirm(receipt, timeout=30)
        break
    except shmcast.Rejected:
        continue
say({"accepted": accepted, "rejected": rejected})
hear()
"""

# A receiver that goes on until it has heard as many goodbyes as there are senders.
RECEIVER = """
name, senders = args
box = shmcast.Mailbox.open(name, timeout=20)
rx = box.receiver(timeout=20, wait="block")
say("ready")
got, ends = [], 0
while ends < senders:
    m = rx.receive(timeout=40)
    text = m.data.decode()
    if text.endswith(":end"):
        ends += 1
    else:
        got.append([m.timestamp, m.sender, m.sequence, text])
say(got)
hear()
"""

FOREVER = 1 << 40


class Traffic:
    """Real senders and receivers on one mailbox, and the verdict over what they saw."""

    def __init__(self, name: str, senders: int = 2, receivers: int = 2, pause: float = 0.0002):
        self.receivers = [Child(RECEIVER, name, senders) for _ in range(receivers)]
        for child in self.receivers:
            assert child.heard() == "ready"
        self.senders = [Child(SENDER, name, f"s{i}", pause, FOREVER) for i in range(senders)]
        for child in self.senders:
            assert child.heard() == "ready"

    @property
    def children(self) -> list[Child]:
        return [*self.senders, *self.receivers]

    def stop(self) -> list[list[Any]]:
        """Ends the traffic; returns the one sequence that every receiver saw."""
        for child in self.senders:
            child.tell("stop")
        sent = [child.heard() for child in self.senders]
        got = [child.heard() for child in self.receivers]
        for child in self.children:
            child.tell("end")
            assert child.ended() == 0, child.errors
        return verdict(sent, got)


def verdict(sent: list[dict[str, list[str]]], got: list[list[Any]]) -> list[Any]:
    """Consensus, ordering, validity; and no rejected message delivered."""
    first = got[0]
    for other in got[1:]:
        assert other == first, first_difference(first, other)
    keys = [(timestamp, sender & 255) for timestamp, sender, _, _ in first]
    assert keys == sorted(set(keys)), "not in the order of (timestamp, sender)"
    texts = [text for *_, text in first]
    assert len(set(texts)) == len(texts), "delivered twice"
    for one in sent:
        assert set(one["accepted"]) <= set(texts), "an accepted message was lost"
        assert not set(one["rejected"]) & set(texts), "a rejected message was delivered"
        mine = [text for text in texts if text in set(one["accepted"])]
        assert mine == one["accepted"], "not in the order of sending"
    return first


def first_difference(one: list[Any], other: list[Any]) -> str:
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return f"receivers differ at {i}: {a} and {b}"
    return f"one receiver got {len(one)} messages, another {len(other)}"


def segments_of(name: str) -> list[Path]:
    """The files of a domain, in the order of their numbers."""
    found = [p for p in SHM.glob(f"shmcast.{name}.*") if p.name.rpartition(".")[2].isdigit()]
    return sorted(found, key=lambda p: int(p.name.rpartition(".")[2]))


def patch(path: Path, offset: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        assert os.pwrite(fd, data, offset) == len(data)
    finally:
        os.close(fd)


def peek(path: Path, offset: int, size: int) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def seal(value: int) -> bytes:
    """As csrc/seal.h does it."""
    check = ((value ^ 0x5348) * 0x9E3779B97F4A7C15 % (1 << 64)) >> 48
    return (value << 16 | check).to_bytes(8, "little")


def unseal(word: bytes) -> int:
    value = int.from_bytes(word, "little") >> 16
    assert seal(value) == word, "not a sealed word"
    return value


class Layout:
    """Where things lie in a segment with one mailbox: csrc/layout.h, version 2."""

    CONFIG, FAILED = 1024, 1032
    HISTOGRAM = 320 * 8

    def __init__(self, *, senders: int, receivers: int, message_size: int, capacity: int) -> None:
        self.capacity = capacity
        self.box = _round_up(4096 + senders * (256 + self.HISTOGRAM) + 256, 4096)
        self.members = self.box + 128
        row = _round_up(senders * 8, 64)
        self.lanes = self.box + 256 + receivers * 256 + receivers * row
        self.slots = self.lanes + senders * 64 + receivers * self.HISTOGRAM
        self.slot_bytes = 64 + _round_up(message_size, 64)

    def intent(self, lane: int) -> int:
        return 4096 + lane * 256

    def tail(self, lane: int) -> int:
        return self.lanes + lane * 64

    def slot(self, lane: int, position: int) -> int:
        """The a-flag; the decision follows at +8, the header at +16, the payload at +64."""
        return self.slots + (lane * self.capacity + position % self.capacity) * self.slot_bytes


def _round_up(value: int, to: int) -> int:
    return (value + to - 1) // to * to
