"""Bounds are kept, or the breach is decided, counted, kept for whoever asks, raised by policy."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

import pytest

import shmcast
from helpers import Child, bounds, wait_until
from shmcast.mailbox import faults
from shmcast.mailbox.core import CopyState
from shmcast.realtime.bounds import NS_PER_MS, Bounds

Start = Callable[..., Child]
TIGHT = {"write_ns": 1, "flag_ns": 1, "decide_ns": 1, "poll_ns": 1000}
TIGHT_READ = {"read_ns": 1, "clear_ns": 1}


def tight(protocol: str, copies: int = 2) -> Bounds:
    """No machine can keep these."""
    return bounds(protocol, copies, **TIGHT)


def test_a_send_beyond_its_bound_is_counted_kept_and_decided(name: str) -> None:
    """In `eager` a late send of a living sender is accepted: nobody was in its way."""
    with shmcast.Mailbox.create(name, copies=2, bounds=tight("eager")) as box:
        tx = box.sender()
        tx.send(b"x")
        kept = tx.overruns()
        assert [o.kind for o in kept] == ["send late"]
        assert kept[0].took_ns > kept[0].bound_ns == box.stats().send_bound_ns
        assert box.stats().senders[0].late == 1
        assert tx.overruns() == []


def test_a_late_send_raises_by_policy_and_the_message_is_there_all_the_same(name: str) -> None:
    with shmcast.Mailbox.create(name, copies=2, bounds=tight("eager")) as box:
        tx, rx = box.sender(late="raise"), box.receiver()
        with pytest.raises(shmcast.DeadlineMissed, match="done, but later"):
            tx.send(b"x")
        assert rx.receive(timeout=20).data == b"x"


def test_a_late_delivery_raises_at_the_next_call_and_loses_nothing(name: str) -> None:
    impossible = bounds("eager", 2, **TIGHT, **TIGHT_READ)
    with shmcast.Mailbox.create(name, copies=2, bounds=impossible) as box:
        tx, rx = box.sender(), box.receiver(late="raise", wait="block")
        with waiting(box, rx) as got_early:
            tx.send(b"one")  # and nobody delivers within six nanoseconds
        assert got_early == [b"one"]
        with pytest.raises(shmcast.DeadlineMissed, match="nothing is lost"):
            rx.receive(timeout=0)
        tx.send(b"two")
        assert rx.receive(timeout=20).data == b"two"
        assert rx.overruns()[0].kind == "delivery late"
        assert box.stats().receivers[0].late >= 1


@contextlib.contextmanager
def waiting(box: shmcast.Mailbox, rx: shmcast.Receiver) -> Iterator[list[bytes]]:
    """A thread that sleeps in receive() when the block begins, and has returned when it ends."""
    got: list[bytes] = []
    slept = box.stats().receivers[0].sleeps
    thread = threading.Thread(target=lambda: got.append(rx.receive(timeout=30).data))
    thread.start()
    wait_until(lambda: box.stats().receivers[0].sleeps > slept, "the receiver sleeps")
    yield got
    thread.join()


def test_an_application_that_reads_later_has_broken_no_bound(name: str, protocol: str) -> None:
    """Δr is the receiver's time, not its caller's: after the bound is over, nothing is late."""
    quick = bounds(protocol, 2)
    with shmcast.Mailbox.create(name, protocol=protocol, copies=2, bounds=quick) as box:
        tx, rx = box.sender(), box.receiver(late="raise", wait="block")
        ts = [tx.send(b"x" * 10).timestamp for _ in range(3)][-1]
        over = ts + quick.latency_ns(protocol) + quick.receive_ns(protocol)
        wait_until(lambda: time.monotonic_ns() > over, "the bound to be over")
        for _ in range(3):
            assert rx.receive(timeout=20).data == b"x" * 10
        assert box.stats().receivers[0].late == 0


def test_copying_a_large_payload_is_part_of_a_sends_time(name: str) -> None:
    """In `eager` it comes before the timestamp."""
    bound = bounds("eager", 2, write_ns=200_000, flag_ns=1)  # for 64 MiB in two copies: too little
    with shmcast.Mailbox.create(
        name, copies=2, message_size=64 << 20, capacity=2, senders=1, receivers=1, bounds=bound
    ) as box:
        tx = box.sender()
        tx.send(bytes(64 << 20))
        assert [o.kind for o in tx.overruns()] == ["send late"]


def test_histograms_count_every_send_and_every_delivery(name: str, protocol: str) -> None:
    with shmcast.Mailbox.create(
        name, protocol=protocol, copies=2, bounds=bounds(protocol, 2)
    ) as box:
        tx, rx = box.sender(), box.receiver()
        for _ in range(20):
            tx.send(b"x")
        got = 0
        while got < 20:
            got += len(rx.receive_many(timeout=20))
        stats = box.stats()
        assert stats.senders[0].histogram.total == 20
        assert stats.senders[0].histogram.percentile(100) == stats.senders[0].worst_ns
        assert stats.receivers[0].histogram.total == 20
        assert stats.receivers[0].histogram.percentile(100) == stats.receivers[0].worst_ns


def test_a_histogram_survives_its_copy_and_starts_anew_with_a_new_receiver(name: str) -> None:
    with shmcast.Mailbox.create(name, copies=2) as box:
        tx, rx = box.sender(), box.receiver()
        tx.send(b"x")
        rx.receive()
        faults.kill_copy(box, 0)
        tx.send(b"y")
        rx.receive()
        assert box.stats().senders[0].histogram.total == 2
        assert box.stats().receivers[0].histogram.total == 2
        box.replace()
        tx.send(b"z")
        assert box.stats().senders[0].histogram.total == 3
        rx.close()
        with box.receiver():
            assert box.stats().receivers[0].histogram.total == 0


def test_the_mailbox_knows_which_calibration_its_bounds_came_from(name: str) -> None:
    with shmcast.Mailbox.create(name, copies=2, bounds=bounds("eager", 2, calibration=77)):
        assert shmcast.Mailbox.open(name).stats().calibration == 77


# ---- wrong bounds ----


@pytest.mark.parametrize("timed", ["crash", "timing"])
def test_bounds_that_are_too_tight_are_noticed_and_nothing_splits(
    name: str, start: Start, timed: str
) -> None:
    """Every send is late. Whatever is decided, the sender and both receivers say the same."""
    with shmcast.Mailbox.create(
        name, protocol=timed, copies=2, message_size=64, capacity=256, bounds=tight(timed)
    ) as box:
        readers = [start(READER, name) for _ in range(2)]
        for reader in readers:
            assert reader.heard() == "ready"
        tx, accepted, rejected = box.sender(timeout=20), [], []
        for i in range(60):
            try:
                receipt = tx.send(str(i).encode(), timeout=20)
                tx.confirm(receipt, timeout=20)
                accepted.append(str(i))
            except shmcast.Rejected:
                rejected.append(str(i))
        for reader in readers:
            reader.tell()
        got = [reader.heard() for reader in readers]
        assert got[0] == got[1] == accepted
        assert rejected, "nobody noticed"
        late = box.stats().senders[0]
        assert late.rejected + late.late >= len(rejected)
        kept = tx.overruns()
        assert kept and all(o.timestamp for o in kept), "of a rejected send, too"


# Reads until it is told to stop and nothing comes any more; says what it got.
READER = """
box = shmcast.Mailbox.open(args[0], timeout=20)
rx = box.receiver(timeout=20, wait="block")
say("ready")
got, quiet = [], 0
while quiet < 3:
    try:
        got.append(rx.receive(timeout=0.2).data.decode())
    except TimeoutError:
        quiet += told()
