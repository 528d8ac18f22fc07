"""The guarantees under any steps, beyond one mailbox of `eager`: the timed protocols within their
bounds, and a domain of two mailboxes whose senders are stopped in the middle of a send."""

from __future__ import annotations

import os
import signal
import time
import uuid

import hypothesis.strategies as st
from hypothesis import event, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import shmcast
from helpers import PATIENCE_S, bounds, wait_until
from shmcast.mailbox import faults
from support.verdict import Key, SenderLog, violations

Open = tuple[SenderLog, int, shmcast.Sender, shmcast.Receipt]


def fresh_name() -> str:
    return f"t{os.getpid()}-prop-{uuid.uuid4().hex[:10]}"  # as conftest.py looks for


def key_of(message: shmcast.Message) -> Key:
    token, number = message.data.split()
    return Key(message.timestamp, message.sender & 255, token.decode(), int(number))


def drain(receiver: shmcast.Receiver, into: list[Key]) -> None:
    try:
        while True:
            into.extend(key_of(m) for m in receiver.receive_many(timeout=0))
    except TimeoutError:
        pass


class Timed(RuleBasedStateMachine):
    """Bounds are wide. Where this machine has broken one all the same, `crash` promises nothing."""

    protocol = ""

    @initialize(copies=st.integers(1, 3))
    def create(self, copies: int) -> None:
        self.name = fresh_name()
        self.box = shmcast.Mailbox.create(
            self.name,
            protocol=self.protocol,
            copies=copies,
            message_size=64,
            capacity=64,
            receivers=8,
            bounds=bounds(self.protocol, copies),
        )
        self.receivers = {"w": self.box.receiver()}
        self.got: dict[str, list[Key]] = {"w": []}
        self.senders: dict[str, shmcast.Sender] = {}
        self.logs: dict[str, SenderLog] = {}
        self.open: list[Open] = []

    @rule(many=st.booleans(), count=st.integers(1, 3))
    def send(self, many: bool, count: int) -> None:
        token = f"s{len(self.logs) if many and len(self.logs) < 3 else 0}"
        if token not in self.senders:
            self.senders[token] = self.box.sender()
            self.logs[token] = SenderLog(token)
        log, sender = self.logs[token], self.senders[token]
        for number in range(len(log.tried), len(log.tried) + count):
            log.tried.add(number)
            try:
                receipt = sender.send(f"{token} {number}".encode(), timeout=PATIENCE_S)
                self.open.append((log, number, sender, receipt))
            except shmcast.Rejected:
                log.refused.add(number)

    @precondition(lambda self: len(self.receivers) < 3)
    @rule()
    def join(self) -> None:
        name = f"r{len(self.got)}"
        self.receivers[name] = self.box.receiver()
        self.got[name] = []

    @precondition(lambda self: len(self.receivers) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.receivers.keys() - {"w"})))
        self.receivers.pop(name).close()

    @rule(data=st.data(), how=st.sampled_from(list(faults.Kill)))
    def lose_a_copy(self, data: st.DataObject, how: faults.Kill) -> None:
        intact = faults.intact_copies(self.box)
        if len(intact) > 1:
            faults.kill_copy(self.box, data.draw(st.sampled_from(intact)), how, seed=1)

    @rule()
    def replace_lost_copies(self) -> None:
        self.box.replace()

    @rule()
    def look(self) -> None:
        for name, receiver in self.receivers.items():
            drain(receiver, self.got[name])

    def all_is_decided(self) -> bool:
        self.look()
        left = []
        for log, number, sender, receipt in self.open:
            try:
                sender.confirm(receipt, timeout=0)
                log.accepted[number] = "all"
            except shmcast.Rejected:
                log.refused.add(number)
            except TimeoutError:
                left.append((log, number, sender, receipt))
        self.open = left
        return not left

    def all_has_come(self) -> bool:
        self.look()
        wanted = sum(len(log.accepted) for log in self.logs.values())
        return self.bound_was_broken() or len(self.got["w"]) >= wanted

    def bound_was_broken(self) -> bool:
        stats = self.box.stats()
        late = any(r.violations or r.late or r.late_rounds for r in stats.receivers)
        return late or any(s.late or s.rejected for s in stats.senders)

    def teardown(self) -> None:
        if not hasattr(self, "box"):
            return
        try:
            wait_until(self.all_is_decided, "every message is decided")
            wait_until(self.all_has_come, "the witness has all that was accepted")
            if self.bound_was_broken():
                event("a bound was broken")
            if self.protocol == "timing" or not self.bound_was_broken():
                assert violations(list(self.logs.values()), self.got, "w") == []
        finally:
            self.box.close()
            shmcast.Mailbox.remove(self.name)


