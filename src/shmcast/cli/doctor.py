"""``shmcast doctor``: is this machine fit, and if not, what to do."""

from __future__ import annotations

import ctypes
import json as json_module
import os
import platform
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import psutil
import typer

from shmcast.cli.output import Code, console, emit_json, mebi
from shmcast.mailbox.survey import SHM, is_abandoned, surveys, users
from shmcast.multicast.run.leftovers import is_locked
from shmcast.realtime import board
from shmcast.realtime.admission import Throttle
from shmcast.realtime.measure import permitted_classes

_SMALL_SHM_BYTES = 256 << 20
_OLDEST_KERNEL = (5, 4)  # pidfd_open came with 5.3
_GOOD_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE = 1
_MARKS = {"ok": "[green]ok  [/]", "note": "[yellow]note[/]", "bad": "[red]bad [/]"}


class Finding(NamedTuple):
    subject: str
    state: str  # ok, note (works, but not at its best), bad (does not work)
    detail: str
    fix: str = ""


def shm_size(path: Path = SHM) -> Iterator[Finding]:
    usage = psutil.disk_usage(str(path))
    detail = f"{mebi(usage.free)} free of {mebi(usage.total)}"
    if usage.free < _SMALL_SHM_BYTES:
        fix = (
            "docker run --shm-size=1g; on a host: mount -o remount,size=1g /dev/shm; or shmcast rm"
        )
        yield Finding("/dev/shm size", "note", detail, fix)
    else:
        yield Finding("/dev/shm size", "ok", detail)


def shm_mount(mounts: str | None = None) -> Iterator[Finding]:
    text = Path("/proc/mounts").read_text() if mounts is None else mounts
    found = [line.split() for line in text.splitlines() if line.split()[1] == str(SHM)]
    if not found:
        fix = "mount -t tmpfs tmpfs /dev/shm"
        yield Finding("/dev/shm mount", "bad", "not a file system of its own", fix)
        return
    kind, options = found[-1][2], found[-1][3].split(",")
    if kind != "tmpfs":
        fix = "mount -t tmpfs tmpfs /dev/shm; elsewhere messages go to a disk"
        yield Finding("/dev/shm mount", "bad", f"{kind}, not tmpfs", fix)
    elif "ro" in options:
        fix = "mount -o remount,rw /dev/shm"
        yield Finding("/dev/shm mount", "bad", "read only", fix)
    else:
        yield Finding("/dev/shm mount", "ok", f"tmpfs, {','.join(options)}")
    if not os.access(SHM, os.W_OK):
        yield Finding("/dev/shm access", "bad", "not writable by this user", "chmod 1777 /dev/shm")


def limits() -> Iterator[Finding]:
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if locked == resource.RLIM_INFINITY or locked >= 64 << 20:
        text = "unlimited" if locked == resource.RLIM_INFINITY else mebi(locked)
        yield Finding("memlock", "ok", text)
    else:
        fix = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the service; docker: --ulimit"
        detail = f"{mebi(locked)}: pages cannot be held in memory, so bounds may break"
        yield Finding("memlock", "note", detail, fix)
    priority, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if priority or os.geteuid() == 0:
        yield Finding("rtprio", "ok", "real-time scheduling is allowed")
    else:
        fix = "'@realtime - rtprio 50' in /etc/security/limits.conf, or docker --cap-add=SYS_NICE"
        detail = "no real-time scheduling: worst cases depend on the load"
        yield Finding("rtprio", "note", detail, fix)


def scheduling() -> Iterator[Finding]:
    """Tried, not read: a container may forbid what the limits allow."""
    permitted = permitted_classes()
    detail = ", ".join(f"SCHED_{name.upper()}" for name in permitted)
    if "fifo" in permitted:
        yield Finding("scheduling classes", "ok", detail)
    else:
        fix = "rtprio as above; docker: --cap-add=SYS_NICE; with cgroup v1 also cpu.rt_runtime_us"
        yield Finding("scheduling classes", "note", f"{detail} only: no real-time class", fix)


def throttling(throttle: Throttle | None = None) -> Iterator[Finding]:
    """The kernel stops real-time threads so that a core is never lost to one."""
    found = throttle or Throttle.of_kernel()
    if found is None:
        yield Finding("real-time throttling", "ok", "none")
        return
    stops_ms = (found.period_ns - found.runtime_ns) / 1e6
    detail = (
        f"a SCHED_FIFO thread that never sleeps is stopped for {stops_ms:g} ms of each "
        f"{found.period_ns / 1e6:g} ms: schedules that may need more call themselves soft"
    )
    fix = (
        "keep it if schedules leave that much free; or sysctl -w kernel.sched_rt_runtime_us=-1 "
        "(from Linux 6.12 on also 0 in /sys/kernel/debug/sched/fair_server/cpu*/runtime)"
    )
    yield Finding("real-time throttling", "note", detail, fix)


def kernel() -> Iterator[Finding]:
    release, machine = platform.release(), platform.machine()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    fit = version >= _OLDEST_KERNEL and machine in _SYS_FUTEX
    fix = "" if fit else "Linux 5.4 or newer on x86-64 or aarch64"
    yield Finding("kernel", "ok" if fit else "bad", f"{release} on {machine}", fix)


