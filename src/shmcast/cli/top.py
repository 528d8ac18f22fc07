"""The command ``shmcast top``: figures of all mailboxes, as a picture, lines or JSON."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from shmcast.cli import complete
from shmcast.cli.output import Code, can_draw, console, emit_json
from shmcast.cli.sampling import Row, Watch
from shmcast.cli.screen import Keyboard, Screen
from shmcast.cli.top_view import Sort, State, picture, plain, selected

_WIDE = 160  # nobody has to scroll in a file
_ONCE_S = 0.25  # long enough for a rate


def _as_json(rows: list[Row], watch: Watch) -> dict[str, object]:
    return {"mailboxes": [row.as_json() for row in rows], "errors": watch.errors}


def _once(watch: Watch, state: State, json: bool, out: Console) -> None:
    watch.sample()
    time.sleep(_ONCE_S)
    rows = selected(watch.sample(), state)
    if json:
        emit_json(_as_json(rows, watch))
    else:
        width = out.width if out.is_terminal else _WIDE
        out.print(picture(rows, watch.errors, state, width, None), width=width, crop=False)


def _live(watch: Watch, state: State, interval: float, out: Console) -> None:
    with Screen(out) as screen, Keyboard() as keyboard:
        rows = watch.sample()
        due = time.monotonic() + interval
        while not state.quit:
            screen.draw(picture(rows, watch.errors, state, out.width, out.height))
            for key in keyboard.wait(max(0.0, due - time.monotonic())):
                state.press(key, len(selected(rows, state)), out.height)
            if time.monotonic() >= due:
                rows = watch.sample()
                due = time.monotonic() + interval


def _lines(watch: Watch, state: State, interval: float, json: bool) -> None:
    watch.sample()
    while True:
        time.sleep(interval)
        rows = selected(watch.sample(), state)
        if json:
            emit_json(_as_json(rows, watch), indent=None)
            continue
        for row in rows:
            typer.echo(plain(row))


def top(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Domains; default: all.", autocompletion=complete.domains),
    ] = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="One picture, then stop.")] = False,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two.")] = 1.0,
    sort: Annotated[Sort, typer.Option(help="Which come first.")] = Sort.rate,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="TEXT", help="Only names that contain it.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One object per picture.")] = False,
) -> None:
    """Live view: rates, depth, copies, worst completion times against bounds.

    Read from shared memory without slowing anybody. Sender figures are the domain's. Keys: arrows
    and pages move, s sorts, r reverses, / filters, q quits.
    """
    out = console()
    state = State(sort, filter_)
    with Watch(*(names or ())) as watch:
        try:
            if once:
                _once(watch, state, json, out)
            elif can_draw(out) and not json:
                _live(watch, state, interval, out)
            else:
                _lines(watch, state, interval, json)
        except KeyboardInterrupt:
            raise typer.Exit(Code.OK) from None
        if names and watch.errors:
            raise typer.Exit(Code.NOT_THERE)
