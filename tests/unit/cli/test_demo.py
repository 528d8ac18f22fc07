"""demo: a short one, whole; and nothing left behind, however it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from shmcast.cli.demo.show import closing_words
from shmcast.cli.output import console

ACTS = 7


def leftovers(pid: int) -> list[str]:
    """Segments of the demo, and its processes."""
    segments = [path.name for path in Path("/dev/shm").glob(f"shmcast.demo-{pid}*")]
    workers = [
        f"process {process.pid}"
        for process in psutil.process_iter(["cmdline"])
        if f"demo-{pid}" in " ".join(process.info["cmdline"] or [])
    ]
    return segments + workers


@pytest.mark.timeout(120)
def test_a_short_demo_loses_reorders_and_doubles_nothing(start: Any) -> None:
    process = start("demo", "--seconds", "3", "--json")
    out, errors = process.communicate(timeout=100)
    result = json.loads(out)
    assert errors == b""
    assert [result[k] for k in ("lost", "reordered", "doubled", "phantom")] == [0, 0, 0, 0]
    assert len(result["acts"]) == ACTS
    assert result["sent"] > 1000
    assert result["delivered"] > result["sent"]
    assert process.returncode == (0 if result["verdict"] == "ok" else 1)
    # A loaded machine may break a time bound; nothing else may be wrong.
    assert all("longer than its bound" in problem for problem in result["problems"])
    assert leftovers(process.pid) == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(start: Any, ending: signal.Signals) -> None:
    process = start("demo")
    while "kill a receiver" not in (line := process.stdout.readline().decode()):
        assert line, "the demo ended early"
    process.send_signal(ending)
    assert process.wait(timeout=60) == 130
    assert leftovers(process.pid) == []


def test_workers_end_by_themselves_when_the_director_is_killed(
    start: Any, wait_until: Any, run: Any
) -> None:
    process = start("demo")
    while "traffic" not in process.stdout.readline().decode():
        pass
    process.kill()
    process.wait()
    pid = process.pid
    wait_until(lambda: not [x for x in leftovers(pid) if "process" in x], "the workers are gone")
    for name in (f"demo-{pid}", f"demo-{pid}-plant"):
        assert json.loads(run("gc", name, "--abandoned", "--json").stdout)[0]["removed"]
    assert leftovers(pid) == []


def test_the_closing_words_name_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    result = {
        "verdict": "failed", "sent": 10, "delivered": 19, "rejected": 0, "lost": 1,
        "reordered": 0, "doubled": 0, "phantom": 0, "send_worst_ms": 1.0, "send_bound_ms": 2.0,
        "delivery_worst_ms": 3.0, "delivery_bound_ms": 2.0, "problems": ["1 lost: somewhere"],
        "acts": [{"title": "kill a receiver", "outcome": "", "pause_ms": 1.5}],
    }  # fmt: skip
    closing_words(result, console())
    shown = capsys.readouterr().out
    assert "lost 1" in shown and "1 lost: somewhere" in shown
    assert "a guarantee was broken" in shown
