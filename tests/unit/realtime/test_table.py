"""Time-triggered tables: made, checked, refused."""

from __future__ import annotations

import pytest

from shmcast.realtime.table import Entry, NoTable, Table, build, violations
from shmcast.realtime.tasks import Task

FAST = Task(name="fast", work_ns=1, period_ns=4)
SLOW = Task(name="slow", work_ns=2, period_ns=8)


def test_a_table_lasts_a_hyperperiod_and_has_every_job_once() -> None:
    table = build([FAST, SLOW])
    assert table.cycle_ns == 8
    assert sorted((e.task, e.job) for e in table.entries) == [(0, 0), (0, 1), (1, 0)]
    assert violations([FAST, SLOW], table) == []


def test_offsets_are_kept() -> None:
    late = Task(name="late", work_ns=1, period_ns=4, offset_ns=3)
    table = build([late])
    assert [e.start_ns for e in table.entries] == [3]


def test_idle_time_is_inserted_where_edf_alone_would_miss() -> None:
    """EDF starts the long job at 0 and misses the short one, which is ready at 1 and due at 2."""
    long = Task(name="long", work_ns=3, period_ns=10, deadline_ns=9)
    short = Task(name="short", work_ns=1, period_ns=10, deadline_ns=1, offset_ns=1)
    table = build([long, short])
    assert violations([long, short], table) == []
    assert [(e.task, e.start_ns) for e in table.entries] == [(1, 1), (0, 2)]


def test_what_cannot_fit_is_proven_and_named() -> None:
    one = Task(name="one", work_ns=3, period_ns=4)
    two = Task(name="two", work_ns=2, period_ns=4)
    with pytest.raises(NoTable, match="two: there is no table"):
        build([one, two])


def test_a_cycle_of_too_many_jobs_is_refused_with_advice() -> None:
    odd = [Task(name=f"t{p}", work_ns=1, period_ns=p) for p in (9973, 9967, 9949)]
    with pytest.raises(NoTable, match="periods that divide each other"):
        build(odd)


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ([Entry(0, 0, 0, 1, 4), Entry(0, 1, 0, 2, 8), Entry(4, 0, 1, 5, 8)], "another's time"),
        ([Entry(0, 0, 0, 1, 4), Entry(1, 1, 0, 3, 8)], "not every job"),
        ([Entry(0, 0, 0, 1, 4), Entry(1, 1, 0, 2, 8), Entry(4, 0, 1, 5, 8)], "budget"),
        ([Entry(0, 0, 0, 1, 4), Entry(1, 0, 1, 2, 8), Entry(2, 1, 0, 4, 8)], "before it is ready"),
        ([Entry(0, 1, 0, 2, 8), Entry(4, 0, 1, 5, 8), Entry(6, 0, 0, 7, 4)], "after its deadline"),
    ],
)
def test_a_wrong_table_is_noticed(entries: list[Entry], word: str) -> None:
    assert any(word in text for text in violations([FAST, SLOW], Table(8, entries)))
