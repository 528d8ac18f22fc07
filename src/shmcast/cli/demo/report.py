"""The demo's report: its verdict, then both systems as recorded runs, in one HTML file."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shmcast.cli.demo.closing import KEPT, KINDS, words
from shmcast.cli.demo.record import Story
from shmcast.cli.demo.verification import GET_REPORT, MEMORY, Verification, run_info
from shmcast.cli.output import millis


def write_report(
    path: Path, result: dict[str, Any], stories: Sequence[Story], found: Verification
) -> None:
    """Says in `result` where it is, or why there is none."""
    if not all(map(importlib.util.find_spec, ("jinja2", "pyarrow"))):
        result["notes"].append(f"no report file: that needs {GET_REPORT}")
        return
    try:
        path.write_text(_page(result, stories, found), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        result["notes"].append(f"no report file: {path}: {reason}; say --report FILE")
        return
    result["report"] = str(path.absolute())


def _page(result: dict[str, Any], stories: Sequence[Story], found: Verification) -> str:
    from shmcast.multicast.traces.reader import Record
    from shmcast.pipeline.report.page import Opening, analyse, html, tile
    from shmcast.pipeline.report.verdict import judged

    reports = [
        analyse(Record(run_info(story), story.trace), judged(found.verdicts[story.name], MEMORY))
        for story in stories
    ]
    late = {True: "", False: "bad"}
    opening = Opening(
        title="Demo: mailboxes and a cluster under fire",
        facts=" · ".join(
            (result["verified"],
             "two mailboxes in three copies", "two groups of three replicas")
        ),
        word="passed" if result["verdict"] == KEPT else "violated",
        sentence=words(result),
        tiles=(
            tile("messages sent", f"{result['sent']:,}", _rejected(result)),
            tile("delivered", f"{result['delivered']:,}", "to all receivers together"),
            *(tile(kind, str(result[kind]), "", "bad" if result[kind] else "") for kind in KINDS),
            *(
                tile(
                    f"worst {what}",
                    millis(result[f"{what}_worst_ms"] * 1e6),
                    f"bound {millis(result[f'{what}_bound_ms'] * 1e6)}",
                    late[result[f"{what}_worst_ms"] <= result[f"{what}_bound_ms"]],
                )
                for what in ("send", "delivery")
            ),
        ),
        table_title="What was done, one after the other",
        heads=("act", "outcome", "longest pause of a receiver"),
        rows=tuple(
            (act["title"], act["outcome"], millis(act["pause_ms"] * 1e6))
            for act in result["acts"]
        ),
        notes=(*result["problems"], *result["late"], *result["notes"]),
    )  # fmt: skip
    return html(*reports, opening=opening)


def _rejected(result: dict[str, Any]) -> str:
    return f"{result['rejected']:,} rejected, their senders know" if result["rejected"] else ""
