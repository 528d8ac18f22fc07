"""Keeps the replicas of one host alive: starts them, starts again what dies, ends them in order.

One thread and one poll(): pidfds of the replicas, their output, signals. Replicas die with their
supervisor (PR_SET_PDEATHSIG), so nothing runs that nobody supervises; what survives even that is
ended by the next `up` or `down`, which finds it in the run directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from shmcast.multicast.run.child import Child
from shmcast.multicast.run.config import ClusterConfig, Replica
from shmcast.multicast.run.leftovers import forget_lives, remove_segments, set_trace_aside
from shmcast.multicast.run.run_directory import LOG_BYTES_MAX, RunDirectory, identity, living

GRACE_S = 10.0  # for replicas that were asked to end; then SIGKILL
_OBSERVER = 1 << 20  # as a witness: above every process of a cluster

CommandOf = Callable[[ClusterConfig, Replica], Sequence[str]]


def replica_command(config: ClusterConfig, replica: Replica) -> list[str]:
    module = "shmcast.multicast.run.replica"
    return [sys.executable, "-m", module, str(config.path), replica.name]


class Supervisor:
    """Runs in the main thread of a process of its own: `run` returns when all has ended."""

    def __init__(
        self,
        config: ClusterConfig,
        host: str,
        *,
        command: CommandOf = replica_command,
        say: Callable[[str, str], None] = lambda name, text: None,
        new: bool = False,
    ) -> None:
        """`new`: on several hosts, too, what was before is forgotten."""
        self.config, self.host, self._say, self._new = config, host, say, new
        self.directory = RunDirectory(config, host)
        self.children = [Child(r, command(config, r), say) for r in config.on_host(host)]
        self._stopping = False
        self._kill_at_s = float("inf")
        self._poll = select.poll()

    def run(self) -> bool:
        """False: another supervisor is at work here already, and nothing was done."""
        if not self.directory.acquire():
            return False
        wake, wakened = socket.socketpair()
        wake.setblocking(False)
        wakened.setblocking(False)
        with wake, wakened, _signals(self._on_signal, wakened):
            try:
                end_strays(self.directory.read())
                self._begin_anew()
                self._loop(wake)
            finally:
                self._end_hard()
                remove_segments(self.config)
                forget_lives(self.config)
                self.directory.remove()
        return True

    def _begin_anew(self) -> None:
        if forget_lives(self.config, new=self._new):
            remove_segments(self.config)
            if aside := set_trace_aside(self.config):
                self._say(self.config.name, f"the record of the run before is in {aside}")

    def _on_signal(self, number: int, frame: object) -> None:
        if self._stopping:  # asked twice: no more patience
            self._kill_at_s = 0.0
        self._stopping = True

    def _loop(self, wake: socket.socket) -> None:
        self._poll.register(wake, select.POLLIN)
        asked = False
        while True:
            now_s = time.monotonic()
            if self._stopping and not asked:
                asked = True
                self._kill_at_s = min(self._kill_at_s, now_s + GRACE_S)
                self._signal_all(signal.SIGTERM)
            if asked and now_s >= self._kill_at_s:
                self._signal_all(signal.SIGKILL)
            if asked and not any(child.is_alive for child in self.children):
                return
            if not asked:
                self._start_due(now_s)
            self._handle(self._wait(now_s, asked), wake)

    def _start_due(self, now_s: float) -> None:
        changed = False
        for child in self.children:
            if not child.is_alive and child.start_at_s <= now_s:
                child.start(now_s)
                self._poll.register(child.pidfd, select.POLLIN)
                self._poll.register(child.output, select.POLLIN)
                changed = True
        if changed:
            self._write_state()

    def _wait(self, now_s: float, asked: bool) -> set[int]:
        due = [child.start_at_s for child in self.children if not child.is_alive]
        next_s = min([self._kill_at_s] if asked else due, default=float("inf"))
        if asked and next_s <= now_s:  # killed; their ends are on the way
            next_s = now_s + 0.1
        timeout_ms = None if next_s == float("inf") else max(0.0, next_s - now_s) * 1000 + 1
        return {fd for fd, _ in self._poll.poll(timeout_ms)}

    def _handle(self, ready: set[int], wake: socket.socket) -> None:
        if wake.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                wake.recv(4096)
        for child in self.children:
            before = dict(child.links), child.trace
            if child.output in ready and not child.read_output():
                self._poll.unregister(child.output)
                # Closed by a process that lives on: `reap` must not wait for more.
            if (child.links, child.trace) != before:
                self._write_state()
            if child.pidfd in ready:
                self._on_death(child)

    def _on_death(self, child: Child) -> None:
        for fd in (child.pidfd, child.output):
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)
        how = child.reap(time.monotonic(), restart=not self._stopping)
        self._witness(child.replica, how)
        if not self._stopping:
            name = child.replica.name
            self._say(name, f"ended ({how}); it is started again")
            if child.is_failing:
                last = child.tail[-1] if child.tail else "it said nothing"
                self._say(name, f"keeps failing, {child.failures} times in a row: {last}")
        self._write_state()

    def _witness(self, replica: Replica, how: str) -> None:
        """Puts the end of a life that recorded none itself on record."""
        if self.config.trace is None or how == "exit 0":
            return
        from shmcast.multicast.traces.writer import witness_crash

        lives_seen = [
            int(found[1])
            for path in (self.config.trace / f"process={replica.proc}").glob("incarnation=*")
            if (found := re.fullmatch(r"incarnation=(\d+)", path.name))
        ]
        if lives_seen:
            with contextlib.suppress(OSError):
                witness_crash(
                    self.config.trace,
                    replica.proc,
                    max(lives_seen),
                    observer=_OBSERVER,
                    detail=how,
                )

    def _signal_all(self, number: int) -> None:
        for child in self.children:
            child.signal(number)

    def _end_hard(self) -> None:
        for child in self.children:
            if child.is_alive:
                child.signal(signal.SIGKILL)
                child.reap(time.monotonic(), restart=False)

    def _write_state(self) -> None:
        self.directory.write(
            {
                "supervisor": identity(os.getpid()),
                "config": str(self.config.path),
                "fingerprint": self.config.fingerprint,
                "replicas": {child.replica.name: _state_of(child) for child in self.children},
            }
        )


def _state_of(child: Child) -> dict[str, Any]:
    return {
        "process": child.who,
        "starts": child.starts,
        "failures": child.failures,
        "failing": child.is_failing,
        "ended": child.ended,
        "links": child.links,
        "trace": child.trace,
        "last_words": list(child.tail)[-3:] if child.ended else [],
    }


class _signals:
    """SIGTERM and SIGINT end the supervisor in order; `wakened` ends its wait."""

    def __init__(self, handler: Callable[[int, object], None], wakened: socket.socket) -> None:
        self._handler, self._wakened = handler, wakened
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        self._fd = signal.set_wakeup_fd(self._wakened.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._handler)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd)


def end_strays(state: dict[str, Any]) -> list[int]:
    """Ends replicas of a supervisor that is dead. Never touches a pid that was used again."""
    known = RunDirectory.replicas_in(state).values()
    return [pid for pid, pidfd in _end(one.get("process") for one in known)]


def _end(processes: Iterable[object], grace_s: float = GRACE_S / 2) -> list[tuple[int, int]]:
    """SIGTERM, and SIGKILL for those that do not listen; returns when all have ended. A pidfd
    tells so also of the children of others, which stay zombies until those look."""
    found: list[tuple[int, int]] = []
    for who in processes:
        with contextlib.suppress(ProcessLookupError):
            if process := living(who):
                pidfd = os.pidfd_open(process[0])
                found.append((process[0], pidfd))
                if not living(who):  # it ended, and its pid was taken, in between
                    os.close(found.pop()[1])
    waiting = [pidfd for _, pidfd in found]
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, GRACE_S)):
        for pidfd in waiting:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, number)
        waiting = _not_ended(waiting, patience_s)
    for _, pidfd in found:
        os.close(pidfd)
    return found


def _not_ended(pidfds: list[int], timeout_s: float) -> list[int]:
    left = list(pidfds)
    end_s = time.monotonic() + timeout_s
    while left and time.monotonic() < end_s:
        ended, _, _ = select.select(left, [], [], max(0.0, end_s - time.monotonic()))
        left = [pidfd for pidfd in left if pidfd not in ended]
    return left


def stop(config: ClusterConfig, host: str, *, timeout_s: float = 2 * GRACE_S) -> bool:
    """Ends what runs on this host, whoever started it. False: nothing did."""
    directory = RunDirectory(config, host)
    state = directory.read()
    was_up = directory.is_held()
    if was_up:
        _end([state.get("supervisor")], timeout_s)
    strays = end_strays(directory.read() or state)
    remove_segments(config)
    forget_lives(config)
    directory.remove()
    return was_up or bool(strays)


def log_to(path: Path) -> Callable[[str, str], None]:
    """For a supervisor without a terminal: bounded, the newest half kept."""

    def say(name: str, text: str) -> None:
        with contextlib.suppress(OSError):
            if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
                path.write_bytes(path.read_bytes()[-LOG_BYTES_MAX // 2 :])
            with path.open("a") as file:
                file.write(f"{name}: {text}\n")

    return say
