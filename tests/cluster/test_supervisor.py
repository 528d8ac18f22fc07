"""The supervisor of a host, with stand-ins for replicas: real processes, real kills."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import Child, wait_until
from shmcast.cli.cluster import status_of
from shmcast.cli.main import app
from shmcast.cli.output import Code
from shmcast.multicast.run.child import LOOP_FAILURES
from shmcast.multicast.run.config import ClusterConfig, load
from shmcast.multicast.run.leftovers import forget_lives, lives_lost
from shmcast.multicast.run.life import OwnLife, path_of
from shmcast.multicast.run.run_directory import RunDirectory, identity
from shmcast.multicast.run.supervisor import stop
from shmcast.multicast.traces.reader import read_record
from shmcast.multicast.traces.run_info import RunInfo
from shmcast.multicast.traces.writer import TraceWriter

SUPERVISOR = """
from shmcast.multicast.run.config import load
from shmcast.multicast.run.supervisor import Supervisor
path, code = args
def command(config, replica):
    return [sys.executable, "-c", code, replica.name]
say(Supervisor(load(path), "local", command=command, say=lambda n, t: say([n, t])).run())
"""
PATIENT = "import signal; print('ready', flush=True); signal.pause()"
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
while True: signal.pause()
"""
BROKEN = "import sys; sys.exit('no such account')"
COMPLAINS = """
import signal, sys
if sys.argv[1] == "g1.a":
    print("g1.a: link with g2.a: another cluster.toml")
    print("g1.a: link with g2.a: well again", flush=True)
if sys.argv[1] == "g1.b":
    print("g1.b: trace: 7 events are missing: disk full")
    print("g1.b: link with g2.a: another cluster.toml", flush=True)
signal.pause()
"""


@pytest.fixture
def config(tmp_path: Path, name: str) -> Iterator[ClusterConfig]:
    head = f'[cluster]\nname = "{name}"\nengine = "wbcast"\ntrace = "run"\n'
    (tmp_path / "cluster.toml").write_text(head + '[groups]\ng1 = ["a", "b"]\ng2 = ["a"]\n')
    found = load(tmp_path / "cluster.toml")
    yield found
    stop(found, "local", timeout_s=20)
    assert not RunDirectory(found, "local").path.exists()


@pytest.fixture
def supervise(config: ClusterConfig, start: Callable[..., Child]) -> Callable[..., Child]:
    def begin(code: str) -> Child:
        return start(SUPERVISOR, str(config.path), textwrap.dedent(code))

    return begin


def replicas(config: ClusterConfig) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in status_of(config, "local")["replicas"]}


def pids(config: ClusterConfig) -> dict[str, int]:
    return {name: one["pid"] for name, one in replicas(config).items() if one["pid"]}


def all_up(config: ClusterConfig) -> dict[str, int]:
    def found() -> dict[str, int] | None:
        now = pids(config)
        return now if len(now) == 3 else None

    return dict(wait_until(found, "all replicas are up"))


def said(child: Child, name: str, text: str) -> None:
    while child.heard() != [name, text]:
        pass


def test_it_starts_every_replica_of_the_host(config: ClusterConfig, supervise: Any) -> None:
    supervise(PATIENT)
    assert set(all_up(config)) == {"g1.a", "g1.b", "g2.a"}


def test_a_killed_replica_is_started_again_and_the_others_are_left_alone(
    config: ClusterConfig, supervise: Any
) -> None:
    supervise(PATIENT)
    before = all_up(config)
    os.kill(before["g1.a"], signal.SIGKILL)
    wait_until(lambda: pids(config).get("g1.a", before["g1.a"]) != before["g1.a"], "a new life")
    after = all_up(config)
    assert {name for name in after if after[name] != before[name]} == {"g1.a"}
    assert replicas(config)["g1.a"]["ended"] == "SIGKILL"
    assert replicas(config)["g1.a"]["starts"] == 2


def test_a_replica_that_keeps_failing_is_reported_with_its_last_words(
    config: ClusterConfig, supervise: Any
) -> None:
    supervise(BROKEN)
    wait_until(lambda: replicas(config)["g2.a"]["starts"] > LOOP_FAILURES, "a row of failures")
    wait_until(lambda: replicas(config)["g2.a"]["state"] == "failing", "it is reported")
    assert replicas(config)["g2.a"]["last_words"][-1] == "no such account"
    shown = CliRunner().invoke(app, ["status", str(config.path)])
    assert shown.exit_code == 1
    assert "keeps failing: " in shown.stderr and "no such account" in shown.stderr


