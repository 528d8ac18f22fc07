"""inject: copies, processes, plans."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from shmcast.cli.plan import Fault, parse
from shmcast.mailbox.core import CopyState
from shmcast.mailbox.mailbox import Mailbox

COPY_0 = [CopyState.FAILED, CopyState.INTACT, CopyState.INTACT]


@pytest.mark.parametrize("how", ["truncate", "poison", "corrupt"])
def test_a_killed_copy_is_failed_for_everybody(run: Any, box: Mailbox, how: str) -> None:
    assert run("inject", "copy", box.name, "0", "--how", how).exit_code == 0
    assert sorted(s.value for s in box.copies) == ["failed", "intact", "intact"]


def test_an_unlinked_copy_is_found_missing_by_newcomers(run: Any, box: Mailbox) -> None:
    assert run("inject", "copy", box.name, "1", "--how", "unlink").exit_code == 0
    assert not Path(f"/dev/shm/shmcast.{box.name}.1").exists()
    with Mailbox.open(box.name) as again:
        assert again.copies[1] is CopyState.FAILED


def test_a_copy_that_is_not_there_is_a_usage_error(run: Any, box: Mailbox) -> None:
    result = run("inject", "copy", box.name, "7")
    assert result.exit_code == 2
    assert "has no copy 7" in result.stderr


def test_a_member_is_stopped_continued_and_killed(
    start: Any, run: Any, wait_until: Any, box: Mailbox
) -> None:
    receiver = start("recv", box.name, "--verbose")
    receiver.stderr.readline()
    process = psutil.Process(receiver.pid)
    assert run("inject", "process", str(receiver.pid), "--how", "stop").exit_code == 0
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "it is stopped")
    assert run("inject", "process", str(receiver.pid), "--how", "continue").exit_code == 0
    wait_until(lambda: process.status() != psutil.STATUS_STOPPED, "it goes on")
    assert run("inject", "process", str(receiver.pid)).exit_code == 0
    assert receiver.wait(timeout=30) == -signal.SIGKILL


def test_a_process_that_is_no_member_is_left_alone(run: Any) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        result = run("inject", "process", str(bystander.pid))
        assert result.exit_code == 3
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_plan_is_carried_out_in_the_order_of_its_times(
    run: Any, start: Any, box: Mailbox, tmp_path: Path
) -> None:
    receiver = start("recv", box.name, "--verbose")
    receiver.stderr.readline()
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f"""
        [[fault]]
        at_s = 0.2
        do = "replace"
        mailbox = "{box.name}"

        [[fault]]
        at_s = 0.1
        do = "kill"
        mailbox = "{box.name}"
        receiver = 0

        [[fault]]
        do = "truncate"
        mailbox = "{box.name}"
        copy = 0
        """
    )
    result = run("inject", "plan", str(plan))
    assert result.exit_code == 0, result.stderr
    done = [line.split(" s  ")[1] for line in result.stdout.splitlines()]
    assert done == [
        f"truncate copy 0 of {box.name}",
        f"kill receiver 0 of {box.name} (pid {receiver.pid})",
        f"replace in {box.name}: 1",
    ]
    assert receiver.wait(timeout=30) == -signal.SIGKILL
    assert box.copies == [CopyState.INTACT] * 3


def test_a_checked_plan_does_nothing(run: Any, box: Mailbox, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[[fault]]\ndo = "truncate"\nmailbox = "{box.name}"\ncopy = 0\n')
    assert "truncate copy 0" in run("inject", "plan", str(plan), "--check").stdout
    assert box.copies == [CopyState.INTACT] * 3


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no [[fault]]"),
        ("[[fault", "not TOML"),
        ('[[fault]]\ndo = "explode"', "choose one of"),
        ('[[fault]]\ndo = "kill"', "say which process"),
        ('[[fault]]\ndo = "kill"\nsender = 0', "say where"),
        ('[[fault]]\ndo = "truncate"\nmailbox = "m"', "say which copy"),
        ('[[fault]]\ndo = "reap"\nmailbox = "m"\nat_s = -1', "not negative"),
        ('[[fault]]\ndo = "reap"\nmailbox = "m"\nwhen = 1', "unknown key 'when'"),
        ('[[fault]]\ndo = "reap"\nmailbox = "m"\nat_s = inf', "a number of seconds"),
        ('[[fault]]\ndo = "reap"\nmailbox = "m"\nat_s = nan', "a number of seconds"),
        ('[[fault]]\ndo = "reap"\nmailbox = "m"\nat_s = true', "a number of seconds"),
        ('[[fault]]\ndo = "reap"\nmailbox = 5', "must be a name in quotes"),
        ('[[fault]]\ndo = ["kill"]', "choose one of"),
        ('[[fault]]\ndo = "kill"\nmailbox = "m"\nreceiver = -1', "receiver = -1; it must be"),
        ('[[fault]]\ndo = "kill"\nmailbox = "m"\nreceiver = "0"', "receiver = '0'; it must be"),
        ('[[fault]]\ndo = "kill"\npid = true', "pid = True; it must be"),
        ('[[fault]]\ndo = "truncate"\nmailbox = "m"\ncopy = true', "copy = True; it must be"),
        ('[[fault]]\ndo = "corrupt"\nmailbox = "m"\ncopy = 0\nseed = 0.5', "seed = 0.5; it must"),
        ('[[fault]]\ndo = "skew"\noffset_s = 1', "say which process"),
        ('[[fault]]\ndo = "skew"\npid = 1\noffset_s = "1"', "it must be a number"),
        ('[[fault]]\ndo = "skew"\npid = 1\noffset_s = nan', "offset must be within"),
        ('[[fault]]\ndo = "skew"\npid = 1\ndrift = -1.5', "drift must be between"),
        ("fault = [1]", "write each one as a table"),
        ("fault = 1", "no [[fault]]"),
    ],
)
def test_a_wrong_plan_says_what_is_wrong_before_anything_is_done(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong.replace("[", r"\[")):
        parse(text)


def test_a_plan_may_name_a_process_by_its_pid() -> None:
    (fault,) = parse(f'[[fault]]\ndo = "stop"\npid = {os.getpid()}\n')
    assert fault == Fault(0.0, "stop", role="pid", number=os.getpid())


# Prints, for each line that it reads, how far the stamp of a message is from the true time.
SKEWED = """
import os, signal, sys, time
from shmcast import Mailbox
from shmcast.mailbox.faults import allow_skew
sys.argv[2:] == ["allow"] and allow_skew()
with Mailbox.open(sys.argv[1]).sender() as sender:
    print("ready", flush=True)
    for line in sys.stdin:
        if "fork" in line:
            readable, writable = os.pipe()
            if os.fork():
                print(os.read(readable, 100).decode(), flush=True)
            else:
                os.write(writable, str(os.getpid()).encode())
                signal.pause()
        else:
            true = time.monotonic_ns()
            print(sender.send(b"x").timestamp - true, flush=True)
