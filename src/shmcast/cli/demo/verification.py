"""The record of the demo against every promise: in memory always, in Spark where it is installed.

Two engines that share nothing but the definitions of the properties must come to one verdict.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from shmcast.cli.demo.interrupts import ending_alike
from shmcast.cli.demo.record import Story
from shmcast.multicast.checks.table import check
from shmcast.multicast.checks.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from shmcast.multicast.traces.run_info import RunInfo

Working = Callable[[str, int, int], None]
MEMORY, SPARK = "memory", "Spark"
GET_SPARK = "pip install 'shmcast[pipeline]'"
GET_REPORT = "pip install 'shmcast[report]'"


@dataclass(slots=True)
class Verification:
    engines: list[str]
    verdicts: dict[str, dict[str, Verdict]]  # by story and property
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be done, and the next step
    failed: list[str] = field(default_factory=list)  # an engine that is here, and gave no verdict

    @property
    def properties(self) -> int:
        return sum(len(found) for found in self.verdicts.values())

    def words(self) -> str:
        """Which engine verified what."""
        text = f"{self.properties} properties verified in {MEMORY}"
        if SPARK in self.engines:
            text += f", and all of them in {SPARK}"
        return text


def verify(
    stories: Sequence[Story], folder: Path, working: Working, *, spark: bool = True
) -> Verification:
    """`folder` gets a recorded run for each story, if what that needs is installed."""
    found = Verification([MEMORY], {})
    for number, story in enumerate(stories):
        working(f"verifying in memory: {story.name}", number, len(stories))
        found.verdicts[story.name] = check(story.trace, story.promises)
        found.problems += _problems(story.name, MEMORY, found.verdicts[story.name])
    if not spark:
        pass
    elif _has("pyspark", "pyarrow"):
        try:
            _in_spark(stories, folder, working, found)
        except Exception as error:  # Java has many; memory has judged already
            told = str(error).splitlines() or [type(error).__name__]
            found.failed.append(f"Spark failed: {told[0]}")
    else:
        found.notes.append(f"not verified in Spark, which is not installed: {GET_SPARK}")
    working("", 0, 0)
    return found


def _has(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def _problems(story: str, engine: str, verdicts: dict[str, Verdict]) -> list[str]:
    return [
        f"{story}: {name} {verdict.outcome.value} in {engine}: {verdict.reason}"
        for name, verdict in verdicts.items()
        if verdict.outcome is not Outcome.PASSED
    ]


def _in_spark(
    stories: Sequence[Story], folder: Path, working: Working, found: Verification
) -> None:
    from shmcast.pipeline.session import SHORT_LIVED, spark_session
    from shmcast.pipeline.verify import verify as verify_in_spark

    working("starting Spark", 0, 0)
    runs = [(story, write_run(folder, story)) for story in stories]
    # Spark brings a handler of Ctrl-C of its own, which asks Java a lot before it gives up.
    with _silent(), spark_session("shmcast demo", conf=SHORT_LIVED) as spark, ending_alike():
        for number, (story, run) in enumerate(runs):
            working(f"verifying in Spark: {story.name}", number, len(runs))
            verdicts = verify_in_spark(spark, run, story.promises).verdicts
            found.problems += _problems(story.name, SPARK, verdicts)
    found.engines.append(SPARK)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The connection to Java tells a lot when Ctrl-C cuts it. What matters is raised as well."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def write_run(folder: Path, story: Story) -> Path:
    """As `shmcast verify`, `report` and `watch` read it."""
    from shmcast.multicast.traces.convert import write_trace

    run = folder / story.name
    if not run.exists():
        write_trace(run, run_info(story), story.trace)
    return run


def run_info(story: Story) -> RunInfo:
    from shmcast.multicast.traces.run_info import RunInfo

    first_ns = min((event.real_t for event in story.trace.events), default=time.monotonic_ns())
    age = timedelta(microseconds=(time.monotonic_ns() - first_ns) / 1000)
    return RunInfo(
        run=f"demo: {story.name}",
        protocol=story.protocol,
        groups=story.groups,
        clients=story.trace.clients,
        names=story.names,
        started=(datetime.now(UTC) - age).isoformat(timespec="seconds"),
        promises=story.promises,
        bound_ns=story.bound_ns,
    )
