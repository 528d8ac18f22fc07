"""The record of the demo: what the logs say becomes a run that the checkers can convict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shmcast.cli.demo.closing import result_of, words
from shmcast.cli.demo.logs import DELIVERY, STEP, Log, What
from shmcast.cli.demo.record import Attempt, Receiver, Sender, Story
from shmcast.cli.demo.scene import Order
from shmcast.cli.demo.script import Stage
from shmcast.cli.demo.show import Silence
from shmcast.cli.demo.verification import verify, write_run

MS = 1_000_000
Row = tuple[int, int, int, int, int]  # time, tie, at_ns, tag, number
PROMISES = ("multicast-validity", "uniform-agreement", "uniform-integrity", "uniform-fifo",
            "ordering", "timestamp-order")  # fmt: skip


def logged(path: Path, rows: list[Row]) -> Log:
    np.array(rows, DELIVERY).tofile(path)
    return Log(path, DELIVERY)


def a_story(
    folder: Path, *lists: list[Row], killed_ns: int = 0, last: What = What.ACKNOWLEDGED
) -> Story:
    """One sender of numbers 0, 1, 2 to one mailbox, and a receiver for each list."""
    whats = (What.ACKNOWLEDGED, What.ACKNOWLEDGED, last)
    attempts = [
        Attempt(n, 0b01, n * MS, what, 10 * n + 1, n * MS + 10) for n, what in enumerate(whats)
    ]
    receivers = []
    for p, mine in enumerate(lists):
        log = logged(folder / str(p), mine)
        ended_ns = killed_ns if p else 0
        receivers.append(Receiver(f"box.{p}", p, 0, "box", 0, 1, ended_ns, (0, 0), log))
    sender = Sender("sender.1", 100, 1, 0, attempts)
    return Story("test", "eager", PROMISES, None, receivers, [sender], [])


def rows(*numbers: int) -> list[Row]:
    return [(10 * n + 1, 0, (n + 1) * MS * 10, 100, n) for n in numbers]


def violated(story: Story, folder: Path) -> set[str]:
    found = verify([story], folder, lambda what, done, total: None, spark=False)
    return {name for name, one in found.verdicts["test"].items() if one.outcome.value != "passed"}


def test_a_spark_that_fails_makes_the_verdict_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("Java gateway process exited\nand much more")

    monkeypatch.setattr("shmcast.cli.demo.verification._in_spark", failing)
    monkeypatch.setattr("shmcast.cli.demo.verification._has", lambda *_: True)
    story = a_story(tmp_path, rows(0, 1, 2), rows(0, 1, 2))
    found = verify([story], tmp_path, lambda what, done, total: None)
    assert found.failed == ["Spark failed: Java gateway process exited"]
    result = result_of(Stage(tmp_path, Silence(), 1.0), [story], found, [])
    assert (result["verdict"], result["problems"]) == ("unverified", [])
    assert "not verified in Spark, which failed" in words(result)
    assert result["notes"] == found.failed and result["verified_in"] == ["memory"]


def test_a_sound_log_keeps_every_promise(tmp_path: Path) -> None:
    assert violated(a_story(tmp_path, rows(0, 1, 2), rows(0, 1, 2)), tmp_path) == set()


@pytest.mark.parametrize(
    ("second", "broken"),
    [
        (rows(0, 1), "uniform-agreement"),
        (rows(0, 1, 2, 2), "uniform-integrity"),
        (rows(0, 2, 1), "timestamp-order"),
        (rows(0, 2), "uniform-fifo"),
    ],
)
def test_a_broken_log_is_convicted(tmp_path: Path, second: list[Row], broken: str) -> None:
    assert broken in violated(a_story(tmp_path, rows(0, 1, 2), second), tmp_path)


def test_a_rejected_message_that_is_delivered_was_invented(tmp_path: Path) -> None:
    story = a_story(tmp_path, rows(0, 1, 2), rows(0, 1, 2), last=What.REJECTED)
    assert "uniform-integrity" in violated(story, tmp_path)


def test_a_killed_receiver_owes_nothing_after_its_death(tmp_path: Path) -> None:
    story = a_story(tmp_path, rows(0, 1, 2), rows(0, 1), killed_ns=50 * MS)
    assert violated(story, tmp_path) == set()


def test_the_record_on_disk_says_the_same(tmp_path: Path) -> None:
    from shmcast.multicast.traces.judge import check_record
    from shmcast.multicast.traces.reader import read_record

    story = a_story(tmp_path, rows(0, 1, 2), rows(0, 2, 1))
    record = read_record(write_run(tmp_path, story))
    found = {name for name, one in check_record(record).items() if one.violated}
    assert found == violated(story, tmp_path) != set()
    assert not record.gaps


def test_a_torn_row_is_ignored_and_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = np.array([(0, 0, 1, 0, 5), (0, 1, 1, 7, 9)], STEP).tobytes()
    log = Log(path, STEP)
    path.write_bytes(whole[:60])
    assert len(log.fresh()) == 1 and log.last()["what"] == What.BEGUN
    path.write_bytes(whole)
    assert log.fresh()["time"].tolist() == [7] and log.last()["what"] == What.ACKNOWLEDGED
    assert len(log.fresh()) == 0 and len(log.all()) == 2


@pytest.mark.parametrize(
    ("second", "is_one"),
    [(rows(0, 1, 2), True), (rows(1, 2), True), (rows(0, 2, 1), False),
     ([(1, 0, 1, 100, 0), (11, 0, 2, 100, 2)], False)],
)  # fmt: skip
def test_the_live_view_sees_two_orders(tmp_path: Path, second: list[Row], is_one: bool) -> None:
    order = Order()
    one, two = logged(tmp_path / "one", rows(0, 1, 2)), logged(tmp_path / "two", second)
    order.look({"one": one, "two": two})
    assert order.is_one is is_one
    assert order.checked == 3 + len(second)
