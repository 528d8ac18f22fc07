"""The data source without Spark: intake, spool, keeper, offsets, staging, envelopes, options."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyspark", reason="needs Spark: make .venv/.pipeline")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from helpers import PATIENCE_S, Child, bounds, wait_until
from shmcast import Domain, Mailbox
from shmcast.errors import Corrupt, Incompatible, MailboxFull, MessageTooLarge
from shmcast.mailbox.sender import Sender
from shmcast.pipeline import sink
from shmcast.pipeline.envelope import Once, Origin, unwrap, wrap
from shmcast.pipeline.intake import SCHEMA, Intake
from shmcast.pipeline.options import parse
from shmcast.pipeline.source import StreamReader
from shmcast.pipeline.spool import Spool

Reading = Callable[..., StreamReader]


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    """Readers as Spark's planner makes them; at the end nobody receives any more."""
    made: list[StreamReader] = []

    def make(mailbox: str, **more: str) -> StreamReader:
        options = {"mailbox": mailbox, "spool": str(tmp_path / "spool"), "linger": "20", **more}
        made.append(StreamReader(parse(options)))
        return made[-1]

    yield make
    for one in made:
        one.stop()
    for keeper in keepers(tmp_path):
        keeper.terminate()
    mine = [child for child in psutil.Process().children() if child.name() != "java"]
    psutil.wait_procs(mine, timeout=PATIENCE_S)  # whoever does not end is found left behind


def keepers(where: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "shmcast.pipeline.keeper" in words and str(where) in words[-1]:
            found.append(process)
    return found


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    parts = reader.partitions(start, end)
    batches = [batch for part in parts for batch in reader.read(part)]
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def latest_with(reader: StreamReader, start: dict[str, Any], rows: int) -> dict[str, Any]:
    """The latest offset, when so many rows have come."""

    def enough() -> dict[str, Any] | None:
        end: dict[str, Any] = reader.latestOffset(start, ReadAllAvailable())
        return end if end["row"] - start["row"] >= rows else None

    found: dict[str, Any] = wait_until(enough, f"{rows} rows in the spool")
    return found


def numbers(low: int, high: int) -> list[bytes]:
    return [b"%d" % i for i in range(low, high)]


def is_held_up(sender: Sender) -> bool:
    """Sends until there is no room any more."""
    for _ in range(10_000):
        try:
            sender.send(bytes(65536), timeout=0.5)
        except MailboxFull:
            return True
    return False


def test_rows_carry_what_receivers_see(name: str) -> None:
    with Mailbox.create(name) as box, Intake([name]) as intake, box.receiver() as receiver:
        with box.sender() as sender:
            sender.send_many([b"", b"one", b"x" * 4096])
            sender.send(b"last")
        seen = [receiver.receive() for _ in range(4)]
        rows: list[dict[str, Any]] = []
        while len(rows) < 4:
            rows += pa.Table.from_batches(intake.take(5.0), SCHEMA).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(*message, name) for message in seen]


def test_several_mailboxes_are_one_stream_in_the_order_of_the_domain(
    name: str, start: Callable[..., Child]
) -> None:
    code = """
    name, tag = args
    with shmcast.Domain.open(name) as domain, domain.sender(timeout=20) as tx:
        say("ready"); hear()
        for i in range(1500):
            to = (["a"], ["b"], ["c"], ["a", "c"])[(i * 7 + tag) % 4]
            while True:
                try:
                    tx.send(b"%d:%d" % (tag, i), to=to, timeout=30)
                    break
                except shmcast.Rejected:
                    continue
        say("done")
    """
    with Domain.create(name) as domain:
        for inner in "abc":
            domain.create_mailbox(inner, message_size=16, capacity=64)
        names = [f"{name}/{inner}" for inner in "abc"]
        with Intake(names) as intake:
            senders = [start(code, name, tag) for tag in range(2)]
            for child in senders:
                assert child.heard() == "ready"
            for child in senders:
                child.tell("go")
            expected = 2 * sum((1, 1, 1, 2)[(i * 7) % 4] for i in range(1500))
            batches: list[pa.RecordBatch] = []
            while sum(map(len, batches)) < expected:
                batches += intake.take(0.02)
        table = pa.Table.from_batches(batches)
    keys = list(
        zip(
            table["timestamp"].to_pylist(),
            (sender & 255 for sender in table["sender"].to_pylist()),
            (names.index(box) for box in table["mailbox"].to_pylist()),
            strict=True,
        )
    )
    assert keys == sorted(set(keys)), "not one order, or a row twice"
    assert len(keys) == expected


