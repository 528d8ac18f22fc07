"""create, ls, rm, gc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import Child
from shmcast.mailbox.core import CopyState
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox

_DYING_SENDER = """
import os, signal, sys
from shmcast.mailbox.mailbox import Mailbox
box = Mailbox.open(sys.argv[1])
sender = box.sender()
os.kill(os.getpid(), signal.SIGKILL)
"""


def entry(run: Any, name: str) -> dict[str, Any]:
    found = [domain for domain in json.loads(run("ls", "--json").stdout) if domain["name"] == name]
    assert len(found) == 1
    return dict(found[0])


def test_a_created_mailbox_is_listed_and_a_removed_one_is_gone(run: Any, name: str) -> None:
    assert run("create", name, "--copies", "2", "--message-size", "64").exit_code == 0
    listed = entry(run, name)
    assert listed["copies"] == ["intact", "intact"]
    assert listed["mailboxes"][0]["message_size"] == 64
    assert run("rm", name).exit_code == 0
    assert not list(Path("/dev/shm").glob(f"shmcast.{name}.*"))


def test_ls_shows_who_is_a_member(run: Any, box: Mailbox) -> None:
    with box.sender(), box.receiver():
        listed = entry(run, box.name)
    assert listed["mailboxes"][0]["senders"] == [os.getpid()]
    assert listed["mailboxes"][0]["receivers"] == [os.getpid()]
    assert os.getpid() in listed["mapped_by"]
    assert box.name in run("ls").stdout


def test_ls_names_the_mailboxes_of_a_domain(run: Any, name: str) -> None:
    with Domain.create(name, copies=2) as domain:
        domain.create_mailbox("valves", message_size=64, capacity=8)
        assert [box["name"] for box in entry(run, name)["mailboxes"]] == ["valves"]
        assert f"{name}/valves" in run("ls").stdout


def test_what_is_in_use_is_removed_only_by_force(run: Any, box: Mailbox) -> None:
    with box.sender():
        refused = run("rm", box.name)
        assert refused.exit_code == 2
        assert "--force" in refused.stderr
        assert run("rm", "--force", box.name).exit_code == 0


def test_the_dead_are_no_users(run: Any, box: Mailbox) -> None:
    member = Child(
        """
        box = shmcast.Mailbox.open(args[0])
        kept = box.receiver(), box.sender()
        say("joined")
        hear()
        """,
        box.name,
    )
    assert member.heard() == "joined"
    member.kill()
    member.ended()
    assert run("rm", box.name).exit_code == 0


@pytest.mark.parametrize(
    ("command", "code", "hint"),
    [
        (["rm", "no-such-mailbox"], 3, "create it"),
        (["send", "no-such-mailbox", "x"], 3, "create it"),
        (["recv", "no-such-mailbox"], 3, "create it"),
        (["create", "bad/name"], 2, "out of range"),
        (["create", "fine-name", "--copies", "99"], 2, "copies must be"),
        (["create", "fine-name", "--copies", "many"], 2, "copies"),
        (["no-such-command"], 2, "no-such-command"),
    ],
)
def test_an_error_is_one_line_with_its_own_exit_code(
    run: Any, command: list[str], code: int, hint: str
) -> None:
    result = run(*command)
    assert result.exit_code == code
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_name_that_exists_is_not_created_again(run: Any, box: Mailbox) -> None:
    result = run("create", box.name)
    assert result.exit_code == 9
    assert "exists already" in result.stderr


def test_gc_frees_the_places_of_the_dead(run: Any, box: Mailbox) -> None:
    subprocess.run([sys.executable, "-c", _DYING_SENDER, box.name], check=False, timeout=30)
    assert json.loads(run("gc", box.name, "--json").stdout)[0]["freed"] == 1
    assert json.loads(run("gc", box.name, "--json").stdout)[0]["freed"] == 0


def test_gc_replaces_failed_copies(run: Any, box: Mailbox) -> None:
    kill_copy(box, 0)
    assert "1 copies replaced" in run("gc", box.name).stdout
    assert box.copies == [CopyState.INTACT] * 3


def test_gc_removes_what_nobody_has_mapped_only_when_told(run: Any, name: str) -> None:
    Mailbox.create(name, copies=1, message_size=64, capacity=8).close()
    assert run("gc", name).exit_code == 0
    assert json.loads(run("gc", name, "--abandoned", "--json").stdout)[0]["removed"]
    assert run("gc", name).exit_code == 1


def test_gc_keeps_what_another_process_has_mapped(start: Any, run: Any, box: Mailbox) -> None:
    receiver = start("recv", box.name, "--verbose")
    assert b"joined" in receiver.stderr.readline()
    assert not json.loads(run("gc", box.name, "--abandoned", "--json").stdout)[0]["removed"]


def test_a_full_shared_memory_has_its_own_exit_code(run: Any, name: str) -> None:
    size = str(1 << 30)
    result = run("create", name, "--message-size", size, "--capacity", str(1 << 20))
    assert result.exit_code == 8
    assert "/dev/shm is full" in result.stderr
