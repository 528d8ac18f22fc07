"""`shmcast watch`: violations of a run in progress, within seconds, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shmcast.cli.output import Code, busy, complain, emit_json, needing

if TYPE_CHECKING:
    from shmcast.pipeline.live import Finding, Live


def watch(
    run: Annotated[Path, typer.Argument(help="Directory of the recorded run.")],
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so long; else when the run is over.")
    ] = None,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
    json: Annotated[bool, typer.Option("--json", help="One line of JSON per finding.")] = False,
) -> None:
    """Follow a run in progress; report broken order, doubles and missed bounds as they appear."""
    with needing("shmcast watch", "pipeline"):
        from shmcast.pipeline import watch as spark_watch

    count = 0

    def report(findings: list[Finding], live: Live) -> None:
        nonlocal count
        settled()  # lines of findings and a spinner would overwrite each other
        count += len(findings)
        for one in findings:
            if json:
                emit_json(one._asdict(), indent=None)
            else:
                typer.echo(f"{one.kind}: process {one.proc}.{one.incarnation}: {one.text}")

    with busy(f"starting Spark to follow {run}") as settled:
        live = spark_watch.watch(run, report, seconds=seconds, master=master)
    summary = {
        "events": live.events,
        "deliveries": live.deliveries,
        "findings": count,
        "unjudged": live.unjudged,
        "unstamped": live.unstamped,
        "disordered": live.disordered,
    }
    for proc in live.missing:
        complain(f"the record is not complete: nothing is on record of process {proc}")
    if json:
        emit_json(summary, indent=None)
    else:
        typer.echo(", ".join(f"{name} {value}" for name, value in summary.items()))
    if count:
        raise typer.Exit(Code.FAILED_VERDICT)