say(got)
hear()
"""


def test_a_lane_full_of_rejected_messages_is_free_again_while_the_receiver_waits(
    name: str, start: Start
) -> None:
    """The receiver skipped them inside one long receive, and said so only when that returned."""
    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, capacity=4, bounds=tight("timing")
    ) as box:
        reader = start(
            """
            box = shmcast.Mailbox.open(args[0], timeout=20)
            rx = box.receiver(timeout=20)
            say("ready")
            try:
                rx.receive(timeout=50)
            except TimeoutError:
                pass
            hear()
            """,
            name,
        )
        assert reader.heard() == "ready"
        tx = box.sender(timeout=20)
        for _ in range(12):  # three times the lane; nobody's send takes less than these bounds
            with pytest.raises(shmcast.Rejected):
                tx.confirm(tx.send(b"x", timeout=20), timeout=20)


# ---- timing failures of receivers ----

# args: name. Sets its clock as it is told; says what it decided upon, in its order, at the end.
MEMBER = """
from shmcast.mailbox import faults
box = shmcast.Mailbox.open(args[0], timeout=20)
rx = box.receiver(timeout=20, wait="block")
say("ready")
got = []
while not got or got[-1] != "end":
    if told():
        faults.skew_clock(float(hear()))
        say("set")
    try:
        got.append(rx.receive(timeout=0.02).data.decode())
    except TimeoutError:
        continue
    except shmcast.DeadlineMissed:
        got.append("evicted")
        break
