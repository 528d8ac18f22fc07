"""From runs to rows, and from rows to a page."""

from __future__ import annotations

from itertools import groupby
from statistics import median
from typing import Any

from bench.targets import Rows, verdicts

UNITS_LESS_IS_BETTER = {"ns", "% of a core", "page faults"}


def row_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One row out of all repetitions of one case."""
    first = runs[0]
    good = [run for run in runs if run["error"] is None]
    row = {name: first[name] for name in ("question", "case", "peer", "copies")}
    values = [run["value"] for run in good]
    row["unit"] = good[0]["unit"] if good else ""
    row["median"] = median(values) if values else None
    row["least"] = min(values, default=None)
    row["values"] = {run["repetition"]: run["value"] for run in good}
    row["most"] = max(values, default=None)
    row["worst_sample_ns"] = max(
        (run["worst_sample_ns"] for run in good if run["worst_sample_ns"] is not None), default=None
    )
    row["repetitions"] = len(good)
    row["sent"] = sum(run["sent"] for run in good)
    row["arrived"] = sum(run["arrived"] for run in good)
    row["error"] = next((run["error"] for run in runs if run["error"]), None)
    row["extra"] = good[-1]["extra"] if good else {}
    return row


def rows_of(runs: list[dict[str, Any]]) -> Rows:
    grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["question"], run["case"], run["peer"]), []).append(run)
    tables = list(dict.fromkeys(key[:2] for key in grouped))
    keys = sorted(grouped, key=lambda key: tables.index(key[:2]))
    return [row_of(grouped[key]) for key in keys]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "ns":
        return f"{value / 1000:,.2f} µs"
    if unit == "messages/s":
        return f"{value:,.0f}/s"
    return f"{value:,.1f}"


def _best(rows: Rows) -> dict[str, Any] | None:
    """The row of the best of the others, in one table."""
    others = [row for row in rows if row["copies"] == 0 and row["median"]]
    if not others:
        return None
    choose = min if rows[0]["unit"] in UNITS_LESS_IS_BETTER else max
    return choose(others, key=lambda row: float(row["median"]))


def _ratio(row: dict[str, Any], best: dict[str, Any] | None) -> str:
    """Of the medians; behind it the least and most within one repetition, in which everybody ran
    one after the other."""
    if best is None:
        return ""
    text = f"{row['median'] / best['median']:.2f}"
    mine, theirs = row["values"], best["values"]
    each = [mine[n] / theirs[n] for n in mine.keys() & theirs.keys() if theirs[n]]
    return f"{text} ({min(each):.2f}–{max(each):.2f})" if len(each) > 1 else text


def _table(rows: Rows) -> list[str]:
    best = _best(rows)
    lines = [
        "| | median | least | most | worst single | × best peer |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if row["median"] is None:
            why = row["error"].strip().splitlines()[-1]
            lines.append(f"| {row['peer']} | {why} | | | | |")
            continue
        unit = row["unit"]
        cells = [
            row["peer"],
            *(_figure(row[name], unit) for name in ("median", "least", "most")),
            _figure(row["worst_sample_ns"], "ns"),
            _ratio(row, best),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _counters(row: dict[str, Any]) -> list[str]:
    lines = []
    for who in ("sender", "receiver"):
        found = row["extra"].get(who, {})
        plain = ", ".join(
            f"{name} {count}" for name, count in found.items() if name[:6] != "system"
        )
        calls = found.get("system calls")
        shown = "" if calls is None else f"; system calls {calls}"
        lines.append(
            f"- {who}, {row['sent'] // max(row['repetitions'], 1)} messages: {plain}{shown}"
        )
    return [*lines, ""]


def page(machine: dict[str, Any], missing: dict[str, str], rows: Rows) -> str:
    """Markdown."""
    lines = ["# Benchmarks", "", *(f"- {name}: {value}" for name, value in machine.items())]
    lines += [f"- missing: {name} ({why})" for name, why in missing.items()] or ["- missing: none"]
    lines += ["", "## Targets", "", "Larger ratios are better; met from the wanted ratio on.", ""]
    lines += ["| target | wanted | ratio | against | |", "| --- | ---: | ---: | --- | --- |"]
    every = verdicts(rows)
    lines += [
        f"| {verdict.target} | {verdict.wanted:.1f} | {verdict.ratio:.2f} | {verdict.against} |"
        f" {verdict.word} |"
        for verdict in every
        if verdict.ratio is not None
    ]
    unknown = [verdict for verdict in every if verdict.ratio is None]
    if unknown:
        lines += ["", f"Not measured in this run: {len(unknown)} of {len(every)} targets."]
    lines.append("")
    for (question, case), group in groupby(rows, lambda row: (row["question"], row["case"])):
        members = list(group)
        lines += [f"## {question}: {case}", ""]
        if question == "counters":
            for row in members:
                lines += _counters(row)
        else:
            lines += _table(members)
    return "\n".join(lines)
