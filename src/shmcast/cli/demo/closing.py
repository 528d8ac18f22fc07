"""The result of a demo as figures, and as the last words on the screen."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from shmcast.cli.demo.logs import What
from shmcast.cli.demo.record import Story
from shmcast.cli.demo.script import BOUNDS, DELIVERY_BOUND_NS, Stage
from shmcast.cli.demo.verdict import judge
from shmcast.cli.demo.verification import Verification
from shmcast.cli.output import NS_PER_MS, millis

KINDS = ("lost", "reordered", "doubled", "phantom")
KEPT, BROKEN, UNVERIFIED = "ok", "failed", "unverified"


def result_of(
    stage: Stage, stories: list[Story], verification: Verification, accidents: list[str]
) -> dict[str, Any]:
    """From what was written down, not from what was planned."""
    problems = [*accidents, *verification.problems]
    totals = dict.fromkeys(KINDS, 0)
    systems = {}
    for story in stories:
        verdict = judge([r.got() for r in story.receivers], [s.sent() for s in story.senders])
        problems += [f"{story.name}: {problem}" for problem in verdict.problems]
        for kind in KINDS:
            totals[kind] += getattr(verdict, kind)
        systems[story.name] = {
            "sent": sum(s.count(What.ACKNOWLEDGED) for s in story.senders),
            "delivered": sum(len(r.keys) for r in story.receivers),
            "rejected": sum(s.count(What.REJECTED) for s in story.senders),
        }
    worst, bound = stage.worst, {"send": BOUNDS.send_ns, "delivery": DELIVERY_BOUND_NS}
    late = [
        f"a {what} took {millis(took)}, longer than its bound of {millis(bound[what])}"
        for what, took in (("send", worst.send_ns), ("delivery", worst.delivery_ns))
        if took > bound[what]
    ]
    return {
        "verdict": BROKEN if problems else UNVERIFIED if verification.failed else KEPT,
        "in_time": not late,
        **{
            k: sum(system[k] for system in systems.values())
            for k in ("sent", "delivered", "rejected")
        },
        **totals,
        "systems": systems,
        "send_worst_ms": worst.send_ns / NS_PER_MS,
        "send_bound_ms": BOUNDS.send_ns / NS_PER_MS,
        "delivery_worst_ms": worst.delivery_ns / NS_PER_MS,
        "delivery_bound_ms": DELIVERY_BOUND_NS / NS_PER_MS,
        "acts": [
            {"title": a.title, "outcome": a.outcome, "pause_ms": a.pause_ns / NS_PER_MS}
            for a in stage.acts
        ],
        "verified_in": verification.engines,
        "verified": verification.words(),
        "late": late,
        "problems": problems,
        "notes": [*verification.failed, *verification.notes],
        "report": None,
    }


def words(result: dict[str, Any]) -> str:
    """The verdict as a sentence. A bound is a promise about time, and this is no real-time
    machine: late is not wrong."""
    if result["verdict"] == BROKEN:
        return "a guarantee was broken"
    if result["verdict"] == UNVERIFIED:
        return "not verified in Spark, which failed; in memory nothing wrong was found"
    if result["in_time"]:
        return "every guarantee was kept, in time"
    return (
        "nothing was lost, reordered or doubled; a time bound was exceeded, because this machine "
        "was busy elsewhere (shmcast doctor says what would help)"
    )


def closing_words(result: dict[str, Any], out: Console) -> None:
    out.print()
    out.print(_pauses(result))
    out.print()
    rejected = f"   rejected {result['rejected']:,} (their senders know)"
    out.print(
        f"messages sent {result['sent']:,}   delivered {result['delivered']:,}"
        + (rejected if result["rejected"] else "")
    )
    shown = (f"[{'red' if result[kind] else 'green'}]{kind} {result[kind]}[/]" for kind in KINDS)
    out.print("   ".join(shown))
    for what in ("send", "delivery"):
        worst, bound = result[f"{what}_worst_ms"], result[f"{what}_bound_ms"]
        style = "yellow" if worst > bound else "green"
        out.print(f"worst {what} [{style}]{millis(worst * 1e6)}[/], bound {millis(bound * 1e6)}")
    out.print(result["verified"])
    for text in (*result["late"], *result["notes"]):
        out.print(f"[yellow]{escape(text)}[/]")
    for problem in result["problems"]:
        out.print(f"[red]{escape(problem)}[/]")
    if result["report"]:
        out.print(f"report: {result['report']}")
    style = "green" if result["verdict"] == KEPT else "red"
    out.print(f"[bold {style}]verdict: {words(result)}[/]")


def _pauses(result: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("what happened", no_wrap=True)
    table.add_column("longest pause", justify="right", no_wrap=True)
    for act in result["acts"]:
        table.add_row(act["title"], millis(act["pause_ms"] * 1e6))
    return table
