"""``shmcast bench bounds``: how long operations really take, against the bound that they have."""

from __future__ import annotations

import enum
import json as codec
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from shmcast.cli import bounds_plan as plan
from shmcast.cli.bounds_report import summary
from shmcast.cli.bounds_run import CALIBRATED, FIXED, calibration
from shmcast.cli.bounds_show import page, show
from shmcast.cli.demo.interrupts import ending_alike
from shmcast.cli.output import console, emit_json
from shmcast.realtime.calibrate import this_machine

FORMAT = 2


class Against(enum.StrEnum):
    FIXED = FIXED
    CALIBRATED = CALIBRATED


def settings_of(size: plan.Size) -> dict[str, Any]:
    """Results that differ in these must not be mixed in one file."""
    return {
        "format": FORMAT,
        "machine": asdict(this_machine()),
        **size._asdict(),
        "killed_copies": list(size.killed_copies),
        "calibration": calibration().number if size.bounds == CALIBRATED else 0,
    }


def resume(out: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    """The parts that an earlier run has finished. Raises ValueError if they do not belong here."""
    if out is None or not out.exists():
        return {}
    try:
        found = codec.loads(out.read_text())
        if found["settings"] != settings:
            raise ValueError("it was made on another machine or with other options")
        done = found["parts"]
        if not isinstance(done, dict):
            raise TypeError("parts")
    except (KeyError, TypeError, codec.JSONDecodeError):
        raise ValueError(f"{out} is not a result of this command: choose another --out") from None
    except ValueError as error:
        raise ValueError(f"{out}: {error}: choose another --out, or --fresh") from None
    return done


def report(settings: dict[str, Any], all_parts: list[plan.Part], done: dict[str, Any]) -> Any:
    ordered = {p.name: done[p.name] for p in all_parts if p.name in done}
    return {
        "settings": settings,
        "finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "took_s": round(sum(part["took_s"] for part in ordered.values()), 1),
        "missing": [p.name for p in all_parts if p.name not in done],
        "summary": summary(ordered, settings["operations"]),
        "parts": ordered,
    }


def _store(out: Path, found: Any, command: str) -> None:
    """Whole or not at all, so that a run that is ended can go on where it was."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for path, text in (
        (out, codec.dumps(found) + "\n"),
        (out.with_suffix(".md"), page(found, command)),
    ):
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text)
        temporary.replace(path)


def measure(
    todo: list[plan.Part], size: plan.Size, *, quiet: bool, finished: Callable[[str, Any], None]
) -> None:
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=len(todo))
        for i, part in enumerate(todo):

            def tell(what: str, number: int, rounds: int, at: int = i) -> None:
                bar.update(task, completed=at + number / rounds, description=f"{what:<24}")

            tell(part.name, 0, 1)
            found = plan.run_part(part, size, tell)
            finished(part.name, found)
            if not quiet:
                screen.print(f"{part.name}: {found['took_s']} s")


def bounds(
    *,
    operations: Annotated[
        int, typer.Option(help="Sends per protocol, idle and under load together.")
    ] = 1_000_000,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of them, fewer rounds.")] = False,
    against: Annotated[
        Against,
        typer.Option(
            "--bounds", help="fixed: short, to see them broken; calibrated: as proposed here."
        ),
    ] = Against.FIXED,
    only: Annotated[
        list[str] | None, typer.Option(help="Parts whose names begin so; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A file for the result; parts that it holds are not measured again."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure them again.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Figures for machines.")] = False,
) -> None:
    """Bounded completion time: sends and receives of each protocol, 1 to 5 copies, idle, loaded,
    with a copy and a process killed; against their bounds, with the causes of misses."""
    size = plan.Size.of(operations, quick=quick, bounds=against)
    all_parts, settings = plan.parts(size), settings_of(size)
    wanted = plan.chosen(all_parts, only or ())
    done = {} if fresh else resume(out, settings)
    words = [
        f" --operations {operations}" * (operations != 1_000_000),
        " --quick" * quick,
        f" --bounds {against}" * (against != FIXED),
    ]
    command = f"shmcast bench bounds{''.join(words)} --out {out.name if out else 'FILE'}"

    def finished(name: str, part: Any) -> None:
        done[name] = part
        if out is not None:
            _store(out, report(settings, all_parts, done), command)

    with ending_alike():  # or the segments would stay
        measure([p for p in wanted if p.name not in done], size, quiet=json, finished=finished)
    found = report(settings, all_parts, done)
    if json:
        emit_json(found, indent=None)
    else:
        show(console(), found)
