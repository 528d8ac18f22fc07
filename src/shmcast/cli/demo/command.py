"""The command ``shmcast demo``."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from shmcast.cli.demo.cast import StageAccident
from shmcast.cli.demo.interrupts import ending_alike, uninterrupted
from shmcast.cli.demo.script import BOUNDS, DELIVERY_BOUND_NS, Stage, perform
from shmcast.cli.demo.show import Audience, Lines, Picture, Silence, closing_words
from shmcast.cli.demo.verdict import judge, longest_pause_ns
from shmcast.cli.output import NS_PER_MS, Code, console, emit_json
from shmcast.errors import ShmcastError

_ACTS = 7


def _result(stage: Stage, accidents: list[str]) -> dict[str, Any]:
    """From what was written down, not from what was planned."""
    receivers = [a for a in stage.cast.actors if a.role == "receive"]
    senders = [a for a in stage.cast.actors if a.role == "send"]
    totals = {"lost": 0, "reordered": 0, "doubled": 0, "phantom": 0}
    problems = list(accidents)
    for domain in (stage.box_name, stage.plant_name):
        verdict = judge(
            [actor.got() for actor in stage.cast.of(domain, "receive")],
            [actor.sent() for actor in stage.cast.of(domain, "send")],
        )
        problems += verdict.problems
        for kind in totals:
            totals[kind] += getattr(verdict, kind)
    stayed = stage.cast.playing("receive", stage.box_name)
    for act in stage.acts:
        end_ns = act.end_ns or time.monotonic_ns()  # none if an accident ended it
        pauses = [
            longest_pause_ns(actor.delivery_times_ns(), act.start_ns, end_ns)
            for actor in stayed
            if actor.ready_ns <= act.start_ns
        ]
        act.pause_ns = max(pauses, default=0)
    for what, worst_ns, bound_ns in (
        ("send", stage.worst.send_ns, BOUNDS.send_ns),
        ("delivery", stage.worst.delivery_ns, DELIVERY_BOUND_NS),
    ):
        if worst_ns > bound_ns:
            text = "which pause was it? on a busy machine, see shmcast doctor"
            problems.append(f"a {what} took longer than its bound: {text}")
    return {
        "verdict": "failed" if problems else "ok",
        "sent": sum(len(actor.sent().acknowledged) for actor in senders),
        "delivered": sum(len(actor.got().keys) for actor in receivers),
        "rejected": sum(actor.rejected() for actor in senders),
        **totals,
        "send_worst_ms": stage.worst.send_ns / NS_PER_MS,
        "send_bound_ms": BOUNDS.send_ns / NS_PER_MS,
        "delivery_worst_ms": stage.worst.delivery_ns / NS_PER_MS,
        "delivery_bound_ms": DELIVERY_BOUND_NS / NS_PER_MS,
        "acts": [
            {"title": a.title, "outcome": a.outcome, "pause_ms": a.pause_ns / NS_PER_MS}
            for a in stage.acts
        ],
        "problems": problems,
    }


def run(audience: Audience, seconds: float) -> dict[str, Any]:
    accidents: list[str] = []
    with tempfile.TemporaryDirectory(prefix="shmcast-demo-") as folder, audience:
        stage = Stage(Path(folder), audience, seconds / _ACTS)
        try:
            perform(stage)
        except (StageAccident, ShmcastError, OSError) as error:
            accidents.append(f"{type(error).__name__}: {error}")
        finally:
            with uninterrupted():
                stage.close()
        return _result(stage, accidents)


def demo(
    seconds: Annotated[float, typer.Option(min=1.0, help="About how long, start excluded.")] = 21.0,
    json: Annotated[bool, typer.Option("--json", help="Only the verdict, for machines.")] = False,
) -> None:
    """Mailboxes under fire: processes and copies are killed, and nothing is lost."""
    out = console()
    audience: Audience = Silence()
    if not json:
        audience = Picture(out, _ACTS) if out.is_terminal else Lines()
    with ending_alike():
        result = run(audience, seconds)
    if json:
        emit_json(result)
    else:
        closing_words(result, out)
    if result["verdict"] != "ok":
        raise typer.Exit(Code.FAILED_VERDICT)
