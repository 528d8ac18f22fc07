"""demo: a short one, whole; its picture; and nothing left behind, however it ends."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from shmcast.cli.demo.closing import closing_words
from shmcast.cli.demo.script import TITLES
from shmcast.cli.output import console
from shmcast.mailbox import server
from support.terminal import at_a_terminal


class Ended(NamedTuple):
    pid: int
    code: int
    errors: bytes
    result: dict[str, Any]
    folder: Path


def folders(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"shmcast-demo-{pid}-*"))


def leftovers(pid: int) -> list[str]:
    """What the demo made in shared memory, its processes and its folder."""
    segments = [path.name for path in Path("/dev/shm").glob(f"shmcast*demo-{pid}*")]
    workers = [
        f"process {process.pid}"
        for process in psutil.process_iter(["cmdline", "ppid"])
        if process.info["ppid"] == pid or f"demo-{pid}" in " ".join(process.info["cmdline"] or [])
    ]
    return segments + workers + [f"folder {path}" for path in folders(pid)]


@pytest.fixture(scope="module")
def ended(start_once: Any, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("demo")
    options = ["--seconds", "2", "--json", "--no-spark", "--record", str(folder / "runs")]
    process = start_once("demo", *options, "--report", str(folder / "page.html"))
    out, errors = process.communicate(timeout=200)
    return Ended(process.pid, process.returncode, errors, json.loads(out), folder)


@pytest.mark.timeout(240)
def test_a_short_demo_loses_reorders_and_doubles_nothing(ended: Ended) -> None:
    result = ended.result
    assert ended.errors == b""
    assert [result[k] for k in ("lost", "reordered", "doubled", "phantom")] == [0, 0, 0, 0]
    assert [act["title"] for act in result["acts"]] == list(TITLES)
    assert (result["verdict"], result["problems"], ended.code) == ("ok", [], 0)
    for system in ("mailboxes", "cluster"):
        figures = result["systems"][system]
        assert 0 < figures["sent"] < figures["delivered"]
    # A loaded machine may exceed a bound. Then that is told; the verdict is about order.
    assert result["in_time"] == (not result["late"])


def test_the_demo_leaves_nothing_behind(ended: Ended) -> None:
    assert leftovers(ended.pid) == []


def test_a_leader_and_a_copy_were_really_killed(ended: Ended) -> None:
    outcomes = [act["outcome"] for act in ended.result["acts"]]
    assert outcomes[3].startswith("2 of 3") and outcomes[4].startswith("1 of 3")
    assert "3 of 3 intact" in outcomes[5]
    assert " led after " in outcomes[6] and outcomes[6].startswith("g1.")


def test_the_record_can_be_verified_by_anybody(ended: Ended, run: Any) -> None:
    for system in ("mailboxes", "cluster"):
        told = run("verify", str(ended.folder / "runs" / system), "--engine", "memory", "--json")
        answer = json.loads(told.stdout)
        assert told.exit_code == 0 and answer["missing"] == []
        assert {one["verdict"] for one in answer["properties"].values()} == {"passed"}


def test_the_report_shows_the_verdict_and_both_systems(ended: Ended) -> None:
    assert ended.result["report"] == str(ended.folder / "page.html")
    page = (ended.folder / "page.html").read_text()
    for wanted in ("under fire", "demo: mailboxes", "demo: cluster", "kill the leader", "<svg"):
        assert wanted in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing is fetched


@pytest.mark.timeout(240)
def test_in_a_terminal_it_draws_a_picture_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with at_a_terminal([sys.executable, "-m", "shmcast.cli", "demo"], tmp_path) as session:
        for wanted in ("starting processes", "valves", "send/bound", "leader", "g1.", "2/7"):
            session.read_until(wanted)
        session.process.send_signal(signal.SIGINT)
        session.rest()  # it must be able to write while it cleans up
        assert session.process.returncode == 130
    assert leftovers(session.process.pid) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(240)
def test_sigterm_leaves_nothing_behind(start: Any, tmp_path: Path) -> None:
    process = start("demo", cwd=tmp_path)
    while "kill a receiver" not in (line := process.stdout.readline().decode()):
        assert line, "the demo ended early"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert leftovers(process.pid) == []


@pytest.mark.timeout(240)
def test_everybody_ends_when_the_director_is_killed(
    start: Any, wait_until: Any, run: Any, tmp_path: Path
) -> None:
    process = start("demo", cwd=tmp_path)
    while "1/7" not in (line := process.stdout.readline().decode()):
        assert line, "the demo ended early"
    process.kill()
    process.wait()
    pid = process.pid
    wait_until(lambda: not [x for x in leftovers(pid) if "process" in x], "all are gone", 60.0)
    mine = [name for name in server.names() if name.startswith(f"demo-{pid}")]
    assert f"demo-{pid}" in mine  # without names everybody's would be cleaned up
    reports = json.loads(run("gc", *mine, "--abandoned", "--json").stdout)
    assert [report for report in reports if not report["removed"]] == []
    for folder in folders(pid):  # nobody is left who could
        shutil.rmtree(folder)
    assert leftovers(pid) == []


RESULT = {
    "verdict": "ok", "in_time": True, "sent": 10, "delivered": 19, "rejected": 0, "lost": 0,
    "reordered": 0, "doubled": 0, "phantom": 0, "send_worst_ms": 1.0, "send_bound_ms": 2.0,
    "delivery_worst_ms": 1.0, "delivery_bound_ms": 2.0, "problems": [], "late": [], "notes": [],
    "verified_in": ["memory"], "verified": "14 properties", "report": None,
    "acts": [{"title": "kill a receiver", "outcome": "", "pause_ms": 1.5}],
}  # fmt: skip


def test_the_closing_words_name_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"verdict": "failed", "lost": 1, "problems": ["1 lost: somewhere"]}
    closing_words({**RESULT, **broken}, console())
    shown = capsys.readouterr().out
    assert "lost 1" in shown and "1 lost: somewhere" in shown
    assert "a guarantee was broken" in shown


def test_a_late_machine_is_told_from_a_broken_guarantee(
    capsys: pytest.CaptureFixture[str],
) -> None:
    closing_words({**RESULT, "in_time": False, "late": ["a send took 3 ms"]}, console())
    shown = " ".join(capsys.readouterr().out.split())
    assert "a send took 3 ms" in shown and "nothing was lost, reordered or doubled" in shown
    assert "a guarantee was broken" not in shown
