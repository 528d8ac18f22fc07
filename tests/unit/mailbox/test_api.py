"""What a user does, in every protocol: create, open, send, receive, many, in place, leave."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import shmcast
from helpers import Child, bounds, wait_until
from shmcast import CopyState, Mailbox, Receiver, Sender

Start = Callable[..., Child]


@pytest.fixture
def box(name: str, protocol: str) -> Iterator[Mailbox]:
    with Mailbox.create(
        name, message_size=256, capacity=64, protocol=protocol, bounds=bounds(protocol, 3)
    ) as made:
        yield made


def test_a_message_arrives_with_its_receipt(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        receipt = tx.send(b"hello")
        message = rx.receive(timeout=10)
        assert message == (b"hello", receipt.timestamp, tx.id, receipt.sequence)


def test_every_receiver_gets_every_message_in_the_order_of_sending(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as one, box.receiver() as other:
        for i in range(10):
            tx.send(b"%d" % i)
        first = [one.receive(timeout=10) for _ in range(10)]
        assert [m.data for m in first] == [b"%d" % i for i in range(10)]
        assert [other.receive(timeout=10) for _ in range(10)] == first


def test_a_batch_stands_in_a_row_with_growing_timestamps(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        receipt = tx.send_many([b"a", b"", b"ccc"])
        got: list[shmcast.Message] = []
        while len(got) < 3:
            got += rx.receive_many(max=3 - len(got), timeout=10)
        assert [m.data for m in got] == [b"a", b"", b"ccc"]
        assert [m.sequence for m in got] == [receipt.sequence + i for i in range(3)]
        assert got[0].timestamp == receipt.timestamp
        assert got[0].timestamp < got[1].timestamp < got[2].timestamp


def test_receive_many_gives_at_most_what_was_asked_for(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        tx.send_many([b"x"] * 5)
        first = rx.receive_many(max=2, timeout=10)
        rest: list[shmcast.Message] = []
        while len(first) + len(rest) < 5:
            rest += rx.receive_many(timeout=10)
        assert 1 <= len(first) <= 2


def test_receive_without_a_message_times_out(box: Mailbox) -> None:
    with box.receiver() as rx, pytest.raises(TimeoutError, match="deadline"):
        rx.receive(timeout=0.01)


def test_sizes_around_a_cache_line_arrive_unchanged(box: Mailbox) -> None:
    texts = [bytes(itertools.islice(itertools.cycle(range(251)), n)) for n in (0, 1, 63, 64, 65)]
    texts += [b"x" * 255, b"y" * 256]
    with box.sender() as tx, box.receiver() as rx:
        for text in texts:
            tx.send(text)
        assert [rx.receive(timeout=10).data for _ in texts] == texts


def test_anything_with_a_buffer_can_be_sent(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        for data in (bytearray(b"abcd"), memoryview(b"abcd"), np.frombuffer(b"abcd", np.uint8)):
            tx.send(data)
        assert [rx.receive(timeout=10).data for _ in range(3)] == [b"abcd"] * 3


def test_an_array_with_gaps_is_sent_as_its_elements(box: Mailbox) -> None:
    every_other = np.arange(8, dtype=np.uint8)[::2]
    with box.sender() as tx, box.receiver() as rx:
        tx.send(every_other)
        assert rx.receive(timeout=10).data == bytes([0, 2, 4, 6])


def test_a_loan_is_sent_when_its_block_ends(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        with tx.loan(64) as slot:
            slot.array(dtype="float32")[:] = np.arange(16)
        assert slot.receipt is not None
        with rx.view(timeout=10) as view:
            assert view.timestamp == slot.receipt.timestamp
            assert np.array_equal(view.array(dtype="float32"), np.arange(16, dtype="float32"))


def test_a_loan_that_raises_sends_nothing(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        with contextlib.suppress(KeyError), tx.loan(4) as slot:
            slot.data[:] = b"lost"
            raise KeyError
        tx.send(b"next")
        assert rx.receive(timeout=10).data == b"next"


def test_a_loan_larger_than_a_message_is_refused(box: Mailbox) -> None:
    with box.sender() as tx, pytest.raises(shmcast.MessageTooLarge), tx.loan(257):
        pass


def test_a_sender_with_a_loan_refuses_to_send_and_keeps_the_loan(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        with tx.loan(4) as slot:
            with pytest.raises(ValueError, match="out of range"):
                tx.send(b"between")
            slot.data[:] = b"kept"
        assert rx.receive(timeout=10).data == b"kept"


def test_a_view_keeps_its_slot_from_being_written_again(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        tx.send(b"first")
        with rx.view(timeout=10) as view:
            for i in range(1, box.capacity):
                tx.send(b"%d" % i)
            with pytest.raises(shmcast.MailboxFull):
                tx.send(b"more", timeout=0.05)
            assert bytes(view.data) == b"first"


def test_a_view_cannot_be_written(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        tx.send(b"first")
        with rx.view(timeout=10) as view, pytest.raises(ValueError, match="read-only"):
            view.array()[0] = 1


def test_iteration_ends_when_the_receiver_is_closed(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        for i in range(3):
            tx.send(b"%d" % i)
        got = []
        for message in rx:
            got.append(message.data)
            if len(got) == 3:
                rx.close()
        assert got == [b"0", b"1", b"2"]


def test_asyncio_sends_and_receives_without_blocking_the_loop(box: Mailbox) -> None:
    async def scenario() -> tuple[bytes, list[bytes]]:
        with box.sender() as tx, box.receiver() as rx:
            waiting = asyncio.create_task(rx.areceive(timeout=10))
            await asyncio.sleep(0)  # it waits now, and the loop is free to send
            await tx.asend(b"one")
            first = await waiting
            for text in (b"two", b"three"):
                await tx.asend(text)
            rest = []
            async for message in rx:
                rest.append(message.data)
                if len(rest) == 2:
                    break
            return first.data, rest

    assert asyncio.run(scenario()) == (b"one", [b"two", b"three"])


def test_a_cancelled_areceive_loses_no_message(box: Mailbox) -> None:
    async def scenario() -> bytes:
        with box.sender() as tx, box.receiver() as rx:
            with pytest.raises(TimeoutError):
                await rx.areceive(timeout=0.02)
            tx.send(b"kept")
            return (await rx.areceive(timeout=10)).data

    assert asyncio.run(scenario()) == b"kept"


def test_depth_counts_what_was_not_yet_received(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        for i in range(3):
            tx.send(b"%d" % i)
        assert rx.depth == 3
        rx.receive(timeout=10)
        wait_until(lambda: rx.depth == 2, "one message less")


def test_statistics_count_messages_and_bytes(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        tx.send(b"12345")
        rx.receive(timeout=10)
        stats = box.stats()
        assert stats.copies == [CopyState.INTACT] * 3
        assert [(s.messages, s.bytes) for s in stats.senders] == [(1, 5)]
        assert [(r.messages, r.bytes, r.depth) for r in stats.receivers] == [(1, 5, 0)]


def test_confirm_says_that_a_received_message_was_accepted(box: Mailbox) -> None:
    with box.sender() as tx, box.receiver() as rx:
        receipt = tx.send(b"x")
        rx.receive(timeout=10)
        assert tx.confirm(receipt, timeout=10) is None


def test_mailboxes_in_one_process_do_not_mix(new_name: Callable[[], str], protocol: str) -> None:
    made = [
        Mailbox.create(new_name(), copies=1, protocol=protocol, bounds=bounds(protocol, 1))
        for _ in range(5)
    ]
    senders = [box.sender() for box in made]
    receivers = [box.receiver() for box in made]
    for i, tx in enumerate(senders):
        tx.send(b"%d" % i)
    assert [rx.receive(timeout=10).data for rx in receivers] == [b"%d" % i for i in range(5)]
    for box in made:
        box.close()


def test_closing_a_mailbox_closes_its_senders_and_receivers(box: Mailbox) -> None:
    tx, rx = box.sender(), box.receiver()
    box.close()
    with pytest.raises(ValueError, match="closed"):
        tx.send(b"x")
    with pytest.raises(ValueError, match="closed"):
        rx.receive(timeout=0)


def test_threads_share_a_sender_and_each_gets_its_own_receipt(box: Mailbox) -> None:
    receipts: dict[bytes, shmcast.Receipt] = {}
    with box.sender() as tx, box.receiver() as rx:

        def work(tag: int) -> None:
            for i in range(60):
                text = b"%d.%d" % (tag, i)
                receipts[text] = tx.send(text)

        threads = [threading.Thread(target=work, args=(tag,)) for tag in range(4)]
        for thread in threads:
            thread.start()
        got = [rx.receive(timeout=20) for _ in range(240)]
        for thread in threads:
            thread.join()
    assert {m.data: (m.timestamp, m.sequence) for m in got} == {
        text: (r.timestamp, r.sequence) for text, r in receipts.items()
    }


def test_threads_share_a_receiver_and_each_message_goes_to_one_of_them(box: Mailbox) -> None:
    got: list[bytes] = []
    with box.sender() as tx, box.receiver() as rx:
        todo = itertools.count()

        def work() -> None:
            while next(todo) < 400:
                got.append(rx.receive(timeout=20).data)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(400):
            tx.send(b"%d" % i)
        for thread in threads:
            thread.join()
    assert Counter(got) == Counter(b"%d" % i for i in range(400))


def test_closing_a_sender_while_threads_wait_for_it_ends_their_waiting(box: Mailbox) -> None:
    """Threads that stand in the queue for the handle must not touch it once it is gone."""
    errors: list[str] = []
    with box.receiver():
        tx = box.sender()
        for i in range(box.capacity):
            tx.send(b"%d" % i)
        waiting = threading.Barrier(5)

        def work() -> None:
            waiting.wait()
            try:
                tx.send(b"more", timeout=20)
            except (ValueError, shmcast.MailboxFull) as error:
                errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        waiting.wait()
        tx.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    assert len(errors) == 4
    assert all("closed" in text for text in errors)


def test_closing_a_receiver_while_threads_wait_for_it_ends_their_waiting(box: Mailbox) -> None:
    errors: list[str] = []
    rx = box.receiver()
    waiting = threading.Barrier(5)

    def work() -> None:
        waiting.wait()
        try:
            rx.receive(timeout=20)
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    waiting.wait()
    rx.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(errors) == 4


@pytest.mark.parametrize("size", [1 << 20, 64 << 20], ids=["1MiB", "64MiB"])
def test_large_messages_arrive_unchanged(name: str, size: int) -> None:
    frame = np.random.default_rng(7).integers(0, 256, size, dtype=np.uint8)
    with (
        Mailbox.create(
            name, copies=2, message_size=size, capacity=2, senders=1, receivers=1
        ) as box,
        box.sender() as tx,
        box.receiver() as rx,
    ):
        tx.send(frame)
        with rx.view(timeout=20) as view:
            assert np.array_equal(view.array(), frame)
        with tx.loan(size) as slot:
            slot.array()[:] = frame[::-1]
        assert rx.receive(timeout=20).data == frame[::-1].tobytes()


def test_sixty_four_senders_and_sixty_four_receivers_see_one_order(name: str) -> None:
    with Mailbox.create(name, message_size=16, capacity=4, senders=64, receivers=64) as box:
        receivers = [box.receiver() for _ in range(64)]
        senders = [box.sender() for _ in range(64)]

        def work(some: list[shmcast.Sender]) -> None:
            for i in range(3):
                for tx in some:
                    tx.send(b"%d" % i)

        threads = [threading.Thread(target=work, args=(senders[k::4],)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sequences = []
        for rx in receivers:
            got: list[shmcast.Message] = []
            while len(got) < 192:
                got += rx.receive_many(timeout=20)
            sequences.append(got)
        assert all(got == sequences[0] for got in sequences)
        assert {m.sender & 255 for m in sequences[0]} == set(range(64))


def test_every_way_of_waiting_receives(box: Mailbox) -> None:
    ways = [box.receiver(wait=wait) for wait in ("adaptive", "busy", "block")]
    with box.sender() as tx:
        threading.Timer(0.02, tx.send, (b"late",)).start()
        assert [rx.receive(timeout=20).data for rx in ways] == [b"late"] * 3


def test_another_process_opens_by_name(box: Mailbox, start: Start) -> None:
    with box.receiver() as rx:
        child = start(
            """
            with shmcast.Mailbox.open(args[0]) as box, box.sender() as tx:
                say([box.message_size, box.capacity, str(box.protocol)])
                tx.send(b"from afar", timeout=20)
            """,
            box.name,
        )
        assert child.heard() == [256, 64, box.protocol]
        assert rx.receive(timeout=20).data == b"from afar"
        assert child.ended() == 0


def test_a_mailbox_outlives_its_creator(name: str, protocol: str, start: Start) -> None:
    child = start(
        """
        box = shmcast.Mailbox.create(args[0], protocol=args[1], senders=1, receivers=1)
        tx, rx = box.sender(), box.receiver()
        say("made")
        hear()
        """,
        name,
        protocol,
    )
    assert child.heard() == "made"
    child.kill()
    with Mailbox.open(name) as box, box.sender() as tx, box.receiver() as rx:
        wait_until(lambda: arrives(b"still here", tx, rx), "a message that was in time")


def arrives(data: bytes, tx: Sender, rx: Receiver) -> bool:
    """In the timed protocols a machine that is late for a moment decides against a message."""
    tx.send(data, timeout=10)
    try:
        return rx.receive(timeout=2).data == data
    except TimeoutError:
        return False


def test_a_forked_child_is_told_to_open_its_own_handle(box: Mailbox, start: Start) -> None:
    child = start(
        """
        box = shmcast.Mailbox.open(args[0])
        tx, rx = box.sender(), box.receiver()
        pid = os.fork()
        if pid == 0:
            said = []
            for act in (lambda: tx.send(b"x"), lambda: rx.receive(timeout=1), lambda: box.copies,
                        lambda: box.sender(), lambda: rx.leave(), lambda: box.replace()):
                try:
                    act()
                    said.append("no error")
                except RuntimeError as error:
                    said.append("open the mailbox again" in str(error))
            own = shmcast.Mailbox.open(args[0])
            own.sender().send(b"from the child", timeout=20)
            say(said)
            del own, tx, rx, box
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        say(rx.receive(timeout=20).data.decode())
        tx.send(b"from the parent", timeout=20)
        say(rx.receive(timeout=20).data.decode())
        """,
        box.name,
    )
    assert child.heard() == [True] * 6
    assert child.heard() == "from the child"
    assert child.heard() == "from the parent"
    assert child.ended() == 0
