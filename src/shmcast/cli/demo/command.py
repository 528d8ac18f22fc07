"""The command ``shmcast demo``."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from shmcast.cli.demo import record
from shmcast.cli.demo.cast import StageAccident
from shmcast.cli.demo.closing import KEPT, closing_words, result_of
from shmcast.cli.demo.interrupts import ending_alike, uninterrupted
from shmcast.cli.demo.report import write_report
from shmcast.cli.demo.script import DELIVERY_BOUND_NS, TITLES, Stage, perform
from shmcast.cli.demo.show import Audience, Lines, Picture, Silence
from shmcast.cli.demo.verification import verify, write_run
from shmcast.cli.output import Code, can_draw, console, emit_json
from shmcast.errors import ShmcastError

REPORT = Path("shmcast-demo.html")


def _stories(stage: Stage) -> list[record.Story]:
    actors = stage.cast.actors
    if not stage.began_ns:  # an accident before anything was sent
        return []
    stories = [
        record.mailboxes(actors, stage.began_ns, DELIVERY_BOUND_NS, stage.copies_killed),
        record.cluster(actors, stage.troupe, stage.folder, stage.began_ns),
    ]
    now = time.monotonic_ns()
    for act in stage.acts:
        end_ns = act.end_ns or now  # none if an accident ended it
        pauses = [p for s in stories for p in s.pauses_ns(act.start_ns, end_ns, act.places)]
        act.pause_ns = max(pauses, default=0)
    return stories


def run(
    audience: Audience,
    seconds: float,
    report: Path,
    *,
    record_to: Path | None = None,
    spark: bool = True,
) -> dict[str, Any]:
    accidents: list[str] = []
    with tempfile.TemporaryDirectory(prefix=f"shmcast-demo-{os.getpid()}-") as made, audience:
        folder = Path(made)
        stage = Stage(folder, audience, seconds / len(TITLES))
        try:
            perform(stage)
        except (StageAccident, ShmcastError, OSError) as error:
            accidents.append(f"{type(error).__name__}: {error}")
        finally:
            audience.working("cleaning up", 0, 0)
            with uninterrupted():
                stage.close()
        stories = _stories(stage)
        found = verify(stories, folder, audience.working, spark=spark)
        result = result_of(stage, stories, found, accidents)
        audience.working("writing the report", 0, 0)
        write_report(report, result, stories, found)
        if record_to is not None:
            for story in stories:
                write_run(record_to, story)
        return result


def demo(
    seconds: Annotated[float, typer.Option(min=1.0, help="About how long the acts take.")] = 21.0,
    *,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = REPORT,
    record_to: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="Keep the recorded runs, for shmcast verify."),
    ] = None,
    spark: Annotated[
        bool, typer.Option(help="Verify in Spark as well, where it is installed.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Only the verdict, for machines.")] = False,
) -> None:
    """Mailboxes and a cluster under fire: real processes and copies are killed, nothing is lost.

    Exit code 1 if a guarantee was broken, or if Spark is here and fails to verify. A time bound
    that a busy machine exceeded is told, and is no failure: the guarantees of order do not rest on
    it.
    """
    out = console()
    audience: Audience = Silence()
    if not json:
        audience = Picture(out, len(TITLES)) if can_draw(out) else Lines(len(TITLES))
    with ending_alike():
        result = run(audience, seconds, report, record_to=record_to, spark=spark)
    if json:
        emit_json(result)
    else:
        closing_words(result, out)
    if result["verdict"] != KEPT:
        raise typer.Exit(Code.FAILED_VERDICT)
