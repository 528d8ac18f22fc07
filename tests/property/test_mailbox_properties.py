"""The four guarantees under any sequence of sends, joins, leaves, kills and lost copies.

Hypothesis chooses the steps; a receiver that is there from beginning to end is the witness.
"""

from __future__ import annotations

import os
import signal
import uuid

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import shmcast
from shmcast.mailbox import faults
from support.verdict import Key, SenderLog, violations

CAPACITY = 16


class Mailboxes(RuleBasedStateMachine):
    """Senders and receivers of this process, and children that are killed while they send."""

    @initialize(copies=st.integers(1, 4))
    def create(self, copies: int) -> None:
        self.name = f"t{os.getpid()}-prop-{uuid.uuid4().hex[:10]}"  # as conftest.py looks for
        self.box = shmcast.Mailbox.create(
            self.name, copies=copies, message_size=64, capacity=CAPACITY, receivers=8
        )
        self.receivers = {"w": self.box.receiver()}
        self.got: dict[str, list[Key]] = {"w": []}
        self.senders: dict[str, shmcast.Sender] = {}
        self.logs: dict[str, SenderLog] = {}
        self.joined = 0

    # ---- sending ----

    def new_log(self) -> SenderLog:
        log = SenderLog(f"s{len(self.logs)}")
        self.logs[log.token] = log
        return log

    @rule()
    def open_sender(self) -> None:
        if len(self.senders) < 3:
            self.senders[self.new_log().token] = self.box.sender()

    @precondition(lambda self: self.senders)
    @rule(data=st.data(), count=st.integers(1, CAPACITY))
    def send(self, data: st.DataObject, count: int) -> None:
        token = data.draw(st.sampled_from(sorted(self.senders)))
        log = self.logs[token]
        numbers = range(len(log.tried), len(log.tried) + count)
        log.tried.update(numbers)
        self.drain_all()  # this process holds both ends, so make room first
        self.senders[token].send_many([f"{token} {n}".encode() for n in numbers], timeout=5)
        log.accepted.update(dict.fromkeys(numbers, "all"))

    @precondition(lambda self: self.senders)
    @rule(data=st.data())
    def close_sender(self, data: st.DataObject) -> None:
        self.senders.pop(data.draw(st.sampled_from(sorted(self.senders)))).close()

    @rule(count=st.integers(1, CAPACITY), kill_after=st.integers(0, CAPACITY))
    def child_is_killed_while_it_sends(self, count: int, kill_after: int) -> None:
        """It acknowledges each send through a pipe; the parent kills it after some of them."""
        log = self.new_log()
        self.drain_all()
        acks, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.send_in_child(log.token, count, report)
        os.close(report)
        log.tried.update(range(count))
        acked = 0
        while acked < min(kill_after, count) and os.read(acks, 1):
            acked += 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        acked += len(os.read(acks, count + 1))
        os.close(acks)
        log.accepted.update(dict.fromkeys(range(acked), "all"))

    def send_in_child(self, token: str, count: int, report: int) -> None:
        try:
            tx = shmcast.Mailbox.open(self.name).sender(timeout=5)
            for n in range(count):
                tx.send(f"{token} {n}".encode(), timeout=5)
                os.write(report, b".")
            signal.pause()
        finally:
            os._exit(1)

    # ---- receiving ----

    def drain(self, name: str) -> None:
        try:
            while True:
                for m in self.receivers[name].receive_many(timeout=0):
                    self.note(name, m)
        except TimeoutError:
            pass

    def note(self, name: str, m: shmcast.Message) -> None:
        token, number = m.data.split()
        self.got[name].append(Key(m.timestamp, m.sender & 255, token.decode(), int(number)))

    def drain_all(self) -> None:
        for name in self.receivers:
            self.drain(name)

    @rule()
    def join(self) -> None:
        if len(self.receivers) < 4:
            name = f"r{self.joined}"
            self.joined += 1
            self.receivers[name] = self.box.receiver()
            self.got[name] = []

    @precondition(lambda self: len(self.receivers) > 1)
    @rule(data=st.data(), politely=st.booleans())
    def leave(self, data: st.DataObject, politely: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.receivers.keys() - {"w"})))
        receiver = self.receivers.pop(name)
        if politely:
            for m in receiver.leave():
                self.note(name, m)
        receiver.close()

    @rule(reads=st.integers(0, CAPACITY))
    def child_is_killed_while_it_receives(self, reads: int) -> None:
        """Its place holds slots until somebody who needs them frees it: no send misses its time."""
        acks, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.receive_in_child(report)
        os.close(report)
        assert os.read(acks, 1) == b"j"
        if self.senders:
            token = min(self.senders)
            log = self.logs[token]
            for n in range(len(log.tried), len(log.tried) + reads):
                log.tried.add(n)
                self.senders[token].send(f"{token} {n}".encode(), timeout=5)
                log.accepted[n] = "all"
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(acks)

    def receive_in_child(self, report: int) -> None:
        try:
            rx = shmcast.Mailbox.open(self.name).receiver(timeout=5)
            os.write(report, b"j")
            while True:
                rx.receive(timeout=5)
        finally:
            os._exit(1)

    # ---- copies ----

    @rule(data=st.data(), how=st.sampled_from(list(faults.Kill)))
    def lose_a_copy(self, data: st.DataObject, how: faults.Kill) -> None:
        intact = faults.intact_copies(self.box)
        if len(intact) > 1:
            faults.kill_copy(self.box, data.draw(st.sampled_from(intact)), how, seed=1)

    @rule()
    def replace_lost_copies(self) -> None:
        self.box.replace()

    # ---- what must hold ----

    @invariant()
    def no_violation_so_far(self) -> None:
        if not hasattr(self, "box"):
            return
        self.drain_all()
        assert violations(list(self.logs.values()), self.got, "w") == []

    def teardown(self) -> None:
        if not hasattr(self, "box"):
            return
        for sender in self.senders.values():
            sender.close()
        for receiver in self.receivers.values():
            receiver.close()
        self.box.reap()
        stats = self.box.stats()
        held = [s for s in stats.senders if s.pid] + list(stats.receivers)
        self.box.close()
        shmcast.Mailbox.remove(self.name)
        assert held == []


TestMailboxes = Mailboxes.TestCase
TestMailboxes.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