def test_what_is_wrong_with_a_link_is_shown_by_status(
    config: ClusterConfig, supervise: Any
) -> None:
    supervise(COMPLAINS)
    wait_until(lambda: replicas(config)["g1.b"]["links"], "it is on record")
    shown = CliRunner().invoke(app, ["status", str(config.path)])
    assert "g1.b: link with g2.a: another cluster.toml" in shown.stderr
    assert "g1.b: its record is not whole: 7 events are missing: disk full" in shown.stderr
    assert replicas(config)["g1.a"]["links"] == {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_replicas_and_supervisor_and_leaves_nothing(
    config: ClusterConfig, supervise: Any, number: int
) -> None:
    child = supervise(PATIENT)
    running = all_up(config)
    child.process.send_signal(number)
    assert child.ended() == 0
    assert not any(identity(pid) for pid in running.values())
    assert not RunDirectory(config, "local").path.exists()


def test_replicas_end_with_a_supervisor_that_is_killed(
    config: ClusterConfig, supervise: Any
) -> None:
    child = supervise(PATIENT)
    running = all_up(config)
    child.kill()
    wait_until(lambda: not any(map(identity, running.values())), "they die with their supervisor")


def test_what_survives_a_killed_supervisor_is_ended_by_the_next(
    config: ClusterConfig, supervise: Any
) -> None:
    child = supervise(DEAF)
    before = all_up(config)
    for _ in before:
        assert child.heard()[1] == "ready"
    child.kill()
    assert all(identity(pid) for pid in before.values())
    supervise(PATIENT)
    wait_until(lambda: not any(map(identity, before.values())), "strays are ended")
    assert not set(all_up(config).values()) & set(before.values())


def test_a_second_supervisor_does_nothing(config: ClusterConfig, supervise: Any) -> None:
    supervise(PATIENT)
    before = all_up(config)
    second = supervise(PATIENT)
    assert second.heard() is False
    assert all_up(config) == before
    shown = CliRunner().invoke(app, ["up", str(config.path)])
    assert shown.exit_code == 0 and "is up on local already" in shown.stderr


def test_down_ends_it_and_a_second_down_says_that_nothing_was_up(
    config: ClusterConfig, supervise: Any
) -> None:
    child = supervise(PATIENT)
    running = all_up(config)
    first = CliRunner().invoke(app, ["down", str(config.path)])
    assert (first.exit_code, first.stderr) == (0, "")
    assert child.ended() == 0
    assert not any(identity(pid) for pid in running.values())
    second = CliRunner().invoke(app, ["down", str(config.path)])
    assert second.exit_code == 0 and "was not up" in second.stderr


def test_down_after_the_supervisor_was_killed_ends_what_is_left(
    config: ClusterConfig, supervise: Any
) -> None:
    child = supervise(DEAF)
    running = all_up(config)
    child.kill()
    assert CliRunner().invoke(app, ["down", str(config.path)]).exit_code == 0
    assert not any(identity(pid) for pid in running.values())


def test_a_pid_that_was_used_again_is_not_touched(config: ClusterConfig) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", PATIENT], stdout=subprocess.PIPE)
    try:
        assert bystander.stdout
        bystander.stdout.readline()
        directory = RunDirectory(config, "local")
        directory.make()
        directory.write({"replicas": {"g1.a": {"process": [bystander.pid, 1.0]}}})
        assert not stop(config, "local")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


@pytest.mark.parametrize("garbage", [b"", b"[]", b"\xff", b'{"replicas": 7, "supervisor": "x"}'])
def test_a_damaged_state_is_no_state(config: ClusterConfig, garbage: bytes) -> None:
    directory = RunDirectory(config, "local")
    directory.make()
    (directory.path / "state.json").write_bytes(garbage)
    shown = CliRunner().invoke(app, ["status", str(config.path), "--json"])
    assert shown.exit_code == 1
    assert {one["state"] for one in json.loads(shown.stdout)["replicas"]} == {"down"}


def test_a_crash_is_on_record_in_the_trace(config: ClusterConfig, supervise: Any) -> None:
    supervise(PATIENT)
    before = all_up(config)
    info = RunInfo(
        run="r", protocol="wbcast", groups=config.topology.groups, clients=(), names={}, promises=()
    )
    assert config.trace is not None
    writer = TraceWriter(config.trace, info, 0, 0)
    writer.close(orderly=False)
    os.kill(before["g1.a"], signal.SIGKILL)
    wait_until(lambda: list(config.trace.glob("process=0/*/witness-*.parquet")), "a witness")
    rows = [event for event in read_record(config.trace).trace.events if event.kind == "crash"]
    assert [(row.proc, row.detail) for row in rows] == [(0, "SIGKILL")]


def test_a_fresh_start_sets_the_record_of_the_run_before_aside(
    config: ClusterConfig, supervise: Any
) -> None:
    assert config.trace is not None
    config.trace.mkdir()
    (config.trace / "run.json").write_text("{}")
    supervise(PATIENT)
    all_up(config)
    assert (config.trace.with_name("run.1") / "run.json").exists()
    assert not (config.trace / "run.json").exists()


def test_up_refuses_to_forget_a_lost_state_unless_it_is_told_to(config: ClusterConfig) -> None:
    """It began anew without a word: what had been acknowledged was gone, and nobody knew."""
    born = OwnLife(config, 0)
    born.close(orderly=False)
    assert not lives_lost(config)  # it never served anybody
    lived = OwnLife(config, 0)
    lived.beat(1, 0, 0)
    assert not lives_lost(config)
    lived.close()
    shown = CliRunner().invoke(app, ["up", str(config.path)])
    assert shown.exit_code == Code.LOST
    assert "state is lost" in shown.stderr and "up --new" in shown.stderr
    assert path_of(config, 0).exists()
    command = [sys.executable, "-m", "shmcast.cli", "up", str(config.path), "--new", "--detach"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0
    assert not lives_lost(config)


def test_status_shows_who_leads_and_who_has_the_state(config: ClusterConfig) -> None:
    life = OwnLife(config, 0)
    life.show_complete(True)
    life.beat(1, 0, 1)
    other = OwnLife(config, 1)
    other.beat(1, 0, 1)
    shown = CliRunner().invoke(app, ["status", str(config.path), "--json"])
    first, second, third = json.loads(shown.stdout)["replicas"]
    assert (first["life"], first["complete"], first["leader"]) == (0, True, "g1.b")
    assert (second["complete"], third["complete"]) == (False, None)
    shown = CliRunner().invoke(app, ["status", str(config.path)])
    assert "waits for a state" in shown.stdout and "g1.b" in shown.stdout
    for one in (life, other):
        one.close()


def test_records_of_lives_are_forgotten_only_when_nobody_lives(config: ClusterConfig) -> None:
    record = Path(f"/dev/shm/shmcast-life.{config.name}.0")
    record.write_bytes(b"x")
    with record.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not forget_lives(config)
        assert record.exists()
    assert forget_lives(config)
    assert not record.exists()