def test_a_send_that_stands_still_keeps_its_place_among_mailboxes_it_does_not_go_to(
    name: str, start: Callable[..., Child]
) -> None:
    """Its timestamp is early and its flags come late; what goes to the other mailbox must wait."""
    code = """
    with shmcast.Domain.open(args[0]) as domain, domain.sender(timeout=20) as tx:
        batch = [b"x"] * 4000
        say("ready"); hear()
        while True:
            tx.send_many(batch, to=["b"], timeout=60)
    """
    wide = bounds("eager", 8, write_ns=20 * 10**9)  # who stands still is not rejected soon
    with Domain.create(name, copies=8, bounds=wide) as domain:
        for inner in "ab":
            domain.create_mailbox(inner, message_size=8, capacity=4096)
        with Intake([f"{name}/a", f"{name}/b"]) as intake, domain.sender() as sender:
            child = start(code, name)
            assert child.heard() == "ready"
            child.tell("go")
            stamps: list[int] = []
            waited = False
            wait_until(lambda: intake_rows(intake, stamps), "rows of b")
            for attempt in range(4000):  # in some it is stopped between its stamp and its flags
                stop(child)
                take_all(intake, stamps)  # so there is room: the next send begins at once
                os.kill(child.pid, signal.SIGCONT)
                run_for(child, attempt % 24 * 100_000 * (1 + attempt // 24))
                stop(child)
                take_all(intake, stamps)
                ours = sender.send(b"late", to=["a"]).timestamp
                take_all(intake, stamps)
                waited = stamps[-1] < ours
                if waited:
                    break
                os.kill(child.pid, signal.SIGCONT)
            os.kill(child.pid, signal.SIGCONT)
            note(intake.finish(PATIENCE_S), stamps)
            assert stamps[-1] >= ours, "what waited for its place was dropped at the end"
            child.kill()
    assert stamps == sorted(stamps)
    assert waited, "it was never stopped in the middle of a send"


def run_for(child: Child, ns: int) -> None:
    """Until it has had so much of a processor, or waits for room again."""
    clock = ~child.pid << 3 | 2  # as clock_getcpuclockid() makes it
    end = time.clock_gettime_ns(clock) + ns
    give_up_ns = time.monotonic_ns() + 10_000_000 + 5 * ns
    while time.clock_gettime_ns(clock) < end and time.monotonic_ns() < give_up_ns:
        pass


def stop(child: Child) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    process = psutil.Process(child.pid)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "stopped")


def take_all(intake: Intake, stamps: list[int]) -> None:
    """Until two looks in a row give nothing: one may hold back what it has just received."""
    while intake_rows(intake, stamps) or intake_rows(intake, stamps):
        pass


def intake_rows(intake: Intake, stamps: list[int]) -> bool:
    """Takes what comes at once, and notes its timestamps."""
    return note(intake.take(0.005), stamps)


def note(batches: list[pa.RecordBatch], stamps: list[int]) -> bool:
    for batch in batches:
        stamps += batch.column(1).to_pylist()
    return bool(batches)


def test_a_stream_gives_each_row_once_and_forgets_what_is_committed(
    name: str, reading: Reading
) -> None:
    with Mailbox.create(name, message_size=16) as box, box.sender() as sender:
        reader = reading(name)
        start = reader.initialOffset()
        sender.send_many(numbers(0, 100))
        middle = latest_with(reader, start, 100)
        assert read(reader, start, middle) == numbers(0, 100)
        assert read(reader, start, middle) == numbers(0, 100), "a failed batch is read again"
        sender.send_many(numbers(100, 130))
        end = latest_with(reader, middle, 30)
        reader.commit(middle)
        assert read(reader, middle, end) == numbers(100, 130)
        with pytest.raises(RuntimeError, match="lacks 100 of the rows 0 to 130"):
            reader.partitions(start, end)


def test_a_limit_cuts_batches_anywhere(name: str, reading: Reading) -> None:
    with Mailbox.create(name, message_size=16) as box, box.sender() as sender:
        reader = reading(name, partitions="3")
        offset = reader.initialOffset()
        sender.send_many(numbers(0, 100))
        latest_with(reader, offset, 100)
        got = []
        for _ in range(15):
            end = reader.latestOffset(offset, ReadMaxRows(7))
            assert end["row"] - offset["row"] <= 7
            got += read(reader, offset, end)
            reader.commit(end)
            offset = end
        assert got == numbers(0, 100)


def test_what_is_sent_while_the_query_is_away_is_kept(name: str, reading: Reading) -> None:
    with Mailbox.create(name, message_size=16) as box, box.sender() as sender:
        first = reading(name)
        start = first.initialOffset()
        sender.send_many(numbers(0, 10))
        planned = latest_with(first, start, 10)
        first.stop()
        sender.send_many(numbers(10, 20))
        again = reading(name)
        assert read(again, start, planned) == numbers(0, 10)
        end = latest_with(again, planned, 10)
        assert read(again, planned, end) == numbers(10, 20)


def test_a_killed_keeper_is_replaced_and_the_gap_is_reported(
    name: str, reading: Reading, tmp_path: Path
) -> None:
    with Mailbox.create(name, message_size=16) as box, box.sender() as sender:
        reader = reading(name)
        start = reader.initialOffset()
        (keeper,) = keepers(tmp_path)
        keeper.kill()
        wait_until(lambda: reader.planner.spool.keeper_lock.is_free, "the keeper is dead")
        with pytest.raises(RuntimeError, match=r"may have been missed.*failOnDataLoss"):
            reader.latestOffset(start, ReadAllAvailable())
        reader.stop()
        careless = reading(name, failOnDataLoss="false")
        assert careless.latestOffset(start, ReadAllAvailable())["row"] == 0
        sender.send(b"after")
        assert read(careless, start, latest_with(careless, start, 1)) == [b"after"]


def test_an_abandoned_spool_that_is_full_holds_up_no_sender(
    name: str, reading: Reading, tmp_path: Path
) -> None:
    with Mailbox.create(name, message_size=65536, capacity=16) as box, box.sender() as sender:
        reader = reading(name, spoolBytes=str(1 << 20), linger="3600")
        reader.initialOffset()
        assert is_held_up(sender)  # an ordinary slow receiver, as long as the query is there
        reader.stop()
        wait_until(lambda: not box.stats().receivers, "the keeper has left")
        for _ in range(100):
            sender.send(bytes(65536))
        used = sum(segment.size_bytes for segment in Spool(tmp_path / "spool").segments())
        assert used < (1 << 20) + (32 << 20)


def test_without_a_query_the_keeper_leaves_in_the_end(name: str, reading: Reading) -> None:
    with Mailbox.create(name) as box:
        reader = reading(name, linger="0")
        reader.initialOffset()
        assert len(box.stats().receivers) == 1
        reader.stop()
        wait_until(lambda: not box.stats().receivers, "the keeper has left")


def test_a_removed_mailbox_ends_the_stream_with_its_reason(name: str, reading: Reading) -> None:
    with Mailbox.create(name):
        reader = reading(name)
        start = reader.initialOffset()
    Mailbox.remove(name)
    wait_until(lambda: reader.planner.spool.keeper_lock.is_free, "the keeper has noticed")
    with pytest.raises(RuntimeError, match="it was removed"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_mailbox_that_is_not_there_is_named(reading: Reading) -> None:
    with pytest.raises(RuntimeError, match=r"cannot receive from nowhere: .*does not exist"):
        reading("nowhere").initialOffset()


def test_a_spool_serves_one_query_and_one_mailbox(
    new_name: Callable[[], str], reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shmcast.pipeline.source._ATTACH_S", 0.1)
    one, other = new_name(), new_name()
    with Mailbox.create(one), Mailbox.create(other):
        reader = reading(one)
        reader.initialOffset()
        with pytest.raises(RuntimeError, match="in use by another query"):
            reading(one).initialOffset()
        reader.stop()
        with pytest.raises(ValueError, match=f"is the spool of {one}"):
            reading(other).initialOffset()


def test_the_spool_of_a_mailbox_is_not_read_as_that_of_a_domain(
    new_name: Callable[[], str], reading: Reading, tmp_path: Path
) -> None:
    """The keeper of the first query still receives when the second one comes."""
    one, plant = new_name(), new_name()
    with Mailbox.create(one), Domain.create(plant) as domain:
        domain.create_mailbox("valves")
        reader = reading(one)
        reader.initialOffset()
        reader.stop()
        other = StreamReader(parse({"domain": plant, "spool": str(tmp_path / "spool")}))
        with pytest.raises(ValueError, match=f"is the spool of {one}"):
            other.initialOffset()


@pytest.mark.parametrize(
    ("text", "error"),
    [("{", Corrupt), ("[]", Incompatible), ('{"version": 99}', Incompatible),
     ('{"version": 1}', Corrupt)],
)  # fmt: skip
def test_a_damaged_spool_is_refused(tmp_path: Path, text: str, error: type[Exception]) -> None:
    (tmp_path / "spool.json").write_text(text)
    with pytest.raises(error):
        Spool(tmp_path).state()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say which mailbox"),
        ({"mailbox": "a", "domain": "b"}, "say which mailbox"),
        ({"mailbox": "a", "mailboxes": "b"}, "belongs to option 'domain'"),
        ({"domain": "a", "mailboxes": "b,b"}, "names one twice"),
        ({"mailbox": "a", "mailbx": "b"}, "unknown option 'mailbx'"),
        ({"mailbox": "a", "count": "many"}, "'count' must be between 1 and"),
        ({"mailbox": "a", "linger": "-1"}, "'linger' must be between"),
        ({"mailbox": "a", "seconds": "nan"}, "'seconds' must be between"),
        ({"mailbox": "a", "failOnDataLoss": "maybe"}, "must be true or false"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        parse(options)
    assert "\n" not in str(caught.value)


def test_no_time_to_wait_is_not_ten_seconds() -> None:
    assert parse({"mailbox": "a", "timeout": "0"}).timeout_s == 0.0
    assert parse({"mailbox": "a"}).timeout_s == 10.0


# Writing.


def rows(*payloads: bytes) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"data": pa.array(payloads, pa.binary())})])


