"""``shmcast report``: a recorded run as one HTML file, or as JSON."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shmcast.cli.output import Code, busy, complain, emit_json, needing
from shmcast.cli.verify import Engine, Master, Memory, WhichEngine, chosen, spark_for
from shmcast.errors import Corrupt

if TYPE_CHECKING:
    from shmcast.pipeline.latency import Latencies
    from shmcast.pipeline.report.page import Report


def report(
    run: Annotated[Path, typer.Argument(help="Directory of a recorded run.")],
    *,
    against: Annotated[
        Path | None,
        typer.Option(metavar="EARLIER", help="An earlier run, or the JSON of its report."),
    ] = None,
    verdict: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON of `shmcast verify`; else checked here."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: RUN/report.html.")
    ] = None,
    engine: WhichEngine = Engine.auto,
    master: Master = "local[2]",
    memory: Memory = "1g",
    json: Annotated[bool, typer.Option("--json", help="Figures for machines, no file.")] = False,
) -> None:
    """Verdict, latencies against their bound, throughput and faults of a run, as one HTML file.

    Exit code 1 if a promise is violated.
    """
    by = chosen(run) if engine is Engine.auto else engine
    with busy(f"reading {run} in {by.value}"):
        if by is Engine.memory:
            found = _analysed(run, against, verdict)
        else:
            with spark_for(run, "report", master=master, memory=memory) as spark:
                found = _analysed_in_spark(spark, run.absolute(), against, verdict)
    word = found.judgement.word
    if json:
        emit_json(found.to_json())
    else:
        target = out or run / "report.html"
        with busy(f"drawing {target}"):
            write_page(target, found)
        typer.echo(f"{word}: {target}")
    if found.regression is not None and found.regression.slower and not json:
        complain(f"slower than {against}: {len(found.regression.slower)} figures, see the report")
    if word == "violated":
        raise typer.Exit(Code.FAILED_VERDICT)


def _analysed(run: Path, against: Path | None, verdict: Path | None) -> Report:
    with needing("a report", "report"):
        from shmcast.multicast.traces.judge import check_record
        from shmcast.multicast.traces.reader import read_record
        from shmcast.pipeline.report.page import analyse
        from shmcast.pipeline.report.verdict import judged, judged_before
    record = read_record(run)
    judgement = (
        judged(check_record(record), "memory")
        if verdict is None
        else judged_before(_json_of(verdict))
    )
    return analyse(record, judgement, None if against is None else _earlier(against))


def _analysed_in_spark(spark: Any, run: Path, against: Path | None, verdict: Path | None) -> Report:
    with needing("a report", "report"):
        from shmcast.pipeline.latency_spark import latencies
        from shmcast.pipeline.report import large
        from shmcast.pipeline.report.verdict import judged_before
    judgement = None if verdict is None else judged_before(_json_of(verdict))
    earlier = None
    if against is not None:
        earlier = latencies(spark, against) if against.is_dir() else _earlier(against)
    return large.analyse(spark, run, judgement, earlier)


def write_page(target: Path, found: Report) -> None:
    from shmcast.pipeline.report.page import html

    with needing("a report", "report"):
        text = html(found)  # what draws is imported on the way
    target.write_text(text, encoding="utf-8")


def _json_of(path: Path) -> Any:
    try:
        return json_module.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Corrupt(f"{path} is not JSON ({error}): make it again") from None


def _earlier(path: Path) -> Latencies:
    from shmcast.multicast.traces.reader import read_record
    from shmcast.pipeline.latency import Latencies
    from shmcast.pipeline.latency_memory import latencies

    if path.is_dir():
        record = read_record(path)
        return latencies(record.info, record.trace)
    found = _json_of(path)
    inside = found.get("latencies", found) if isinstance(found, dict) else found
    return Latencies.from_json(inside)
