"""top: pictures and lines."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from helpers import SHM
from shmcast.cli.sampling import Row, Watch
from shmcast.cli.screen import Screen, keys_in
from shmcast.cli.top_view import Sort, State, picture, selected
from shmcast.mailbox.core import CopyState
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.faults import kill_copy
from shmcast.mailbox.mailbox import Mailbox
from support.terminal import Session, at_a_terminal


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


def shown(rows: list[Row], state: State, lines: int | None = 24, width: int = 140) -> list[str]:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(picture(rows, {}, state, width, lines))
    return console.export_text().splitlines()


FIFTY = [a_row(f"idle-{n:02}") for n in range(50)]


def test_many_mailboxes_fit_the_screen_with_the_busy_ones_first() -> None:
    lines = shown([*FIFTY, a_row("busy", rate=5000.0)], State())
    assert len(lines) <= 24
    assert "51 mailboxes" in lines[0] and "busy" in lines[2]
    assert "1–21 of 51" in lines[-1]


@pytest.mark.parametrize("width", [140, 80, 60, 40])
def test_figures_are_never_cut_on_a_narrow_screen(width: int) -> None:
    row = replace(a_row("a-mailbox-with-a-long-name", rate=12345.0), delivery_worst_ns=31_500_000)
    lines = shown([row], State(), width=width)
    assert max(map(len, lines)) <= width
    assert "12,345" in lines[2] and "31.5ms/10µs" in lines[2]
    assert lines[2].startswith("a-mailbox")


def test_keys_page_sort_and_filter() -> None:
    state = State()
    for key in ("page-down", "down"):
        state.press(key, 50, 24)
    assert "22–42 of 50" in shown(FIFTY, state)[-1]
    state.press("end", 50, 24)
    assert "idle-49" in shown(FIFTY, state)[-2]
    for key in ("/", "4", "x", "backspace", "7", "enter"):
        state.press(key, 50, 24)
    lines = shown(FIFTY, state)
    assert len(lines) == 4 and "idle-47" in lines[2] and "filter: 47" in lines[3]
    state.press("escape", 1, 24)
    state.press("s", 50, 24)
    state.press("r", 50, 24)
    assert state.sort is Sort.name and "idle-49" in shown(FIFTY, state)[2]
    state.press("q", 50, 24)
    assert state.quit


def test_what_lost_copies_or_is_near_its_bound_can_come_first() -> None:
    sound = replace(a_row("sound"), copies=[CopyState.INTACT], send_worst_ns=9_000)
    rows = [sound, a_row("damaged")]
    assert [row.name for row in selected(rows, State(Sort.copies))] == ["damaged", "sound"]
    assert [row.name for row in selected(rows, State(Sort.worst))] == ["sound", "damaged"]


def test_keys_are_read_as_a_terminal_sends_them() -> None:
    assert keys_in("\x1b[Aq\x1b[6~\x7f\r") == [
        "up", "q", "page-down", "backspace", "enter",
    ]  # fmt: skip
    assert keys_in("\x1b[1;5Cs") == ["s"]  # an unknown sequence is nothing
    assert keys_in("\x1b") == ["escape"]


def test_only_lines_that_changed_are_written() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, force_terminal=True, width=100, height=10))
    screen.draw("one\ntwo\nthree")
    written.truncate(0)
    screen.draw("one\n2\nthree")
    assert "2" in written.getvalue() and "three" not in written.getvalue()
    written.truncate(0)
    screen.draw("one\n2\nthree")
    assert written.getvalue() == ""
    screen.draw("one")
    assert "\x1b[2;1H\x1b[J" in written.getvalue()


def test_without_a_terminal_it_prints_lines_until_it_is_stopped(start: Any, box: Mailbox) -> None:
    process = start("top", box.name, "--interval", "0.05")
    assert process.stdout.readline().startswith(f"{box.name} copies=3/3".encode())
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


@contextlib.contextmanager
def top_at_a_terminal(*names: str) -> Iterator[Session]:
    command = [sys.executable, "-m", "shmcast.cli", "top", *names, "--interval", "0.05"]
    with at_a_terminal(command, size=(24, 120)) as session:
        yield session
        session.press("q")
        assert session.rest().count("\n") == 0  # it has left the screen to whoever had it before
        assert session.process.returncode == 0


def test_in_a_terminal_it_draws_a_picture_and_obeys_keys(box: Mailbox) -> None:
    with top_at_a_terminal(box.name) as session:
        session.read_until(box.name)
        session.press("/")
        session.read_until("filter:")
        session.press("no-such-name\r")
        session.read_until("no name contains 'no-such-name'")


def test_fifty_mailboxes_can_be_watched_in_a_terminal(name: str) -> None:
    with contextlib.ExitStack() as stack:
        names = [f"{name}-{number:02}" for number in range(50)]
        boxes = []
        for each in names:
            boxes.append(stack.enter_context(Mailbox.create(each, copies=2, capacity=2)))
            stack.callback(Mailbox.remove, each)
        ends = [(box.sender(), box.receiver()) for box in boxes]
        session = stack.enter_context(top_at_a_terminal(*names))
        session.read_until("1–21 of 50")
        session.press("\x1b[F")  # end
        session.read_until("30–50 of 50")
        session.press("\x1b[H")
        session.read_until("1–21 of 50")
        ends[49][0].send(b"x")
        ends[49][1].receive(timeout=10)
        session.press("/-49\r")
        assert names[49] in session.read_until("filter: -49 ")
        kill_copy(boxes[49], 0)
        session.read_until("1 copy lost")


def test_it_writes_nothing_into_the_memory_that_it_looks_at(run: Any, name: str) -> None:
    """So nobody is slowed: not even a cache line of theirs is taken away to be written."""
    box = Mailbox.create(name, copies=3, message_size=64, capacity=8)
    with box, box.sender() as sender, box.receiver() as receiver:
        sender.send(b"delivered")
        receiver.receive(timeout=10)
        sender.send(b"waiting")
        files = sorted(SHM.glob(f"shmcast.{name}.*"))
        before = [file.read_bytes() for file in files]
        for _ in range(2):
            shown = json.loads(run("top", name, "--once", "--json").stdout)["mailboxes"][0]
        assert (shown["sent"], shown["depth"]) == (2, 1)
        assert [file.read_bytes() for file in files] == before and len(files) == 3


@pytest.mark.parametrize("protocol", ["crash", "timing", "eager"])
def test_a_delivery_is_red_when_the_core_counts_it_as_late(name: str, protocol: str) -> None:
    box = Mailbox.create(name, copies=1, message_size=64, capacity=8, protocol=protocol)
    with box, box.sender() as sender, box.receiver() as receiver, Watch(name) as watch:
        sender.send(b"x", timeout=20)
        receiver.receive(timeout=20)
        (shown,) = watch.sample()
        stats = box.stats()
    is_late = stats.receivers[0].late > 0
    assert (shown.delivery_worst_ns > shown.delivery_bound_ns) == is_late
    if protocol != "eager":  # they deliver nothing before their latency
        assert shown.delivery_worst_ns > stats.latency_bound_ns


def test_it_waits_for_no_domain_that_cannot_be_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    def opened(domain: str, *, timeout: float | None) -> Domain:
        waited.append(timeout)
        raise TimeoutError(f"{domain}: it is being made")

    monkeypatch.setattr(Domain, "open", opened)
    with Watch(f"{name}-1", f"{name}-2") as watch:
        assert watch.sample() == [] and len(watch.errors) == 2
    assert waited == [0, 0]
