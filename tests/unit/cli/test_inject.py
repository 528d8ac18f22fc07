"""inject: copies, processes, plans."""

from __future__ import annotations

import os
import signal
import subprocess
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
