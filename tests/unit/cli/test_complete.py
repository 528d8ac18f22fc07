"""What the shell offers after TAB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer._completion_classes import BashComplete

from shmcast.cli.main import app
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox


def offered(*words: str, start: str) -> list[str]:
    shell = BashComplete(typer.main.get_command(app), {}, "shmcast", "_SHMCAST_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), start)]


@pytest.mark.parametrize(
    "words", [("rm",), ("send",), ("recv",), ("top",), ("gc",), ("inject", "copy")]
)
def test_names_of_mailboxes_complete(box: Mailbox, words: tuple[str, ...]) -> None:
    assert offered(*words, start=box.name[:-1]) == [box.name]
    assert offered(*words, start=box.name + "-no") == []


def test_mailboxes_of_a_domain_complete(name: str) -> None:
    with Domain.create(name) as domain:
        domain.create_mailbox("valves")
        assert offered("recv", start=name) == [name, f"{name}/valves"]
        assert offered("gc", start=name) == [name]


def test_nothing_is_offered_where_nothing_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise PermissionError

    for what in ("shmcast.mailbox.survey.surveys", "shmcast.mailbox.server.names"):
        monkeypatch.setattr(what, fail)
    words: list[Callable[[], list[str]]] = [
        lambda: offered("rm", start=""),
        lambda: offered("gc", start=""),
    ]
    assert [one() for one in words] == [[], []]


PROGRAM = "import sys; sys.argv[0] = 'shmcast'; from shmcast.cli.main import main; main()"


def told(shell: str, *, asked: str = "", script: bool = False) -> str:
    """What the program prints when the shell asks it: the script to read in, or what to offer."""
    command = [sys.executable, "-c", PROGRAM]
    wanted = {
        "_SHMCAST_COMPLETE": f"{'source' if script else 'complete'}_{shell}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": asked,
        "COMP_WORDS": asked,
        "COMP_CWORD": str(len(asked.split()) - 1),
    }
    done = subprocess.run(
        command, env={**os.environ, **wanted}, capture_output=True, text=True, check=False
    )
    return done.stdout


SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_can_read_its_script(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(told(shell, script=True))
    assert f"complete_{shell}" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read the script: tools/checkers installs it")
    checked = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_is_offered_commands_and_names(box: Mailbox, shell: str) -> None:
    assert "inject" in told(shell, asked="shmcast inj")
    offers = told(shell, asked=f"shmcast rm {box.name[:-1]}")
    assert box.name in offers and f"{box.name}-no" not in offers


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here: tools/checkers installs it")
def test_fish_completes_a_name(box: Mailbox, tmp_path: Path) -> None:
    (tmp_path / "completion").write_text(told("fish", script=True))
    program = tmp_path / "shmcast"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}\n")
    program.chmod(0o755)
    asked = f"source {tmp_path}/completion; complete -C 'shmcast rm {box.name[:-1]}'"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["fish", "-c", asked], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [box.name], done.stderr