"""


def ahead_s(process: Any, line: bytes = b"\n") -> float:
    process.stdin.write(line)
    process.stdin.flush()
    return int(process.stdout.readline()) / 1e9


@pytest.fixture
def skewed(box: Mailbox) -> Any:
    """Starts it, by itself or with a command in front."""
    started = []

    def start(*before: str, after: tuple[str, ...] = ()) -> Any:
        command = [*before, sys.executable, "-c", SKEWED, box.name, *after]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()


SHMCAST = (sys.executable, "-m", "shmcast.cli")


def test_a_command_is_started_with_a_skewed_clock_and_skewed_again(run: Any, skewed: Any) -> None:
    start = (*SHMCAST, "inject", "clock", "--offset=1000", "--")
    process = skewed(*start)
    assert 1000 <= ahead_s(process) < 2000
    done = run("inject", "clock", str(process.pid), "--offset", "4000", "--drift", "0.5")
    assert done.exit_code == 0, done.stderr
    assert "+4000 s, +0.5 s/s" in done.stdout
    assert ahead_s(process) >= 4000
    another = skewed(*start)
    assert run("inject", "clock", str(another.pid)).exit_code == 0  # before it has stamped anything
    assert 0 <= ahead_s(another) < 900


def test_a_process_that_allows_it_is_skewed_by_a_plan(
    run: Any, skewed: Any, box: Mailbox, tmp_path: Path
) -> None:
    process = skewed(after=("allow",))
    assert 0 <= ahead_s(process) < 900
    plan = tmp_path / "plan.toml"
    text = f'[[fault]]\ndo = "skew"\nmailbox = "{box.name}"\nsender = 0\noffset_s = 1000\n'
    plan.write_text(text)
    done = run("inject", "plan", str(plan))
    assert f"skew the clock of sender 0 of {box.name}: +1000 s, +0 s/s" in done.stdout
    assert ahead_s(process) >= 1000


def test_a_process_that_allows_nothing_keeps_its_clock(run: Any, skewed: Any) -> None:
    process = skewed()
    done = run("inject", "clock", str(process.pid), "--offset", "1000")
    assert done.exit_code == 3
    assert "lets nobody skew its clock: start it with" in done.stderr
    assert 0 <= ahead_s(process) < 900
    process.kill()
    process.wait()
    dead = run("inject", "clock", str(process.pid))
    assert dead.exit_code == 3 and "dead" in dead.stderr


def test_a_child_of_a_fork_has_a_clock_of_its_own(run: Any, skewed: Any) -> None:
    parent = skewed(after=("allow",))
    parent.stdin.write(b"fork\n")
    parent.stdin.flush()
    child = parent.stdout.readline().decode().strip()
    try:
        assert run("inject", "clock", child, "--offset", "1000").exit_code == 0
        assert 0 <= ahead_s(parent) < 900
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_socket_that_has_a_process_s_name_and_is_not_its_own_is_not_believed(run: Any) -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as bystander,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as impostor,
    ):
        impostor.bind(f"\0shmcast.clock.{bystander.pid}")
        impostor.listen()
        done = run("inject", "clock", str(bystander.pid), "--offset", "1")
        bystander.kill()
    assert done.exit_code == 3 and "lets nobody skew" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_nobody_else_may_skew_a_clock(skewed: Any) -> None:
    process = skewed(after=("allow",))
    program = f"from shmcast.mailbox.faults import skew_process; skew_process({process.pid}, 1000)"
    done = subprocess.run(
        [sys.executable, "-c", f"import os\n{program.replace(';', '; os.setuid(65534);')}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NotPermitted: " in done.stderr and "belongs to somebody else" in done.stderr
    assert 0 <= ahead_s(process) < 900


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--offset", "1", "--", "no-such-command-anywhere"), 3, "no such command"),
        (("--drift", "1", "--", "true"), 2, "drift must be between"),
        (("--offset", "1e10", "1"), 2, "offset must be within"),
    ],
)
def test_what_cannot_be_started_or_skewed_is_told(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, told: str
) -> None:
    monkeypatch.setenv("SHMCAST_CLOCK_FAULT", "")  # put back afterwards
    done = run("inject", "clock", *arguments)
    assert done.exit_code == code and told in done.stderr
