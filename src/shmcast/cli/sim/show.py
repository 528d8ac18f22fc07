"""What the commands of ``shmcast sim`` say, for people and for machines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.campaign import Campaign
from shmcast.multicast.sim.run import Report, Run

_MARKS = {"passed": "[green]✓[/]", "violated": "[red]✗[/]", "undetermined": "[yellow]?[/]"}


def run_summary(outcome: Run, report: Report) -> dict[str, Any]:
    took = [delay.first for delay in outcome.delays()]
    return {
        "protocol": outcome.scenario.spec.name,
        "seed": outcome.scenario.seed,
        "verdict": _verdict(report),
        "properties": {
            name: {"outcome": v.outcome.value, "reason": v.reason}
            for name, v in report.verdicts.items()
        },
        "steps": outcome.steps,
        "virtual_ticks": outcome.ended_at,
        "faults": dict(outcome.faults),
        "messages_sent": dict(outcome.sent),
        "delays_ticks": _figures(took),
        "delta_ticks": DELTA,
    }


def _verdict(report: Report) -> str:
    if report.violated:
        return "violated"
    return "undetermined" if report.undetermined else "passed"


def _figures(took: list[int]) -> dict[str, float]:
    """Of each message at the first member of each destination group."""
    if not took:
        return {}
    return {"least": min(took), "median": statistics.median(took), "most": max(took)}


def show_run(out: Console, summary: dict[str, Any]) -> None:
    out.print(f"{summary['protocol']}, seed {summary['seed']}: [bold]{summary['verdict']}[/]")
    for name, verdict in summary["properties"].items():
        out.print(f"  {_MARKS[verdict['outcome']]} {name}", end="")
        out.print(f": {verdict['reason']}" if verdict["reason"] else "", markup=False)
    delays, delta = summary["delays_ticks"], summary["delta_ticks"]
    if delays:
        shown = ", ".join(f"{name} {ticks / delta:g} δ" for name, ticks in delays.items())
        out.print(f"delivered after: {shown} (δ = {delta} ticks)")
    sent = summary["messages_sent"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(sent.items()))
    out.print(f"messages: {sum(sent.values())}: {kinds}", markup=False)
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(summary["faults"].items()))
    out.print(f"faults: {faults or 'none'}")
    out.print(f"{summary['steps']} steps in {summary['virtual_ticks'] / delta:g} δ of virtual time")


def campaign_summary(found: Campaign, took_s: float) -> dict[str, Any]:
    return {
        "protocol": found.name,
        "runs": found.runs,
        "steps": found.steps,
        "faults": dict(found.faults),
        "virtual_hours": found.virtual_hours,
        "violated_seeds": sorted(found.failures),
        "undetermined_seeds": sorted(found.undetermined),
        "seconds": round(took_s, 3),
    }


def show_campaigns(out: Console, summaries: list[dict[str, Any]], seeds: range) -> None:
    table = Table(title=f"seeds {seeds.start} to {seeds.stop - 1}", title_justify="left")
    table.add_column("protocol")
    for heading in ("runs", "steps", "faults", "virtual hours", "violated", "open"):
        table.add_column(heading, justify="right")
    for row in summaries:
        table.add_row(
            row["protocol"],
            f"{row['runs']:,}",
            f"{row['steps']:,}",
            f"{sum(row['faults'].values()):,}",
            f"{row['virtual_hours']:.3f}",
            _alarming(len(row["violated_seeds"])),
            _alarming(len(row["undetermined_seeds"])),
        )
    out.print(table)
    out.print(
        f"{sum(row['runs'] for row in summaries):,} runs, "
        f"{sum(sum(row['faults'].values()) for row in summaries):,} faults injected, "
        f"{sum(row['virtual_hours'] for row in summaries):.3f} virtual hours"
    )


def _alarming(count: int) -> str:
    return f"[bold red]{count}[/]" if count else "0"


def spec_summary(spec: Spec) -> dict[str, Any]:
    tolerates = spec.tolerates
    most = max(len(members) for shape in spec.shapes for members in shape.groups)
    crashes = tolerates.crashes_per_group(most)
    words = {
        f"{crashes} of {most} crashed": crashes > 0,
        "restarts": tolerates.restarts,
        "omissions": tolerates.omissions,
        "cuts that heal": tolerates.partitions,
        "loss": tolerates.loss,
        "duplicates": tolerates.duplication,
        "reordering": tolerates.reordering,
        "any delay": tolerates.delay_max is None,
        "clock skew": tolerates.skew_max > 0,
    }
    return {
        "protocol": spec.name,
        "promises": list(spec.promises),
        "tolerates": [word for word, holds in words.items() if holds],
    }


def show_list(out: Console, rows: Iterable[dict[str, Any]]) -> None:
    table = Table()
    for heading in ("protocol", "promises", "tolerates"):
        table.add_column(heading, no_wrap=heading == "protocol")
    for row in rows:
        table.add_row(row["protocol"], ", ".join(row["promises"]), ", ".join(row["tolerates"]))
    out.print(table)
    out.print("next: shmcast sim wbcast --seed 7 --faults random --diagram")
