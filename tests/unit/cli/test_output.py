"""What every command shares: what is missing is named, and long work is seen on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from shmcast.cli.output import busy, progress
from shmcast.multicast.traces.generate import generate


def terminal() -> tuple[Console, io.StringIO]:
    seen = io.StringIO()
    return Console(file=seen, force_terminal=True, width=80), seen


def test_long_work_is_seen_on_a_terminal_and_gone_at_the_end(
    wait_until: Callable[..., object],
) -> None:
    out, seen = terminal()
    with busy("counting", after_s=0.0, out=out) as stop:
        wait_until(lambda: "counting" in seen.getvalue(), "the status")
        stop()
        assert seen.getvalue().endswith("\x1b[2K"), "its line is empty"
        drawn = len(seen.getvalue())
    assert len(seen.getvalue()) == drawn


def test_short_work_and_a_pipe_see_nothing() -> None:
    out, seen = terminal()
    with busy("counting", after_s=3600.0, out=out):
        pass
    assert "counting" not in seen.getvalue()
    pipe = io.StringIO()
    with busy("counting", after_s=0.0, out=Console(file=pipe)):
        pass
    assert pipe.getvalue() == ""


def test_a_bar_says_how_much_is_done_and_is_gone_at_the_end() -> None:
    out, seen = terminal()
    with progress("starting plant", 3, after_s=0.0, out=out) as show:
        for done in (1, 3):
            show(done)
            assert "starting plant" in seen.getvalue() and f"{done}/3" in seen.getvalue()
        assert "2/3" not in seen.getvalue()
    assert seen.getvalue().endswith("\x1b[2K"), "its line is empty"


def test_a_bar_can_look_for_itself(wait_until: Callable[..., object]) -> None:
    out, seen = terminal()
    with progress("ending plant", 3, look=lambda: 2, after_s=0.0, out=out):
        wait_until(lambda: "2/3" in seen.getvalue(), "a look")


def test_a_bar_is_not_drawn_for_short_work_nor_into_a_pipe() -> None:
    out, seen = terminal()
    with progress("starting plant", 3, after_s=3600.0, out=out) as show:
        show(1)
    assert "plant" not in seen.getvalue()
    pipe = io.StringIO()
    with progress("starting plant", 3, after_s=0.0, out=Console(file=pipe)) as show:
        show(1)
    assert pipe.getvalue() == ""


WITHOUT_ARROW = (
    "import sys; sys.modules['pyarrow'] = None; from shmcast.cli.main import main; main()"
)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["verify", "--engine", "spark"], "pipeline"),
        (["verify", "--engine", "memory"], "trace"),
        (["watch"], "pipeline"),
        (["report"], "report"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_without_arrow_a_command_says_what_to_install(
    tmp_path: Path, words: list[str], extra: str
) -> None:
    generate(tmp_path, messages=5)
    command = [sys.executable, "-c", WITHOUT_ARROW, *words, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("shmcast: ")
    assert "needs pyarrow, which is not installed" in done.stderr
    assert f"pip install 'shmcast[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
