"""The program as a whole: its commands, errors that say what to do next, exit codes, completion."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from shmcast import errors
from shmcast.cli.main import COMMANDS
from shmcast.cli.output import Code, exit_code
from shmcast.mailbox.mailbox import Mailbox


def test_help_names_every_command_and_every_exit_code(run: Any) -> None:
    shown = run("--help", env={"COLUMNS": "200"}).stdout
    for name in COMMANDS:
        assert f" {name} " in shown
    for code in Code:
        assert f"{code.value} " in shown.partition("Exit codes:")[2]
    assert "--install-completion" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run: Any, name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0 and "Usage:" in result.stdout


@pytest.mark.parametrize("name", ["bounds", "latency", "throughput", "multicast"])
def test_the_benches_are_there(run: Any, name: str) -> None:
    assert run("bench", name, "--help").exit_code == 0


def test_a_slip_of_the_finger_is_answered_with_what_was_meant(run: Any) -> None:
    result = run("verfy")
    assert result.exit_code == Code.USAGE
    assert "verify" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        (["send", "no-such-mailbox", "x"], Code.NOT_THERE, "no-such-mailbox"),
        (["verify", "/nonexistent"], Code.NOT_THERE, "run.json"),
        (["report", "/nonexistent"], Code.NOT_THERE, "run.json"),
        (["up", "/nonexistent.toml"], Code.NOT_THERE, "nonexistent.toml"),
        (["create", "no good name!"], Code.USAGE, "name"),
        (["top", "no-such-mailbox", "--once"], Code.NOT_THERE, ""),
        (["demo", "--seconds", "0"], Code.USAGE, "--seconds"),
    ],
)
def test_errors_are_short_and_have_their_codes(
    run: Any, arguments: list[str], code: Code, advice: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert advice in result.output and "Traceback" not in result.output


def test_what_is_there_already_has_its_code(run: Any, box: Mailbox) -> None:
    assert run("create", box.name).exit_code == Code.EXISTS


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotPermitted("x"), Code.NOT_PERMITTED),
        (PermissionError("x"), Code.NOT_PERMITTED),
        (errors.Rejected("x"), Code.REJECTED),
        (errors.MailboxFull("x"), Code.NOT_IN_TIME),
        (errors.DeadlineMissed("x"), Code.NOT_IN_TIME),
        (errors.MailboxLost("x"), Code.LOST),
        (errors.Corrupt("x"), Code.LOST),
        (errors.Incompatible("x"), Code.LOST),
        (errors.PeerDead("x"), Code.NOT_THERE),
        (OSError(errno.ENOSPC, "x"), Code.NO_SPACE),
        (ValueError("x"), Code.USAGE),
        (errors.ShmcastError("x"), Code.FAILED_VERDICT),
    ],
)
def test_every_kind_of_error_has_its_code(error: BaseException, code: Code) -> None:
    assert exit_code(error) is code


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str, number: int) -> list[str]:
        asked = {
            "_SHMCAST_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": f"{number}",
        }
        command = [
            sys.executable,
            "-c",
            "from shmcast.cli.main import app; app(prog_name='shmcast')",
        ]
        done = subprocess.run(
            command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        return done.stdout.split()

    assert completed("shmcast rep", 1) == ["report"]
    assert "--against" in completed("shmcast report --ag", 2)


def test_a_small_command_does_not_wait_for_what_only_large_ones_need() -> None:
    code = (
        "import json, sys; from shmcast.cli.main import app; "
        "app(['--version'], standalone_mode=False); print(json.dumps(sorted(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    loaded = set(json.loads(out.splitlines()[-1]))
    heavy = {"numpy", "pyarrow", "pyspark", "jinja2", "shmcast.multicast.run.node",
             "shmcast.multicast.sim.api"}  # fmt: skip
    assert heavy & loaded == set()


def test_figures_against_peers_need_the_source_tree_and_say_so(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    import shmcast

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shmcast, "__file__", str(tmp_path / "site" / "shmcast" / "__init__.py"))
    result = run("bench", "latency", "--quick")
    assert result.exit_code == Code.NOT_THERE
    assert "source tree" in result.output and "bench bounds" in result.output
