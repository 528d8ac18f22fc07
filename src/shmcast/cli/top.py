"""``shmcast top``: a live view of the mailboxes here."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shmcast.cli.manage import copies_text
from shmcast.cli.output import Code, console, emit_json, millis
from shmcast.cli.watch import Row, Watch

_HEADER_LINES = 4
_NAME_WIDTH = 20
_ONCE_S = 0.25  # long enough for a rate
_COLUMNS = (
    ("mailbox", "left"),
    ("copies", "left"),
    ("tx", "right"),
    ("rx", "right"),
    ("sent/s", "right"),
    ("recv/s", "right"),
    ("depth", "right"),
    ("rej", "right"),
    ("send/bound", "right"),  # the worst ever, against what is promised
    ("deliv/bound", "right"),
)


def _against(worst_ns: int, bound_ns: int) -> Text:
    style = "red" if worst_ns > bound_ns else ""
    return Text(f"{millis(worst_ns)}/{millis(bound_ns)}".replace(" ", ""), style=style)


def _cells(row: Row) -> list[str | Text]:
    lost = row.intact < len(row.copies)
    return [
        row.name,
        Text(copies_text(row.copies), style="red" if lost else "green"),
        str(row.senders),
        str(row.receivers),
        f"{row.sent_per_s:,.0f}",
        f"{row.received_per_s:,.0f}",
        f"{row.depth:,}",
        str(row.rejected),
        _against(row.send_worst_ns, row.send_bound_ns),
        _against(row.delivery_worst_ns, row.delivery_bound_ns),
    ]


def _sorted(rows: list[Row]) -> list[Row]:
    """The busy ones first; a stable order among the idle, so that lines do not dance."""
    return sorted(rows, key=lambda row: (-round(row.sent_per_s, -2), row.name))


def view(rows: list[Row], errors: dict[str, str], lines: int) -> Group:
    table = Table(box=None, pad_edge=False, expand=False)
    for title, side in _COLUMNS:
        is_name = title == "mailbox"  # the last to be cut on a narrow screen
        table.add_column(
            title,
            justify="right" if side == "right" else "left",
            no_wrap=True,
            min_width=_NAME_WIDTH if is_name else None,
        )
    room = max(1, lines - _HEADER_LINES - len(errors))
    for row in _sorted(rows)[:room]:
        table.add_row(*_cells(row))
    notes = [Text(f"{name}: {text}", style="red") for name, text in errors.items()]
    if len(rows) > room:
        notes.append(Text(f"… and {len(rows) - room} more", style="dim"))
    if not rows and not errors:
        notes.append(Text("there is no mailbox here; make one with: shmcast create NAME"))
    return Group(table, *notes)


def plain(row: Row) -> str:
    """One line per mailbox, for pipes and logs."""
    return (
        (
            f"{row.name} copies={row.intact}/{len(row.copies)} tx={row.senders} rx={row.receivers} "
            f"sent/s={row.sent_per_s:.0f} recv/s={row.received_per_s:.0f} depth={row.depth} "
            f"rejected={row.rejected} "
            f"send={millis(row.send_worst_ns)}/{millis(row.send_bound_ns)} "
            f"delivery={millis(row.delivery_worst_ns)}/{millis(row.delivery_bound_ns)}"
        )
        .replace(" µs", "µs")
        .replace(" ms", "ms")
    )


def _as_json(rows: list[Row], watch: Watch) -> dict[str, object]:
    return {"mailboxes": [row.as_json() for row in rows], "errors": watch.errors}


def _once(watch: Watch, json: bool, out: Console) -> None:
    watch.sample()
    time.sleep(_ONCE_S)
    rows = watch.sample()
    if json:
        emit_json(_as_json(rows, watch))
    else:
        out.print(view(rows, watch.errors, len(rows) + len(watch.errors) + _HEADER_LINES))


def _live(watch: Watch, interval: float, out: Console) -> None:
    with Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view(watch.sample(), watch.errors, out.height), refresh=True)
            time.sleep(interval)


def _lines(watch: Watch, interval: float, json: bool) -> None:
    watch.sample()
    while True:
        time.sleep(interval)
        rows = watch.sample()
        if json:
            emit_json(_as_json(rows, watch), indent=None)
            continue
        for row in _sorted(rows):
            typer.echo(plain(row))


def top(
    names: Annotated[list[str] | None, typer.Argument(help="Domains; default: all.")] = None,
    once: Annotated[bool, typer.Option("--once", help="One picture, then stop.")] = False,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two.")] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="One object per picture.")] = False,
) -> None:
    """Live view: rates, depth, copies, worst completion times against bounds.

    Read from shared memory without slowing anybody. Sender figures are the domain's.
    """
    out = console()
    with Watch(*(names or ())) as watch:
        try:
            if once:
                _once(watch, json, out)
            elif out.is_terminal and not json:
                _live(watch, interval, out)
            else:
                _lines(watch, interval, json)
        except KeyboardInterrupt:
            raise typer.Exit(Code.OK) from None
        if names and watch.errors:
            raise typer.Exit(Code.NOT_THERE)
