"""The command ``shmcast verify``: who saw what, in one order, in time?"""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from shmcast.cli.output import Code, busy, complain, console, emit_json, needing

SMALL_BYTES = 4 << 20  # of Parquet, roughly 300,000 rows: memory answers before Spark has started


class Engine(enum.StrEnum):
    auto = "auto"
    memory = "memory"
    spark = "spark"


# `report` takes the same.
WhichEngine = Annotated[
    Engine, typer.Option(help="auto: in memory if the run is small, else Spark.")
]
Master = Annotated[str, typer.Option(help="Spark's master: local[CORES] or spark://HOST:PORT.")]
Memory = Annotated[str, typer.Option(help="Memory of Spark's processes, as 512m or 4g.")]


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a recorded run.")],
    *,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", help="Only this one; repeatable. Default: all promised."),
    ] = None,
    engine: WhichEngine = Engine.auto,
    master: Master = "local[2]",
    memory: Memory = "1g",
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Check a recorded run: every property it promises, with counterexamples in words.

    Exit code 1 if one is violated; 0 if none is, also where some are undetermined: the table says
    which and why.
    """
    by = chosen(run) if engine is Engine.auto else engine
    names = property_ or []
    with busy(f"checking {run} in {by.value}"):
        if by is Engine.memory:
            answer = _in_memory(run, names)
        else:
            answer = _in_spark(run, names, master=master, memory=memory)
    if json:
        emit_json(answer)
    else:
        _show(answer)
    if any(one["verdict"] == "violated" for one in answer["properties"].values()):
        raise typer.Exit(Code.FAILED_VERDICT)


def chosen(run: Path) -> Engine:
    size = sum(path.stat().st_size for path in run.glob("process=*/incarnation=*/*.parquet"))
    return Engine.memory if size <= SMALL_BYTES else Engine.spark


def _in_memory(run: Path, names: list[str]) -> dict[str, Any]:
    with needing("a recorded run", "trace"):
        from shmcast.multicast.traces import judge, reader
    record = reader.read_record(run)
    if not record.trace.events:
        raise FileNotFoundError(f"{run} holds no rows: was the run recorded at all?")
    verdicts = judge.check_record(record, names)
    rows = {
        name: [_row(event) for event in verdict.witness]
        for name, verdict in verdicts.items()
        if verdict.violated
    }
    return _answer(record.info, "memory", record.gaps, verdicts, rows)


def _row(event: Any) -> dict[str, Any]:
    return {name: value for name, value in event._asdict().items() if value not in (None, (), "")}


def _in_spark(run: Path, names: list[str], *, master: str, memory: str) -> dict[str, Any]:
    with needing("Spark", "pipeline"):
        from shmcast.pipeline.verify import verify as in_spark

    with spark_for(run, "verify", master=master, memory=memory) as spark:
        found = in_spark(spark, run.absolute(), names)
    return _answer(found.info, "spark", found.gaps, found.verdicts, found.examples)


@contextlib.contextmanager
def spark_for(run: Path, command: str, *, master: str, memory: str) -> Iterator[Any]:
    with needing("Spark", "pipeline"):
        from shmcast.multicast.traces.run_info import RunInfo
        from shmcast.pipeline import session

    if not re.fullmatch(r"[1-9]\d*[mg]", memory):
        raise ValueError(f"memory is a number of MiB or GiB, as 512m or 4g, not {memory!r}")
    RunInfo.read(run)  # a wrong directory is noticed before Spark has started
    conf = {"spark.driver.memory": memory, "spark.executor.memory": memory}
    with session.spark_session(f"shmcast {command}", master=master, conf=conf) as spark:
        yield spark


def _answer(info: Any, engine: str, gaps: Any, verdicts: Any, rows: Any) -> dict[str, Any]:
    return {
        "run": info.run,
        "protocol": info.protocol,
        "engine": engine,
        "closed": gaps.closed,
        "missing": gaps.words(),
        "properties": {
            name: {
                "verdict": verdict.outcome.value,
                "reason": verdict.reason,
                "counterexamples": rows.get(name, []),
            }
            for name, verdict in verdicts.items()
        },
    }


def _show(answer: dict[str, Any]) -> None:
    colours = {"passed": "green", "violated": "bold red", "undetermined": "yellow"}
    state = "over" if answer["closed"] else "still open"
    title = f"{answer['run']} ({answer['protocol']}, {state}), checked in {answer['engine']}"
    table = Table(title=escape(title), title_justify="left", box=None)
    for head in ("property", "verdict", "why"):
        table.add_column(head)
    for name, one in answer["properties"].items():
        colour = colours[one["verdict"]]
        table.add_row(name, f"[{colour}]{one['verdict']}[/{colour}]", escape(one["reason"]))
    console().print(table)
    for words in answer["missing"][:10]:
        complain(f"the record is not complete: {words}")
    if not answer["properties"]:
        complain("the run promises nothing: name what to check with --property")
