"""The program ``shmcast``: puts the families of commands together."""

from __future__ import annotations

from typing import Annotated

import typer

import shmcast
from shmcast.cli import bounds_bench, calibrate, doctor, inject, manage, shell, top
from shmcast.cli.demo import command as demo
from shmcast.cli.output import Family
from shmcast.cli.sim import command as sim

_EPILOG = (
    "Exit codes: 0 fine, 1 a verdict or check failed, 2 usage, 3 not there, 4 no permission, "
    "5 lost or damaged, 6 not in time, 7 rejected, 8 no space in /dev/shm, 9 exists already."
)

app = typer.Typer(
    name="shmcast",
    cls=Family,
    no_args_is_help=True,
    help="Replicated mailboxes in shared memory: ordered, fault-tolerant, with time bounds.",
    epilog=_EPILOG,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shmcast {shmcast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass


app.command()(demo.demo)
app.command()(manage.create)
app.command()(manage.ls)
app.command()(manage.rm)
app.command()(manage.gc)
app.command()(doctor.doctor)
app.command()(top.top)
app.command()(calibrate.calibrate)
app.add_typer(bounds_bench.app, name="bench")
app.command()(shell.send)
app.command()(shell.recv)
app.command()(sim.sim)
app.add_typer(inject.app, name="inject")


def main() -> None:
    app()
