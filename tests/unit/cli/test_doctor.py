"""doctor: findings and their fixes."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shmcast.cli import doctor
from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox
from shmcast.realtime.admission import Throttle

CHECKED = {
    "/dev/shm size", "/dev/shm mount", "memlock", "rtprio", "scheduling classes", "kernel",
    "clock source", "futex", "pidfd", "container", "real-time throttling",
}  # fmt: skip


def test_every_finding_that_is_not_ok_has_a_fix(run: Any) -> None:
    result = run("doctor", "--json")
    findings = json.loads(result.stdout)
    assert {f["subject"] for f in findings} >= CHECKED
    assert all(f["fix"] for f in findings if f["state"] != "ok")
    assert result.exit_code == any(f["state"] == "bad" for f in findings)


def test_the_text_shows_each_subject(run: Any) -> None:
    shown = run("doctor").stdout
    assert "/dev/shm size" in shown and "clock source" in shown


@pytest.mark.parametrize(
    ("mounts", "state", "word"),
    [
        ("tmpfs /dev/shm tmpfs rw,nosuid 0 0\n", "ok", "nosuid"),
        ("tmpfs /dev/shm tmpfs ro 0 0\n", "bad", "read only"),
        ("/dev/sda1 /dev/shm ext4 rw 0 0\n", "bad", "not tmpfs"),
        ("/dev/sda1 / ext4 rw 0 0\n", "bad", "not a file system"),
    ],
)
def test_mount_options_are_judged(mounts: str, state: str, word: str) -> None:
    found = next(doctor.shm_mount(mounts))
    assert found.state == state
    assert word in found.detail


def test_real_time_throttling_is_named_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "sched_rt_runtime_us").write_text("950000\n")
    (tmp_path / "sched_rt_period_us").write_text("1000000\n")
    found = next(doctor.throttling(Throttle.of_kernel(tmp_path)))
    assert found.state == "note"
    assert "stopped for 50 ms of each 1000 ms" in found.detail
    assert "sched_rt_runtime_us=-1" in found.fix
    (tmp_path / "sched_rt_runtime_us").write_text("-1\n")
    assert Throttle.of_kernel(tmp_path) is None


def test_an_abandoned_mailbox_is_named_with_its_removal(name: str) -> None:
    Mailbox.create(name, copies=1, message_size=64, capacity=8).close()
    found = [f for f in doctor.leftovers() if f.subject == name]
    assert [f.fix for f in found] == [f"if nobody wants it: shmcast rm {name}"]


def test_a_failed_copy_is_named_with_its_replacement(start: Any, box: Mailbox) -> None:
    receiver = start("recv", box.name, "--verbose")
    receiver.stderr.readline()
    kill_copy(box, 0)
    assert [f.fix for f in doctor.leftovers() if f.subject == box.name] == [
        f"shmcast gc {box.name}"
    ]


def test_garbage_is_named_and_does_not_stop_the_doctor(name: str) -> None:
    code = f"open('/dev/shm/shmcast.{name}.0', 'wb').write(b'garbage' * 1000)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
    assert [f.state for f in doctor.leftovers() if f.subject == name] == ["note"]


def test_a_forbidden_scheduling_class_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "permitted_classes", lambda: ["other"])
    [found] = doctor.scheduling()
    assert found.state == "note" and "SCHED_OTHER only" in found.detail and found.fix


def test_what_a_dead_cluster_left_is_named_and_a_living_one_is_not(tmp_path: Path) -> None:
    up = tmp_path / "shmcast-up.0.bank.local"
    up.mkdir()
    (up / "state.json").write_text(json.dumps({"config": "bank.toml"}))
    (up / "lock").touch()
    (tmp_path / "shmcast-life.old.0").touch()
    found = {finding.subject: finding.fix for finding in doctor.dead_clusters(tmp_path)}
    assert found["shmcast-up.0.bank.local"] == "shmcast down bank.toml"
    assert "shmcast-life.old.*" in found["cluster old"]
    with (up / "lock").open() as lock, (tmp_path / "shmcast-life.old.0").open() as life:
        for file in (lock, life):
            fcntl.flock(file, fcntl.LOCK_EX)
        assert list(doctor.dead_clusters(tmp_path)) == []
