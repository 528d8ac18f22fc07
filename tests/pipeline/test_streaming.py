"""The data source "mailbox" in a real session: batch and stream, read and written, killed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from helpers import PATIENCE_S, Child, wait_until
from shmcast import Domain, Mailbox

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

LONG_S = 240.0  # Spark on a busy machine; never asserted


@pytest.fixture(scope="module")
def mail(spark: SparkSession) -> SparkSession:
    from shmcast.pipeline.source import register

    register(spark)
    return spark


def is_keeper(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "shmcast.pipeline.keeper" in process.cmdline()
    return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A query's own directory; at the end nobody receives for it."""
    yield tmp_path
    mine = [
        process
        for process in psutil.process_iter()
        if is_keeper(process) and str(tmp_path) in process.cmdline()[-1]
    ]
    for process in mine:
        process.terminate()
    psutil.wait_procs(mine, timeout=PATIENCE_S)


def to_files(spark: SparkSession, name: str, place: Path) -> StreamingQuery:
    return (
        spark.readStream.format("mailbox")
        .option("mailbox", name)
        .option("spool", str(place / "spool"))
        .option("linger", "3600")
        .option("maxRowsPerBatch", "500")
        .load()
        .writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )


class Running:
    """A query. Spark gives its workers ten seconds to start, which a busy machine may not keep:
    then it is started again, as a user would."""

    def __init__(self, begin: Callable[[], StreamingQuery]) -> None:
        self._begin = begin
        self._query = begin()
        self._again = 5

    def healthy(self) -> bool:
        error = self._query.exception()
        if error is not None and "failed to connect back" in str(error) and self._again:
            self._again -= 1
            self._query = self._begin()
            return False
        assert error is None, str(error)
        return True

    def stop(self) -> None:
        self._query.stop()


QUERY = """
from shmcast.pipeline.session import session
from shmcast.pipeline.source import register
name, place, java = args
spark = session("killed", conf={"spark.driver.extraJavaOptions": java})
register(spark)
query = (spark.readStream.format("mailbox").option("mailbox", name)
    .option("spool", place + "/spool").option("linger", "3600").option("maxRowsPerBatch", "500")
    .load().writeStream.format("parquet").option("path", place + "/out")
    .option("checkpointLocation", place + "/checkpoint").start())
say("started")
hear()
"""


def kill_all_but_the_keeper(child: Child) -> None:
    tree = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
    doomed = [process for process in tree if not is_keeper(process)]
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(doomed, timeout=PATIENCE_S)


def test_a_killed_query_that_starts_again_loses_and_doubles_nothing(
    mail: SparkSession, name: str, place: Path, start: Callable[..., Child]
) -> None:
    with Mailbox.create(name, message_size=16, capacity=1024) as box, box.sender() as sender:

        def send(low: int, high: int) -> None:
            for i in range(low, high):
                sender.send(b"%d" % i)

        child = start(QUERY, name, str(place), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        assert child.heard(LONG_S) == "started"
        wait_until(lambda: box.stats().receivers, "the query has joined", LONG_S)
        send(0, 2000)
        committed = place / "checkpoint" / "commits" / "0"
        wait_until(committed.exists, "its first batch is done", LONG_S)
        send(2000, 3000)
        kill_all_but_the_keeper(child)
        send(3000, 6000)  # many times the capacity: nobody is held up
        query = Running(lambda: to_files(mail, name, place))
        send(6000, 7000)

        def all_there() -> bool:
            return query.healthy() and mail.read.parquet(str(place / "out")).count() >= 7000

        wait_until(all_there, "every row is in a file", LONG_S)
        query.stop()
        rows = mail.read.parquet(str(place / "out")).collect()
    rows.sort(key=lambda row: row.timestamp)
    assert [int(row.data) for row in rows] == list(range(7000))
    assert {row.mailbox for row in rows} == {name}


def test_a_batch_read_is_a_receiver_that_joins_and_leaves(mail: SparkSession, name: str) -> None:
    with Mailbox.create(name) as box, box.sender() as sender:

        def send_when_joined() -> None:
            wait_until(lambda: box.stats().receivers, "the task has joined", LONG_S)
            sender.send_many([b"%d" % i for i in range(20)])

        thread = threading.Thread(target=send_when_joined)
        thread.start()
        frame = mail.read.format("mailbox").option("mailbox", name).option("count", "10")
        rows = frame.option("seconds", "200").load().collect()
        thread.join()
        assert [bytes(row.data) for row in rows] == [b"%d" % i for i in range(10)]
        wait_until(lambda: not box.stats().receivers, "it has left")


def test_a_batch_write_sends_its_rows_in_order(mail: SparkSession, name: str) -> None:
    with Mailbox.create(name) as box, box.receiver() as receiver:
        frame = mail.range(0, 100, 1, 3).selectExpr("cast(id as string) as data")
        frame.write.format("mailbox").option("mailbox", name).mode("append").save()
        assert [int(receiver.receive().data) for _ in range(100)] == list(range(100))
        assert receiver.depth == 0


def test_the_mailboxes_of_a_domain_go_to_another_one_in_their_one_order(
    mail: SparkSession, new_name: Callable[[], str], place: Path
) -> None:
    here, there = new_name(), new_name()
    with (
        Domain.create(here) as domain,
        Mailbox.create(there) as other,
        other.receiver() as receiver,
    ):
        last = [domain.create_mailbox(inner) for inner in ("a", "b")][-1]
        query = Running(
            mail.readStream.format("mailbox")
            .option("domain", here)
            .option("spool", str(place / "read"))
            .load()
            .writeStream.format("mailbox")
            .option("mailbox", there)
            .option("spool", str(place / "written"))
            .option("checkpointLocation", str(place / "checkpoint"))
            .start
        )
        wait_until(lambda: query.healthy() and last.stats().receivers, "it has joined", LONG_S)
        with domain.sender() as sender:
            for i in range(50):
                sender.send(b"%d" % i, to=["ab"[i % 2]])
        wait_until(lambda: query.healthy() and receiver.depth >= 50, "it has written", LONG_S)
        got = [int(receiver.receive().data) for _ in range(50)]
        query.stop()
        assert got == list(range(50))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say which mailbox"),
        ({"mailbox": "x"}, "a streaming read needs option 'spool'"),
        ({"mailbox": "x", "spool": "y", "linger": "soon"}, "option 'linger' must be between"),
    ],
)
def test_garbage_options_are_one_clear_sentence(
    mail: SparkSession, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    from pyspark.errors import PySparkException

    def begin() -> None:
        frame = mail.readStream.format("mailbox").options(**options).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination(LONG_S)

    with pytest.raises(PySparkException, match=f"ValueError: .*{words}"):
        begin()