DATA = StructType().add("data", BinaryType())


def test_a_batch_that_was_sent_whole_is_not_sent_again(name: str, tmp_path: Path) -> None:
    options = parse({"mailbox": name, "spool": str(tmp_path)})
    with Mailbox.create(name) as box, box.receiver() as receiver:
        for _ in range(2):  # Spark died before it could note the batch, and does it again
            writer = sink.StreamWriter(options, DATA)
            staged = [writer.write(rows(b"a", b"b")), writer.write(rows(b"c"))]
            writer.commit(staged, 0)
        writer.commit([writer.write(rows(b"d"))], 1)
        got = [receiver.receive().data for _ in range(4)]
        assert got == [b"a", b"b", b"c", b"d"]
        assert receiver.depth == 0
        assert [path.name for path in tmp_path.iterdir()] == ["sent.json"]
        with pytest.raises(RuntimeError, match="this is another batch 0"):
            writer.commit([writer.write(rows(b"of another query"))], 0)


def test_rows_of_a_batch_that_was_cut_are_recognised(name: str, tmp_path: Path) -> None:
    given = {"mailbox": name, "spool": str(tmp_path), "envelope": "true", "writer": "w"}
    options = parse(given)
    with Mailbox.create(name) as box, box.receiver() as receiver:
        writer = sink.StreamWriter(options, DATA)
        sink._send(options, [writer.write(rows(b"a", b"b"))], 7)  # died before it was noted
        sink.StreamWriter(options, DATA).commit([writer.write(rows(b"a", b"b"))], 7)
        once = Once()
        got = [once.payload(receiver.receive().data) for _ in range(4)]
    assert got == [b"a", b"b", None, None]


