"""top: pictures and lines."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
from typing import Any

from rich.console import Console

from shmcast.cli.top import view
from shmcast.cli.watch import Row, Watch
from shmcast.mailbox.core import CopyState
from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox


def a_row(name: str, rate: float = 0.0) -> Row:
    copies = [CopyState.INTACT, CopyState.FAILED]
    return Row(name, "eager", copies, 1, 1, 10, 10, 0, 0, 5_000, 10_000, 5_000, 10_000, rate, rate)


def test_once_shows_members_copies_and_worst_times(run: Any, box: Mailbox) -> None:
    with box.sender() as sender, box.receiver() as receiver:
        kill_copy(box, 0)
        sender.send(b"x")
        receiver.receive(timeout=1)
        shown = json.loads(run("top", box.name, "--once", "--json").stdout)["mailboxes"][0]
    assert shown["name"] == box.name
    assert (shown["senders"], shown["receivers"], shown["sent"], shown["received"]) == (1, 1, 1, 1)
    assert sorted(shown["copies"]) == ["failed", "intact", "intact"]
    assert 0 < shown["send_worst_ns"] < shown["send_bound_ns"]
    assert box.name in run("top", box.name, "--once").stdout


def test_a_mailbox_that_is_not_there_has_its_own_exit_code(run: Any) -> None:
    assert run("top", "no-such-mailbox", "--once").exit_code == 3


def test_rates_come_from_two_samples(box: Mailbox) -> None:
    with Watch(box.name) as watch, box.sender() as sender:
        assert watch.sample()[0].sent_per_s == 0
        for _ in range(10):
            sender.send(b"x")
        assert watch.sample()[0].sent_per_s > 0


def test_a_watch_survives_that_a_mailbox_is_made_anew(name: str) -> None:
    with Watch(name) as watch:
        assert watch.sample() == [] and name in watch.errors
        for _ in range(2):
            with Mailbox.create(name, copies=1, message_size=64, capacity=8):
                assert [row.name for row in watch.sample()] == [name]
            Mailbox.remove(name)
            assert watch.sample() == []


def test_many_mailboxes_fit_the_screen_with_the_busy_ones_first() -> None:
    rows = [a_row(f"idle-{n}") for n in range(50)] + [a_row("busy", rate=5000.0)]
    console = Console(width=140, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(view(rows, {}, lines=24))
    shown = console.export_text().splitlines()
    assert len(shown) <= 24
    assert "busy" in shown[1]
    assert "and 31 more" in shown[-1]


def test_without_a_terminal_it_prints_lines_until_it_is_stopped(start: Any, box: Mailbox) -> None:
    process = start("top", box.name, "--interval", "0.05")
    assert process.stdout.readline().startswith(f"{box.name} copies=3/3".encode())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


def test_in_a_terminal_it_draws_a_picture(start: Any, box: Mailbox) -> None:
    master, slave = pty.openpty()
    process = start("top", box.name, "--interval", "0.05", stdout=slave)
    os.close(slave)
    seen = b""
    while box.name.encode() not in seen:
        readable, _, _ = select.select([master], [], [], 20.0)
        assert readable, seen.decode()
        seen += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    os.close(master)
