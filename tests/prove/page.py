"""docs/proof.md: the reports of all parts, set into page.md."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prove.results import Caught, Claim, Figure, Report

TEMPLATE = Path(__file__).with_name("page.md")
EVIDENCE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Ran:
    """One part's run; `report` is None if it brought none."""

    part: str
    report: Report | None
    minutes: float


def cell(value: Figure) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:.3g}" if isinstance(value, float) else value
    return text.replace("|", "\\|").replace("\n", " ")


def row(cells: Iterable[Figure]) -> str:
    return "| " + " | ".join(cell(value) for value in cells) + " |"


def summary(ran: Sequence[Ran]) -> str:
    lines = [
        "| part | claims | held | broken variants | caught | minutes |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in ran:
        report = one.report or Report(one.part, "none")
        held = sum(claim.held for claim in report.claims)
        caught = sum(mutant.caught for mutant in report.caught)
        counts = [len(report.claims), held, len(report.caught), caught]
        lines.append(row([report.part, *counts, f"{one.minutes:.1f}"]))
    return "\n".join(lines)


def claims_table(claims: Sequence[Claim]) -> list[str]:
    lines = ["| claim | held | figures | seconds |", "| --- | --- | --- | ---: |"]
    for claim in claims:
        figures = ", ".join(f"{name} {cell(value)}" for name, value in claim.figures.items())
        held = "yes" if claim.held else f"**no**: `{claim.command}`"
        name = f"{claim.name}: {claim.says}"
        lines.append(row([name, held, figures, f"{claim.seconds:.1f}"]))
    return lines


def caught_table(caught: Sequence[Caught]) -> list[str]:
    lines = ["| broken variant | breaks | caught | evidence |", "| --- | --- | --- | --- |"]
    for one in caught:
        evidence = one.evidence.strip()[:EVIDENCE_CHARS]
        lines.append(row([one.mutant, one.breaks, "yes" if one.caught else "**no**", evidence]))
    return lines


def section(report: Report) -> str:
    lines = claims_table(report.claims)
    if report.claims:
        lines += ["", f"One of them by itself: `{report.claims[0].command}`"]
    if report.caught:
        lines += ["", *caught_table(report.caught)]
    for reason in report.missing:
        lines += ["", f"Not run: {reason}"]
    return "\n".join(lines)


def page(ran: Sequence[Ran], date: str, cores: int) -> str:
    system = f"{platform.machine()}, {platform.system()} {platform.release()}"
    text = TEMPLATE.read_text()
    values = {
        "minutes": f"{sum(one.minutes for one in ran):.0f}",
        "machine": f"{cores} cores ({system})",
        "date": date,
        "summary": summary(ran),
        **{one.part: section(one.report) if one.report else "No report." for one in ran},
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text
