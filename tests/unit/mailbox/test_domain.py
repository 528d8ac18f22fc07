"""Several mailboxes of one domain: one order, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import shmcast
from helpers import Child, bounds, segments_of, wait_until
from shmcast import CopyState, Domain, Mailbox
from shmcast.mailbox import faults

Start = Callable[..., Child]


@pytest.fixture
def domain(name: str) -> Iterator[Domain]:
    with Domain.create(name, bounds=bounds("eager", 3)) as made:
        yield made


def test_a_send_to_two_mailboxes_arrives_in_both_with_one_timestamp(domain: Domain) -> None:
    a = domain.create_mailbox("a", message_size=64, capacity=8)
    b = domain.create_mailbox("b", message_size=64, capacity=8)
    with domain.sender() as tx, a.receiver() as in_a, b.receiver() as in_b:
        receipt = tx.send(b"shut", to=["a", "b"])
        one, other = in_a.receive(timeout=10), in_b.receive(timeout=10)
        assert one.data == other.data == b"shut"
        assert one.timestamp == other.timestamp == receipt.timestamp


def test_a_send_to_one_mailbox_stays_there(domain: Domain) -> None:
    a = domain.create_mailbox("a", message_size=64, capacity=8)
    b = domain.create_mailbox("b", message_size=64, capacity=8)
    with domain.sender() as tx, a.receiver() as in_a, b.receiver() as in_b:
        tx.send(b"for a", to="a")
        assert in_a.receive(timeout=10).data == b"for a"
        with pytest.raises(TimeoutError):
            in_b.receive(timeout=0.02)


def test_a_message_too_large_for_one_of_them_goes_to_none(domain: Domain) -> None:
    a = domain.create_mailbox("a", message_size=64, capacity=8)
    domain.create_mailbox("b", message_size=8, capacity=8)
    with domain.sender() as tx, a.receiver() as in_a:
        with pytest.raises(shmcast.MessageTooLarge):
            tx.send(b"longer than eight", to=["a", "b"])
        with pytest.raises(TimeoutError):
            in_a.receive(timeout=0.02)


def test_a_lane_full_in_one_of_them_sends_to_none(domain: Domain) -> None:
    a = domain.create_mailbox("a", message_size=64, capacity=8)
    b = domain.create_mailbox("b", message_size=64, capacity=2)
    with domain.sender() as tx, a.receiver() as in_a, b.receiver():
        for _ in range(2):
            tx.send(b"x", to=["a", "b"])
        with pytest.raises(shmcast.MailboxFull):
            tx.send(b"y", to=["a", "b"], timeout=0.02)
        tx.send(b"z", to="a")
        assert [in_a.receive(timeout=10).data for _ in range(3)] == [b"x", b"x", b"z"]


@pytest.mark.parametrize("to", [[], "nowhere", ["a", "nowhere"], None])
def test_no_or_an_unknown_destination_is_refused(domain: Domain, to: object) -> None:
    domain.create_mailbox("a")
    with domain.sender() as tx, pytest.raises((ValueError, FileNotFoundError)):
        tx.send(b"x", to=to)  # type: ignore[arg-type]


MEMBER = """
name, box, ends = args
rx = shmcast.Mailbox.open(f"{name}/{box}").receiver(wait="block")
say("ready")
got = []
while ends:
    m = rx.receive(timeout=40)
    text = m.data.decode()
    ends -= text.endswith("end")
    got.append([m.timestamp, m.sender, text])
say(got)
hear()
"""
MULTI = """
import random
name, tag, seed = args
choose = random.Random(seed)
tx = shmcast.Domain.open(name).sender()
say("ready")
hear()
for i in range(400):
    to = choose.choice([["a"], ["b"], ["a", "b"], ["a", "b"]])
    tx.send(f"{tag}:{i}:{''.join(to)}".encode(), to=to, timeout=30)