class Crash(Timed):
    protocol = "crash"


class Timing(Timed):
    protocol = "timing"


TestCrash = Crash.TestCase
TestTiming = Timing.TestCase
TestCrash.settings = TestTiming.settings = settings(
    max_examples=4, stateful_step_count=10, deadline=None
)

TO = ("a", "b", "a+b")


class TwoMailboxes(RuleBasedStateMachine):
    """Children send while they are stopped and go on again; a stopped one may be told Rejected."""

    @initialize(copies=st.integers(1, 3))
    def create(self, copies: int) -> None:
        self.name = fresh_name()
        self.domain = shmcast.Domain.create(
            self.name, copies=copies, bounds=bounds("eager", copies)
        )
        self.receivers = {}
        self.got: dict[str, list[Key]] = {"a": [], "b": []}
        for box in "ab":
            made = self.domain.create_mailbox(box, message_size=64, capacity=64)
            self.receivers[box] = made.receiver()
        self.sender = self.domain.sender()
        self.own = SenderLog("own")
        self.logs = [self.own]

    @rule(to=st.sampled_from(TO), count=st.integers(1, 8))
    def send(self, to: str, count: int) -> None:
        self.look()  # this process holds both ends, so make room first
        numbers = range(len(self.own.tried), len(self.own.tried) + count)
        self.own.tried.update(numbers)
        texts = [f"own {n}".encode() for n in numbers]
        self.sender.send_many(texts, to=to.split("+"), timeout=PATIENCE_S)
        self.own.accepted.update(dict.fromkeys(numbers, to))

    @rule(to=st.sampled_from(TO), stop_after_us=st.integers(0, 3000), kill=st.booleans())
    def child_is_stopped_while_it_sends(self, to: str, stop_after_us: int, kill: bool) -> None:
        log = SenderLog(f"c{len(self.logs)}")
        self.logs.append(log)
        self.look()
        count = 20
        log.tried.update(range(count))
        answers, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.send_in_child(log.token, to, count, report)
        os.close(report)
        began = os.read(answers, 1)
        until = time.monotonic_ns() + stop_after_us * 1000
        while time.monotonic_ns() < until:
            pass
        os.kill(pid, signal.SIGSTOP)
        self.send("a+b", 1)  # receivers and other senders do not wait for it beyond its bound
        os.kill(pid, signal.SIGKILL if kill else signal.SIGCONT)
        os.waitpid(pid, 0)
        said = began
        while more := os.read(answers, count):
            said += more
        os.close(answers)
        for number, answer in enumerate(said[1:]):
            if answer == ord("+"):
                log.accepted[number] = to
            else:
                log.refused.add(number)

    def send_in_child(self, token: str, to: str, count: int, report: int) -> None:
        try:
            with shmcast.Domain.open(self.name) as domain, domain.sender() as sender:
                os.write(report, b".")
                for number in range(count):
                    try:
                        text = f"{token} {number}".encode()
                        sender.send(text, to=to.split("+"), timeout=PATIENCE_S)
                        os.write(report, b"+")
                    except shmcast.Rejected:
                        os.write(report, b"-")
        finally:
            os._exit(0)

    @rule(data=st.data(), how=st.sampled_from(list(faults.Kill)))
    def lose_a_copy(self, data: st.DataObject, how: faults.Kill) -> None:
        intact = faults.intact_copies(self.domain)
        if len(intact) > 1:
            faults.kill_copy(self.domain, data.draw(st.sampled_from(intact)), how, seed=1)

    @rule()
    def replace_lost_copies(self) -> None:
        self.domain.replace()

    def look(self) -> None:
        for box, receiver in self.receivers.items():
            drain(receiver, self.got[box])

    def teardown(self) -> None:
        if not hasattr(self, "domain"):
            return
        try:
            self.sender.send(b"own 1000000", to=["a", "b"], timeout=PATIENCE_S)
            self.own.tried.add(1000000)
            last = [False, False]

            def both_ended() -> bool:
                self.look()
                last[:] = [any(k.number == 1000000 for k in self.got[box]) for box in "ab"]
                return all(last)

            wait_until(both_ended, "both mailboxes show the last message")
            for box in "ab":
                assert violations(self.logs, {box: self.got[box]}, box, box) == []
            in_both = {k[2:] for k in self.got["a"]} & {k[2:] for k in self.got["b"]}
            common = [[k for k in self.got[box] if k[2:] in in_both] for box in "ab"]
            assert common[0] == common[1], "one order, one timestamp"
        finally:
            self.domain.close()
            shmcast.Domain.remove(self.name)


TestTwoMailboxes = TwoMailboxes.TestCase
TestTwoMailboxes.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)
