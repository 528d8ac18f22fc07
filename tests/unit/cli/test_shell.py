"""send and recv, between real processes."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox


def joined(start: Any, *args: str) -> subprocess.Popen[bytes]:
    receiver: subprocess.Popen[bytes] = start("recv", *args, "--verbose")
    assert receiver.stderr is not None
    assert b"joined" in receiver.stderr.readline()
    return receiver


def test_lines_go_from_stdin_to_stdout_in_order(start: Any, box: Mailbox) -> None:
    receiver = joined(start, box.name, "-n", "3")
    sender = start("send", box.name)
    sender.communicate(b"one\ntwo\n\xff raw\n", timeout=30)
    assert sender.returncode == 0
    out, _ = receiver.communicate(timeout=30)
    assert out == b"one\ntwo\n\xff raw\n"
    assert receiver.returncode == 0


def test_json_lines_carry_timestamp_and_sender(start: Any, run: Any, box: Mailbox) -> None:
    receiver = joined(start, box.name, "-n", "2", "--json")
    assert run("send", box.name, "a", "b").exit_code == 0
    out, _ = receiver.communicate(timeout=30)
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["data"], second["data"]) == ("a", "b")
    assert first["timestamp"] < second["timestamp"]


def test_one_send_reaches_several_mailboxes_of_a_domain(run: Any, name: str) -> None:
    with Domain.create(name, copies=2) as domain:
        boxes = [domain.create_mailbox(n, message_size=64, capacity=8) for n in ("a", "b")]
        receivers = [box.receiver() for box in boxes]
        assert run("send", name, "--to", "a", "--to", "b", "both").exit_code == 0
        assert [r.receive(timeout=1).data for r in receivers] == [b"both", b"both"]


def test_a_domain_without_destinations_is_a_usage_error(run: Any, name: str) -> None:
    with Domain.create(name, copies=1) as domain:
        domain.create_mailbox("a", message_size=64, capacity=8)
        result = run("send", name, "x")
    assert result.exit_code == 2
    assert "is a domain" in result.stderr


def test_nothing_in_time_has_its_own_exit_code(run: Any, box: Mailbox) -> None:
    assert run("recv", box.name, "--timeout", "0.05").exit_code == 6


def test_a_message_that_is_too_large_is_a_usage_error(run: Any, box: Mailbox) -> None:
    result = run("send", box.name, "x" * 300)
    assert result.exit_code == 2
    assert "larger than message_size" in result.stderr


def test_recv_ends_at_ctrl_c_and_leaves_its_place(start: Any, box: Mailbox) -> None:
    receiver = joined(start, box.name)
    receiver.send_signal(signal.SIGINT)
    assert receiver.wait(timeout=30) == 130
    assert box.stats().receivers == []


def test_a_reader_that_has_enough_ends_recv_quietly(start: Any, box: Mailbox, run: Any) -> None:
    receiver = joined(start, box.name)
    receiver.stdout.close()
    with box.sender() as sender:
        sender.send(b"x")
    assert receiver.wait(timeout=30) == 0
    assert b"Traceback" not in receiver.stderr.read()