def test_a_batch_that_comes_again_in_another_order_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receivers drop what comes again by its place: they would lose b, and have a twice."""
    given = {"mailbox": name, "spool": str(tmp_path), "envelope": "true", "writer": "w"}
    options = parse(given)

    def dies(way: Any, messages: list[bytes]) -> None:
        way.sender.send(messages[0])
        raise KeyboardInterrupt

    with Mailbox.create(name) as box, box.receiver() as receiver:
        writer = sink.StreamWriter(options, DATA)
        staged = [writer.write(rows(b"a", b"b"))]
        with monkeypatch.context() as patched:
            patched.setattr(sink._Way, "send", dies)
            with pytest.raises(KeyboardInterrupt):
                writer.commit(staged, 7)
        again = sink.StreamWriter(options, DATA)
        with pytest.raises(RuntimeError, match="other rows or in another order"):
            again.commit([again.write(rows(b"b", b"a"))], 7)
        assert receiver.depth == 1
        again.commit([again.write(rows(b"a", b"b"))], 7)
        again.commit([again.write(rows(b"c"))], 8)
        once = Once()
        got = [once.payload(receiver.receive().data) for _ in range(4)]
    assert got == [b"a", None, b"b", b"c"]


@pytest.mark.parametrize("envelope", [False, True])
def test_a_batch_with_a_row_too_large_sends_nothing(
    name: str, tmp_path: Path, envelope: bool
) -> None:
    """The envelope counts as well: with it, the last row here is one byte too long."""
    given = {"envelope": "true", "writer": "w"} if envelope else {}
    options = parse({"mailbox": name, "spool": str(tmp_path), **given})
    room = 64 - len(wrap(Origin("w", 0, 0, 1), b"")) if envelope else 64
    with Mailbox.create(name, message_size=64) as box, box.receiver() as receiver:
        for _ in range(3):  # as Spark tries again
            writer = sink.StreamWriter(options, DATA)
            with pytest.raises(MessageTooLarge, match="nothing was sent"):
                writer.commit([writer.write(rows(*[b"good"] * 64, bytes(room + 1)))], 0)
        assert receiver.depth == 0


@pytest.mark.parametrize("protocol", ["eager", "crash"])
def test_a_batch_that_found_no_room_goes_on_where_it_was_cut(
    name: str, tmp_path: Path, protocol: str
) -> None:
    options = parse({"mailbox": name, "spool": str(tmp_path), "timeout": "0"})
    payloads = numbers(0, 500)
    got: list[bytes] = []
    with Mailbox.create(name, protocol=protocol, capacity=128) as box, box.receiver() as receiver:
        writer = sink.StreamWriter(options, DATA)
        cuts = 0
        while not (tmp_path / "sent.json").exists():
            with contextlib.suppress(sink.Cut):
                writer.commit([writer.write(rows(*payloads))], 0)
            cuts += (tmp_path / "cut.json").exists()
            while receiver.depth:
                got += [message.data for message in receiver.receive_many(64)]
    assert cuts > 1
    assert got == payloads
    assert not (tmp_path / "cut.json").exists()


def test_an_envelope_holds_what_was_put_in_and_nothing_else_is_one() -> None:
    origin = Origin("writer", 3, 1, 2)
    message = wrap(origin, b"payload")
    assert unwrap(message) == (origin, b"payload")
    for wrong in (b"", b"payload", message[:20], b"\0" + message[1:], message[:9] + b"\1" * 20):
        with pytest.raises(Corrupt):
            unwrap(wrong)


@pytest.mark.parametrize(
    "schema",
    [StructType(), StructType().add("data", LongType()), StructType().add("d", StringType())],
)
def test_only_bytes_become_messages(tmp_path: Path, schema: StructType) -> None:
    options = parse({"mailbox": "any", "spool": str(tmp_path)})
    with pytest.raises(ValueError, match="takes column 'data' of type binary or string"):
        sink.StreamWriter(options, schema)


def test_a_keeper_ends_orderly_when_it_is_told_to(
    name: str, reading: Reading, tmp_path: Path
) -> None:
    with Mailbox.create(name) as box, box.sender() as sender:
        reader = reading(name)
        start = reader.initialOffset()
        sender.send(b"kept")
        latest_with(reader, start, 1)
        (keeper,) = keepers(tmp_path)
        os.kill(keeper.pid, signal.SIGTERM)
        wait_until(lambda: not box.stats().receivers, "it has left")
        state = json.loads((tmp_path / "spool" / "spool.json").read_text())
        assert state["joined"] == 1
        assert not (tmp_path / "spool" / "keeper.error").exists()
