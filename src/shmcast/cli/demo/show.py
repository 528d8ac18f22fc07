"""What the audience sees: a live picture in a terminal, lines elsewhere, nothing for machines."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol, Self

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shmcast.cli.output import millis
from shmcast.cli.top import plain, view
from shmcast.cli.watch import Row

_PLAIN_EVERY_S = 1.0


class Audience(Protocol):
    def announce(self, title: str) -> None: ...
    def tell(self, outcome: str) -> None: ...
    def picture(self, rows: list[Row]) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Silence:
    """For --json."""

    def announce(self, title: str) -> None:
        pass

    def tell(self, outcome: str) -> None:
        pass

    def picture(self, rows: list[Row]) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class Lines(Silence):
    """Without a terminal."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()

    def _say(self, text: str) -> None:
        typer.echo(f"{time.monotonic() - self._start:6.1f} s  {text}")

    def announce(self, title: str) -> None:
        self._say(f"▶ {title}")

    def tell(self, outcome: str) -> None:
        self._say(f"  {outcome}")

    def picture(self, rows: list[Row]) -> None:
        if time.monotonic() - self._last >= _PLAIN_EVERY_S:
            self._last = time.monotonic()
            for row in rows:
                self._say(f"    {plain(row)}")


class Picture(Silence):
    """In a terminal."""

    def __init__(self, out: Console, acts: int) -> None:
        self._live = Live(console=out, refresh_per_second=10, transient=False)
        self._acts_to_come = acts
        self._acts: list[tuple[str, str]] = []
        self._rows: list[Row] = []

    def announce(self, title: str) -> None:
        self._acts.append((title, ""))
        self._draw()

    def tell(self, outcome: str) -> None:
        self._acts[-1] = (self._acts[-1][0], outcome)
        self._draw()

    def picture(self, rows: list[Row]) -> None:
        self._rows = rows
        self._draw()

    def _draw(self) -> None:
        lines = []
        for number, (title, outcome) in enumerate(self._acts, 1):
            lines.append(Text.assemble((f"{number}/{self._acts_to_come} ", "dim"), (title, "bold")))
            if outcome:
                lines.append(Text(f"    {outcome}", style="green"))
        self._live.update(Group(*lines, Text(), view(self._rows, {}, len(self._rows) + 4)))

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)


def closing_words(result: dict[str, Any], out: Console) -> None:
    out.print()
    pauses = Table(box=None, pad_edge=False)
    pauses.add_column("fault")
    pauses.add_column("longest pause of a receiver", justify="right")
    for act in result["acts"]:
        pauses.add_row(act["title"], millis(act["pause_ms"] * 1e6))
    out.print(pauses)
    out.print()
    out.print(
        f"sent {result['sent']:,}   delivered {result['delivered']:,}   "
        f"rejected {result['rejected']:,} (their senders know)"
    )
    for kind in ("lost", "reordered", "doubled", "phantom"):
        style = "red" if result[kind] else "green"
        out.print(f"[{style}]{kind} {result[kind]}[/]", end="   ")
    out.print()
    for what in ("send", "delivery"):
        worst, bound = result[f"{what}_worst_ms"], result[f"{what}_bound_ms"]
        style = "red" if worst > bound else "green"
        figures = f"[{style}]{millis(worst * 1e6)}[/] against its bound {millis(bound * 1e6)}"
        out.print(f"worst {what} {figures}")
    for problem in result["problems"]:
        out.print(f"[red]{problem}[/]")
    fine = result["verdict"] == "ok"
    text = "every guarantee was kept" if fine else "a guarantee was broken"
    out.print(f"[bold {'green' if fine else 'red'}]verdict: {text}[/]")
