"""One replica as its supervisor sees it: lives that follow each other, output, back-off."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence

from shmcast.multicast.run.config import Replica
from shmcast.multicast.run.run_directory import identity

DELAY_FIRST_S = 0.05
DELAY_MAX_S = 5.0
STEADY_S = 10.0  # a life of this length ends a row of failures
LOOP_FAILURES = 4  # in a row: it is reported as failing, and still tried
TAIL_LINES = 20
LINKS_MAX = 64
LINE_BYTES_MAX = 4096
LAST_READS = 16
ABOUT_LINK, WELL = "link with", "well again"  # hosts.py writes it; `shmcast status` shows it
ABOUT_TRACE = "trace"  # recording.py writes it
_TRACE_LINE = re.compile(rf"\S+: {ABOUT_TRACE}: (.*)")
_LINK_LINE = re.compile(rf"\S+: {ABOUT_LINK} (\S+): (.*)")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> Callable[[], None]:
    """Runs in the child before exec. SIGTERM, so that it can take its leave in order; one that
    does not is ended by the next `up` or `down`."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return prepare


class Child:
    """`say` gets every line that the replica writes."""

    def __init__(
        self, replica: Replica, command: Sequence[str], say: Callable[[str, str], None]
    ) -> None:
        self.replica = replica
        self.command = tuple(command)
        self._say = say
        self.process: subprocess.Popen[bytes] | None = None
        self.who: list[float] | None = None
        self.pidfd = -1
        self.output = -1
        self.started_s = 0.0
        self.start_at_s = 0.0
        self.starts = 0
        self.failures = 0  # in a row
        self.ended = ""  # how the last life ended
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.links: dict[str, str] = {}  # with what is wrong, by peer
        self.trace = ""  # what is wrong with the record of this life
        self._rest = b""

    @property
    def is_alive(self) -> bool:
        return self.process is not None

    @property
    def is_failing(self) -> bool:
        return self.failures >= LOOP_FAILURES

    def start(self, now_s: float) -> None:
        assert self.process is None
        self.starts += 1
        self.started_s = now_s
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 (this process has one thread)
        )
        assert self.process.stdout
        self.output = self.process.stdout.fileno()
        os.set_blocking(self.output, False)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.who = identity(self.process.pid)

    def read_output(self) -> bool:
        """False: nothing will come any more."""
        try:
            data = os.read(self.output, 1 << 16)
        except BlockingIOError:
            return True
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if not data or len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = [*lines, self._rest], b""
        for line in filter(None, lines):
            text = line[:LINE_BYTES_MAX].decode(errors="replace")
            self.tail.append(text)
            self._note(text)
            self._say(self.replica.name, text)
        return bool(data)

    def _note(self, text: str) -> None:
        if found := _TRACE_LINE.fullmatch(text):
            self.trace = found[1]
            return
        found = _LINK_LINE.fullmatch(text)
        if found is None:
            return
        peer, what = found.groups()
        if what == WELL:
            self.links.pop(peer, None)
        elif peer in self.links or len(self.links) < LINKS_MAX:
            self.links[peer] = what

    def reap(self, now_s: float, *, restart: bool) -> str:
        """After its end: how it ended. The next life starts at `start_at_s`."""
        assert self.process
        for _ in range(LAST_READS):  # bounded: a child of its own may hold the pipe and write on
            if not self.read_output():
                break
        status = self.process.wait()
        self._close()
        self._rest = b""
        self.links.clear()
        self.trace = ""
        by_signal = status < 0
        self.ended = signal.Signals(-status).name if by_signal else f"exit {status}"
        lived_s = now_s - self.started_s
        self.failures = 1 if lived_s >= STEADY_S else self.failures + 1
        delay_s = min(DELAY_MAX_S, DELAY_FIRST_S * 2 ** min(self.failures - 1, 16))
        self.start_at_s = now_s + delay_s if restart else float("inf")
        return self.ended

    def _close(self) -> None:
        assert self.process and self.process.stdout
        self.process.stdout.close()
        os.close(self.pidfd)
        self.process, self.who, self.pidfd, self.output = None, None, -1, -1

    def signal(self, number: int) -> None:
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)