tx.send(f"{tag}:end".encode(), to=["a", "b"], timeout=30)
say("done")
hear()
"""


@pytest.mark.parametrize("loss", [None, "truncate", "corrupt"])
def test_what_mailboxes_deliver_are_projections_of_one_order(
    domain: Domain, start: Start, loss: str | None
) -> None:
    """Three processes send to {a}, {b} and {a, b}; a copy may die meanwhile."""
    for box in ("a", "b"):
        domain.create_mailbox(box, message_size=64, capacity=32)
    members = [start(MEMBER, domain.name, box, 3) for box in ("a", "b")]
    senders = [start(MULTI, domain.name, f"s{i}", i) for i in range(3)]
    for child in [*members, *senders]:
        assert child.heard() == "ready"
    for child in senders:
        child.tell("go")
    if loss:
        inside = domain.mailbox("a")
        wait_until(lambda: inside.stats().receivers[0].messages > 50, "messages flow")
        faults.kill_copy(domain, 0, loss)
    assert [child.heard() for child in senders] == ["done"] * 3
    in_a, in_b = (child.heard() for child in members)
    both_in_a = [m for m in in_a if m[2].endswith(("ab", "end"))]
    both_in_b = [m for m in in_b if m[2].endswith(("ab", "end"))]
    assert both_in_a == both_in_b
    assert len(both_in_a) > 100
    for got in (in_a, in_b):
        keys = [(timestamp, sender & 255) for timestamp, sender, _ in got]
        assert keys == sorted(set(keys))
    assert len({m[2] for m in in_a + in_b}) == 3 * 401


def test_a_sender_killed_in_mid_send_sends_to_both_or_to_neither(
    domain: Domain, start: Start
) -> None:
    boxes = [domain.create_mailbox(n, message_size=64, capacity=64) for n in ("a", "b")]
    receivers = [box.receiver() for box in boxes]
    for _ in range(10):
        child = start(
            """
            tx = shmcast.Domain.open(args[0]).sender(timeout=20)
            say("ready")
            i = 0
            while True:
                i += 1
                tx.send(f"{os.getpid()}:{i}".encode(), to=["a", "b"], timeout=30)
            """,
            domain.name,
        )
        child.heard()
        seen = [receivers[0].receive(timeout=20), receivers[1].receive(timeout=20)]
        assert seen[0] == seen[1]
        child.kill()
        rest: list[list[shmcast.Message]] = [[], []]
        with domain.sender() as tx:
            tx.send(b"mark", to=["a", "b"], timeout=20)
        for rx, got in zip(receivers, rest, strict=True):
            while (message := rx.receive(timeout=20)).data != b"mark":
                got.append(message)
        assert rest[0] == rest[1]


def test_a_removed_mailbox_is_lost_to_its_members_and_can_be_made_anew(domain: Domain) -> None:
    a = domain.create_mailbox("a", message_size=64, capacity=8)
    b = domain.create_mailbox("b", message_size=64, capacity=8)
    tx, old, in_b = domain.sender(), a.receiver(), b.receiver()
    tx.send(b"x", to=["a", "b"])
    domain.remove_mailbox("a")
    assert domain.mailboxes() == ["b"]
    with pytest.raises(shmcast.MailboxLost, match="removed"):
        tx.send(b"y", to=["a", "b"])
    with pytest.raises(shmcast.MailboxLost, match="removed"):
        old.receive(timeout=10)
    new = domain.create_mailbox("a", message_size=128, capacity=8)
    with new.receiver() as rx:
        tx.send(b"z" * 64, to=["a", "b"])
        assert rx.receive(timeout=10).data == b"z" * 64
        assert [in_b.receive(timeout=10).data for _ in range(2)] == [b"x", b"z" * 64]
    assert domain.copies == [CopyState.INTACT] * 3


def test_another_process_uses_a_mailbox_that_was_made_anew(domain: Domain, start: Start) -> None:
    """Its handles of the predecessor are still open; the new one may have the same place."""
    domain.create_mailbox("a", message_size=64, capacity=8)
    child = start(
        """
        domain = shmcast.Domain.open(args[0])
        tx = domain.sender()
        for line in iter(hear, ""):
            try:
                tx.send(line.encode(), to="a", timeout=20)
                say("sent")
            except shmcast.MailboxLost:
                say("lost")
        """,
        domain.name,
    )
    child.tell("one")
    assert child.heard() == "sent"
    domain.remove_mailbox("a")
    with domain.create_mailbox("a", message_size=64, capacity=8).receiver() as rx:
        child.tell("two")
        if child.heard() == "lost":  # told once that the old one is gone
            child.tell("two")
            assert child.heard() == "sent"
        assert rx.receive(timeout=10).data == b"two"


def test_mailboxes_made_and_removed_leave_no_memory_behind(domain: Domain) -> None:
    def used() -> int:
        return sum(p.stat().st_blocks for p in segments_of(domain.name))

    before = used()
    for i in range(5):
        domain.create_mailbox(f"m{i}", message_size=4096, capacity=64)
        domain.remove_mailbox(f"m{i}")
    assert used() <= before + 8 * 3
    assert domain.mailboxes() == []


def test_processes_that_race_for_a_name_do_not_both_get_it(domain: Domain, start: Start) -> None:
    children = [
        start(
            """
            domain = shmcast.Domain.open(args[0])
            say("ready")
            for name in iter(hear, ""):
                try:
                    domain.create_mailbox(name, message_size=8, capacity=2, receivers=1)
                    say(1)
                except FileExistsError:
                    say(0)
            """,
            domain.name,
        )
        for _ in range(2)
    ]
    assert [child.heard() for child in children] == ["ready", "ready"]
    for i in range(20):
        for child in children:
            child.tell(f"m{i}")
        made = sum(child.heard() for child in children)
        assert made <= 1
        assert domain.mailboxes().count(f"m{i}") == made


def test_a_name_is_given_once(domain: Domain) -> None:
    domain.create_mailbox("a")
    with pytest.raises(FileExistsError):
        domain.create_mailbox("a")
    assert domain.mailboxes() == ["a"]


def test_a_domain_holds_at_most_forty_eight_mailboxes(domain: Domain) -> None:
    for i in range(48):
        domain.create_mailbox(f"m{i}", message_size=0, capacity=2, receivers=1)
    with pytest.raises(shmcast.MailboxFull, match="every place"):
        domain.create_mailbox("one-too-many")
    with domain.sender() as tx, domain.mailbox("m47").receiver() as rx:
        tx.send(b"", to=[f"m{i}" for i in range(48)])
        assert rx.receive(timeout=10).data == b""


def test_a_domain_is_not_opened_as_a_mailbox(domain: Domain) -> None:
    domain.create_mailbox("a")
    with pytest.raises(ValueError, match="is a domain"):
        Mailbox.open(domain.name)
    with Mailbox.open(f"{domain.name}/a") as box:
        assert box.name == "a"
    Mailbox.remove(f"{domain.name}/a")
    assert domain.mailboxes() == []


def test_a_copy_is_replaced_with_all_mailboxes(domain: Domain) -> None:
    boxes = [domain.create_mailbox(n, message_size=64, capacity=8) for n in ("a", "b", "c")]
    domain.remove_mailbox("b")
    in_a, in_c = boxes[0].receiver(), boxes[2].receiver()
    with domain.sender() as tx:
        tx.send(b"before", to=["a", "c"])
        faults.kill_copy(domain, 0)
        assert domain.replace() == 1
        faults.kill_copy(domain, 1)
        faults.kill_copy(domain, 2)
        tx.send(b"after", to=["a", "c"])
    for rx in (in_a, in_c):
        assert [rx.receive(timeout=10).data for _ in range(2)] == [b"before", b"after"]
