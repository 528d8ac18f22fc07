"""Losing copies and getting them back, while real processes send and receive."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

import pytest

import shmcast
from helpers import Child, Traffic, bounds, segments_of, wait_until
from shmcast import CopyState, Mailbox
from shmcast.mailbox import faults

Start = Callable[..., Child]
StartTraffic = Callable[..., Traffic]
INTACT, FAILED = CopyState.INTACT, CopyState.FAILED
KILLS = ["truncate", "poison", "corrupt", "unlink", "half"]


def make(name: str, protocol: str = "eager", copies: int = 3, **options: int) -> Mailbox:
    # In `crash` a receiver decides copy by copy in turn with its bounds: 128 must suffice to queue.
    return Mailbox.create(
        name,
        copies=copies,
        protocol=protocol,
        message_size=64,
        capacity=128,
        bounds=bounds(protocol, copies),
        **options,
    )


def kill(box: Mailbox, copy: int, how: str, seed: int = 1) -> None:
    if how == "half":
        path = segments_of(box.segments.name)[copy]
        os.truncate(path, path.stat().st_size // 2)
    else:
        faults.kill_copy(box, copy, how, seed=seed)


def flows(traffic: Traffic, box: Mailbox, more: int = 60) -> None:
    """Waits until receivers have got that many messages more. Twice half of it, because counters
    jump once when they are read from another copy than before."""

    def received() -> int:
        return sum(r.messages for r in box.stats().receivers)

    for _ in range(2):
        done = received()
        wait_until(lambda done=done: received() >= done + more // 2, "messages flow")


@pytest.mark.parametrize("how", KILLS)
@pytest.mark.parametrize("copy", [0, 2])
def test_a_copy_lost_before_between_and_after_messages_loses_none(
    name: str, protocol: str, copy: int, how: str
) -> None:
    with make(name, protocol) as box, box.sender() as tx, box.receiver() as rx:
        tx.send(b"before")
        kill(box, copy, how)
        tx.send(b"after")
        assert [rx.receive(timeout=20).data for _ in range(2)] == [b"before", b"after"]
        if how != "half":  # what is cut off may be a part that nobody needs just now
            assert box.copies == [FAILED if i == copy else INTACT for i in range(3)]
        tx.send(b"last")
        assert rx.receive(timeout=20).data == b"last"


@pytest.mark.parametrize("how", KILLS)
def test_a_copy_lost_under_traffic_loses_no_message(
    name: str, protocol: str, how: str, traffic: StartTraffic
) -> None:
    with make(name, protocol) as box:
        running = traffic(name)
        flows(running, box)
        kill(box, 0, how)
        if how == "unlink":
            Mailbox.open(name).close()
        flows(running, box)
        assert len(running.stop()) >= 30
        if how != "half":
            assert box.copies == [FAILED, INTACT, INTACT]


@pytest.mark.parametrize("order", [(0, 1), (2, 0)])
def test_copies_lost_one_after_the_other_down_to_one_lose_no_message(
    name: str, protocol: str, order: tuple[int, ...], traffic: StartTraffic
) -> None:
    with make(name, protocol) as box:
        running = traffic(name)
        for copy, how in zip(order, ("truncate", "corrupt"), strict=True):
            flows(running, box)
            kill(box, copy, how)
        flows(running, box)
        assert len(running.stop()) >= 30
        assert [i for i, state in enumerate(box.copies) if state is FAILED] == sorted(order)


def test_eight_copies_survive_the_loss_of_seven(name: str, traffic: StartTraffic) -> None:
    with make(name, copies=8) as box:
        running = traffic(name, senders=1)
        for copy in (0, 7, 3, 1, 2, 6, 5):
            flows(running, box)
            kill(box, copy, random.Random(copy).choice(["truncate", "poison", "corrupt"]))
        flows(running, box)
        running.stop()
        assert box.copies.count(INTACT) == 1


def test_replaced_copies_carry_the_mailbox_when_the_old_ones_die(
    name: str, protocol: str, traffic: StartTraffic
) -> None:
    with make(name, protocol, copies=2) as box:
        running = traffic(name)
        for generation in range(3):
            flows(running, box)
            kill(box, faults.intact_copies(box)[0], KILLS[generation])
            assert box.replace(timeout=30) == 1
            assert box.copies == [INTACT, INTACT]
        flows(running, box)
        assert len(running.stop()) >= 30
        assert faults.intact_copies(box) == [3, 4]


def test_unread_messages_move_to_the_new_copies(name: str, protocol: str) -> None:
    with make(name, protocol, copies=2) as box, box.sender() as tx, box.receiver() as rx:
        texts = [b"%d" % i for i in range(100)]
        for text in texts:
            tx.send(text)
        for _ in range(2):
            kill(box, faults.intact_copies(box)[0], "truncate")
            box.replace(timeout=30)
        assert [rx.receive(timeout=20).data for _ in texts] == texts


def test_a_member_that_slept_through_every_replacement_goes_on(name: str) -> None:
    """It finds all the copies it knew dead, and must look for later ones before it gives up."""
    with make(name, copies=2) as idle, idle.receiver() as rx, idle.sender() as late:
        with Mailbox.open(name) as box, box.sender() as tx:
            tx.send(b"before")
            for _ in range(2):
                kill(box, faults.intact_copies(box)[0], "truncate")
                box.replace(timeout=30)
            tx.send(b"after")
        assert [rx.receive(timeout=20).data for _ in range(2)] == [b"before", b"after"]
        late.send(b"late")
        assert rx.receive(timeout=20).data == b"late"


def test_two_processes_that_replace_at_once_make_one_new_copy(name: str, start: Start) -> None:
    with make(name) as box:
        children = [
            start(
                """
                box = shmcast.Mailbox.open(args[0])
                say("ready")
                while hear() == "go":
                    say(box.replace(timeout=30))
                """,
                name,
            )
            for _ in range(2)
        ]
        assert [child.heard() for child in children] == ["ready", "ready"]
        for _ in range(5):
            kill(box, faults.intact_copies(box)[0], "poison")
            for child in children:
                child.tell("go")
            assert sum(child.heard() for child in children) == 1
            assert box.copies == [INTACT] * 3


def test_joining_while_a_copy_is_replaced_makes_neither_fail(name: str) -> None:
    with make(name) as box, Mailbox.open(name) as other:
        stop = threading.Event()
        joined = []

        def join() -> None:
            while not stop.is_set():
                with other.sender(timeout=20), other.receiver(timeout=20):
                    joined.append(1)

        thread = threading.Thread(target=join)
        thread.start()
        for _ in range(12):
            joined.clear()
            wait_until(lambda: joined, "somebody joins")
            kill(box, faults.intact_copies(box)[0], "poison")
            assert box.replace(timeout=30) == 1
        stop.set()
        thread.join()
        assert box.copies == [INTACT] * 3


def test_a_replacer_killed_in_the_middle_leaves_the_mailbox_usable(
    name: str, traffic: StartTraffic, start: Start
) -> None:
    delays = random.Random(5)
    with make(name, copies=2) as box:
        running = traffic(name, senders=1)
        for _ in range(8):
            kill(box, faults.intact_copies(box)[0], "poison")
            child = start(
                """
                box = shmcast.Mailbox.open(args[0])
                say("ready")
                hear()
                box.replace(timeout=30)
                say("done")
                hear()
                """,
                name,
            )
            child.heard()
            child.tell("go")
            threading.Event().wait(
                delays.uniform(0, 0.004)
            )  # not a wait for: an instant to kill at
            child.kill()
            flows(running, box, 20)
            box.replace(timeout=30)
            assert box.copies == [INTACT, INTACT]
        running.stop()


def test_nothing_to_replace_is_no_error(name: str) -> None:
    with make(name) as box:
        assert box.replace() == 0
        assert [p.name for p in segments_of(name)] == [f"shmcast.{name}.{i}" for i in range(3)]


def test_a_replaced_segment_keeps_its_mode_and_loses_its_name(name: str) -> None:
    with Mailbox.create(name, copies=2, message_size=64, capacity=4, mode=0o640) as box:
        faults.kill_copy(box, 0)
        box.replace()
        paths = segments_of(name)
        assert [p.name.rpartition(".")[2] for p in paths] == ["1", "2"]
        assert [p.stat().st_mode & 0o777 for p in paths] == [0o640, 0o640]


def test_a_newcomer_opens_what_is_left(name: str, protocol: str) -> None:
    with make(name, protocol) as box, box.receiver() as rx:
        faults.kill_copy(box, 0, "unlink")
        faults.kill_copy(box, 1, "truncate")
        with Mailbox.open(name) as newcomer, newcomer.sender() as tx:
            tx.send(b"hello")
            assert newcomer.copies == [FAILED, FAILED, INTACT]
            assert rx.receive(timeout=20).data == b"hello"


def test_truncation_is_noticed_also_where_payloads_are_not_checked(name: str) -> None:
    """Zero pages lie where the payload was; without a checksum they must not pass for it."""
    with (
        Mailbox.create(name, message_size=1 << 20, capacity=8, senders=1, checksum=False) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        tx.send(b"x" * (1 << 20))
        path = segments_of(name)[0]
        os.truncate(path, path.stat().st_size - (15 << 19))  # in the middle of the first payload
        assert set(rx.receive(timeout=20).data) == {ord("x")}


@pytest.mark.parametrize("how", ["truncate", "corrupt"])
def test_a_loan_in_a_copy_that_dies_is_refused_and_can_be_repeated(name: str, how: str) -> None:
    with make(name) as box, box.sender() as tx, box.receiver() as rx:
        block = tx.loan(16)
        slot = block.__enter__()
        slot.data[:] = b"x" * 16
        kill(box, 0, how)
        slot.data[:] = b"y" * 16
        with pytest.raises(shmcast.CopyFailed, match="try again"):
            block.__exit__(None, None, None)
        with tx.loan(16) as again:
            again.data[:] = b"z" * 16
        assert rx.receive(timeout=20).data == b"z" * 16


def test_a_domain_has_as_many_segments_as_it_says_and_goes_on_with_the_last(name: str) -> None:
    with Mailbox.create(name, copies=2, message_size=64) as box:
        tx, rx = box.sender(), box.receiver()
        for serial in range(46):  # 2 of 48 there are from the beginning
            faults.kill_copy(box, serial)
            assert box.replace() == 1
        faults.kill_copy(box, 46)
        with pytest.raises(shmcast.CopyFailed, match="48 segments"):
            box.replace()
        tx.send(b"in the last one")
        assert rx.receive(timeout=20).data == b"in the last one"