say(got)
hear()
"""

STOPPED, SLOW = "stopped", "slow"
FAST, LATE = "10.0", "-10.0"  # seconds that a clock is ahead, or behind: far beyond every bound


def members(start: Start, name: str, count: int) -> list[Child]:
    found = [start(MEMBER, name) for _ in range(count)]
    for member in found:
        assert member.heard() == "ready"
    return found


def set_clock(member: Child, offset_s: str) -> None:
    member.tell(offset_s)
    assert member.heard() == "set"


class Faulty:
    """`with` it, these members have their faults; afterwards they are well again."""

    def __init__(self, members: list[Child], kinds: tuple[str, ...]) -> None:
        self._pairs = list(zip(members, kinds, strict=True))

    def __enter__(self) -> Faulty:
        for member, kind in self._pairs:
            if kind == STOPPED:
                os.kill(member.pid, signal.SIGSTOP)
            elif kind != SLOW:
                set_clock(member, kind)
        return self

    def before_send(self, number: int) -> None:
        for member, kind in self._pairs:
            if kind == SLOW:
                os.kill(member.pid, signal.SIGCONT if number % 2 else signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for member, kind in self._pairs:
            os.kill(member.pid, signal.SIGCONT)
            if kind in (FAST, LATE):
                set_clock(member, "0")


def send_to_faulty(
    tx: shmcast.Sender, faulty: Faulty, texts: list[str], midway: Callable[[], None]
) -> list[str]:
    """Those that were accepted."""
    receipts, accepted = [], []
    for i, text in enumerate(texts):
        faulty.before_send(i)
        if i == len(texts) // 2:
            midway()
        receipts.append((text, tx.send(text.encode(), timeout=20)))
    for text, receipt in receipts:
        with contextlib.suppress(shmcast.Rejected):
            tx.confirm(receipt, timeout=30)
            accepted.append(text)
    return accepted


def agrees(got: list[str], accepted: list[str]) -> bool:
    """Nothing but what was accepted, each once, in the one order; it may have missed some."""
    left = iter(accepted)
    return all(text in left for text in got if text != "evicted")


@pytest.mark.parametrize(
    ("receivers", "faulty_ones", "killed"),
    [(5, 2, None), (3, 1, None), (5, 2, 0), (3, 1, 1)],
    ids=["two of five", "one of three", "two of five, a copy dies", "one of three, a copy dies"],
)
def test_fewer_than_half_faulty_receivers_change_no_decision(
    name: str, start: Start, receivers: int, faulty_ones: int, killed: int | None
) -> None:
    """§3.4: fewer than half of the receivers may be early or late, in any combination: all of them,
    one after another, each over when what it was told of is decided. What the faulty ones deliver
    agrees with it. A copy may die in the middle."""
    wide = bounds("timing", 2, write_ns=150 * NS_PER_MS, decide_ns=200 * NS_PER_MS)
    combinations = list(combinations_with_replacement((STOPPED, SLOW, FAST, LATE), faulty_ones))

    def kill() -> None:
        if killed is not None and box.copies[killed] is CopyState.INTACT:
            faults.kill_copy(box, killed)

    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, capacity=64, bounds=wide
    ) as box:
        everyone = members(start, name, receivers)
        intact, broken = everyone[:-faulty_ones], everyone[-faulty_ones:]
        tx = box.sender(timeout=20)
        sent, accepted = [], []
        for kinds in combinations:
            texts = [f"{kinds}{i}" for i in range(8)]
            with Faulty(broken, kinds) as faulty:
                accepted += send_to_faulty(tx, faulty, texts, kill)
            sent += texts
        wait_until(lambda: send_accepted(tx, b"end"), "the last message to be accepted")
        for member in intact:
            assert member.heard() == [*accepted, "end"]
        for member in broken:
            assert agrees(member.heard(), [*accepted, "end"])
        dead = [i for i, state in enumerate(box.copies) if state is not CopyState.INTACT]
        assert dead == ([] if killed is None else [killed])
        assert accepted == sent, "an intact sender's message was rejected by a minority"


def test_what_a_faulty_receiver_delivers_is_really_compared() -> None:
    assert agrees(["a", "c"], ["a", "b", "c"]) and agrees([], ["a"])
    assert not agrees(["c", "a"], ["a", "b", "c"])
    assert not agrees(["a", "a"], ["a", "b"])
    assert not agrees(["x"], ["a"])


def send_accepted(tx: shmcast.Sender, data: bytes) -> bool:
    try:
        tx.confirm(tx.send(data, timeout=20), timeout=30)
    except shmcast.Rejected:
        return False
    return True


def test_with_half_of_the_receivers_late_messages_are_rejected_by_all_alike(
    name: str, start: Start
) -> None:
    """The checker above can fail: two of four are too many."""
    short = bounds("timing", 2, write_ns=20 * NS_PER_MS, decide_ns=50 * NS_PER_MS)
    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, capacity=64, bounds=short
    ) as box:
        everyone, tx = members(start, name, 4), box.sender(timeout=20)
        with Faulty(everyone[2:], (STOPPED, STOPPED)), pytest.raises(shmcast.Rejected):
            tx.confirm(tx.send(b"0", timeout=20), timeout=30)
        wait_until(lambda: send_accepted(tx, b"end"), "a message to be accepted again")
        got = [member.heard() for member in everyone]
        assert all(seen == got[0] for seen in got)
        assert "0" not in got[0]


def test_a_receiver_that_comes_too_late_to_vote_counts_it_and_the_message_is_rejected(
    name: str, start: Start
) -> None:
    short = bounds("timing", 2, decide_ns=20 * NS_PER_MS)
    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, capacity=64, bounds=short
    ) as box:
        [member], tx = members(start, name, 1), box.sender(timeout=20)
        with Faulty([member], (STOPPED,)):
            receipt = tx.send(b"0", timeout=20)
            too_late = receipt.timestamp + short.latency_ns("timing")
            wait_until(lambda: time.monotonic_ns() > too_late, "the time to vote to be over")
        with pytest.raises(shmcast.Rejected):
            tx.confirm(receipt, timeout=30)
        assert box.stats().receivers[0].late_rounds == 1


def test_a_silent_receiver_is_reported_and_evicted_where_the_mailbox_says_so(
    name: str, start: Start
) -> None:
    impatient = bounds("timing", 2, hold_ns=1000 * NS_PER_MS)  # nobody else is silent so long
    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, bounds=impatient, evict=True
    ) as box:
        rx = box.receiver()
        member = start(MEMBER, name)
        assert member.heard() == "ready"
        assert len(box.stats().receivers) == 2
        os.kill(member.pid, signal.SIGSTOP)
        wait_until(lambda: len(box.stats().receivers) == 1, "the eviction")
        kinds = wait_until(lambda: {o.kind for o in rx.overruns()}, "the report")
        os.kill(member.pid, signal.SIGCONT)
        assert member.heard() == ["evicted"]
    assert {"peer late", "peer evicted"} <= kinds


def test_a_silent_receiver_is_only_reported_without_that(name: str, start: Start) -> None:
    impatient = bounds("timing", 2, hold_ns=50 * NS_PER_MS)
    with shmcast.Mailbox.create(
        name, protocol="timing", copies=2, message_size=64, bounds=impatient
    ) as box:
        rx = box.receiver()
        member = start(MEMBER, name)
        assert member.heard() == "ready"
        os.kill(member.pid, signal.SIGSTOP)
        mine = os.getpid()
        wait_until(
            lambda: any(r.late_peers for r in box.stats().receivers if r.pid == mine), "the report"
        )
        assert len(box.stats().receivers) == 2
        assert {o.kind for o in rx.overruns()} == {"peer late"}
        assert any(r.silent_ns > 0 for r in box.stats().receivers if r.pid == member.pid)
        os.kill(member.pid, signal.SIGCONT)