def clock_source() -> Iterator[Finding]:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    try:
        source = path.read_text().strip()
    except OSError:
        yield Finding("clock source", "note", "unknown", "make /sys readable")
        return
    if source in _GOOD_CLOCKS:
        yield Finding("clock source", "ok", source)
    else:
        fix = "boot with clocksource=tsc tsc=reliable if the processor has a constant counter"
        yield Finding("clock source", "note", f"{source}: each timestamp is a system call", fix)


def system_calls() -> Iterator[Finding]:
    """Containers with strict filters forbid system calls that the core needs."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYS_FUTEX.get(platform.machine())
    word = ctypes.c_uint32(0)
    if number is not None:
        works = libc.syscall(number, ctypes.byref(word), _FUTEX_WAKE, 1, None, None, 0) >= 0
        fix = "" if works else "allow futex in the container's seccomp profile"
        yield Finding("futex", "ok" if works else "bad", "works" if works else "forbidden", fix)
    try:
        handle = os.pidfd_open(os.getpid())
        signal.pidfd_send_signal(handle, 0)
        os.close(handle)
        yield Finding("pidfd", "ok", "works")
    except OSError as error:
        fix = "allow pidfd_open in the seccomp profile; start times of processes are used meanwhile"
        yield Finding("pidfd", "note", error.strerror or "forbidden", fix)


def container() -> Iterator[Finding]:
    marks = [Path("/.dockerenv"), Path("/run/.containerenv")]
    control = Path("/proc/1/cgroup")
    text = control.read_text() if control.exists() else ""
    if any(mark.exists() for mark in marks) or "docker" in text or "kubepods" in text:
        fix = "share memory and processes with others: --ipc=host --pid=host, or one pod"
        yield Finding("container", "note", "yes: /dev/shm and pids may be private to it", fix)
    else:
        yield Finding("container", "ok", "none found")


def leftovers() -> Iterator[Finding]:
    mapped, clean = users(), True
    for found in surveys():
        if found.error:
            clean = False
            yield Finding(found.name, "note", found.error, f"shmcast rm {found.name}")
        elif is_abandoned(found, mapped):
            clean = False
            fix = f"if nobody wants it: shmcast rm {found.name}"
            yield Finding(found.name, "note", f"{mebi(found.size_bytes)}, no user", fix)
        elif dead := {pid for pid in found.members() if not psutil.pid_exists(pid)}:
            clean = False
            fix = f"shmcast gc {found.name}"
            yield Finding(found.name, "note", f"places of dead processes {sorted(dead)}", fix)
        elif any(state.value == "failed" for state in found.copies):
            clean = False
            yield Finding(found.name, "note", "a copy has failed", f"shmcast gc {found.name}")
    for path in board.orphans():
        clean = False
        yield Finding(path.name, "note", "figures of a schedule that died", "shmcast gc")
    for finding in dead_clusters():
        clean = False
        yield finding
    if clean:
        yield Finding("leftovers", "ok", "none")


def dead_clusters(shm: Path = SHM) -> Iterator[Finding]:
    """What supervisors and replicas that were killed could not take away."""
    for path in sorted(shm.glob("shmcast-up.*")):
        if not is_locked(path / "lock"):
            file = _config_of(path)
            fix = f"shmcast down {file}" if file else f"rm -r {path}"
            yield Finding(path.name, "note", "a supervisor of a cluster that was killed", fix)
    lives: dict[str, list[Path]] = {}
    for path in sorted(shm.glob("shmcast-life.*")):
        lives.setdefault(path.name.split(".")[1], []).append(path)
    for cluster, paths in lives.items():
        if not any(map(is_locked, paths)) and not list(shm.glob(f"shmcast-up.*.{cluster}.*")):
            detail = f"{len(paths)} records of replicas, none of which lives"
            fix = f"shmcast up its file, or if nobody wants it: rm {shm}/shmcast-life.{cluster}.*"
            yield Finding(f"cluster {cluster}", "note", detail, fix)


def _config_of(directory: Path) -> str:
    try:
        found = json_module.loads((directory / "state.json").read_text())
        return str(found["config"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


CHECKS: list[Callable[[], Iterator[Finding]]] = [
    shm_size,
    shm_mount,
    limits,
    scheduling,
    throttling,
    kernel,
    clock_source,
    system_calls,
    container,
    leftovers,
]


def examine() -> list[Finding]:
    return [finding for check in CHECKS for finding in check()]


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Findings for machines.")] = False,
) -> None:
    """Is this machine fit for shmcast? Each finding comes with its fix."""
    findings = examine()
    if json:
        result: list[dict[str, Any]] = [finding._asdict() for finding in findings]
        emit_json(result)
    else:
        out = console()
        for finding in findings:
            out.print(f"{_MARKS[finding.state]}  {finding.subject}: {finding.detail}")
            if finding.fix:
                out.print(f"      → {finding.fix}")
    if any(finding.state == "bad" for finding in findings):
        raise typer.Exit(Code.FAILED_VERDICT)
