"""``shmcast inject``: faults on purpose, one by one or from a plan."""

from __future__ import annotations

import enum
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from shmcast.cli import complete
from shmcast.cli import plan as plans
from shmcast.cli.output import Family
from shmcast.mailbox import clock_fault
from shmcast.mailbox.faults import Kill

app = typer.Typer(
    add_completion=False,
    cls=Family,
    no_args_is_help=True,
    help="Faults on purpose: copies, processes, clocks, or a plan.",
)


class ProcessFault(enum.StrEnum):
    KILL = "kill"
    STOP = "stop"
    CONTINUE = "continue"


@app.command()
def copy(
    name: Annotated[
        str, typer.Argument(help="A mailbox or a domain.", autocompletion=complete.domains)
    ],
    number: Annotated[int, typer.Argument(help="Which copy, from 0.")],
    how: Annotated[Kill, typer.Option(help="unlink only takes its name away.")] = Kill.TRUNCATE,
    seed: Annotated[int, typer.Option(help="Chooses the bytes of corrupt.")] = 0,
) -> None:
    """Kill one copy under everybody's feet."""
    typer.echo(plans.carry_out(plans.Fault(0, how.value, name, number, seed)))


@app.command()
def process(
    pid: Annotated[int, typer.Argument(help="A member of a mailbox: see shmcast ls --json.")],
    how: Annotated[ProcessFault, typer.Option()] = ProcessFault.KILL,
) -> None:
    """Kill, stop or continue a sender or receiver; others are refused."""
    typer.echo(plans.carry_out(plans.Fault(0, how.value, role="pid", number=pid)))


@app.command()
def clock(
    target: Annotated[
        list[str], typer.Argument(help="A process id, or a command to start, after --.")
    ],
    offset: Annotated[float, typer.Option(help="Seconds ahead; negative: behind.")] = 0.0,
    drift: Annotated[float, typer.Option(help="Seconds gained per second.")] = 0.0,
) -> None:
    """Skew the protocol clock of a process: 0 and 0 make it right again.

    A running process must allow it: it was started with this command, or has called
    shmcast.mailbox.faults.allow_skew(). Messages keep their order while clocks differ by less than
    the mailbox's epsilon; beyond it the promises end, and receivers count violations. A sender
    never stamps earlier than before, so a clock set back shows when it has caught up, or with the
    next sender.
    """
    if len(target) == 1 and target[0].isdecimal():
        fault = plans.Fault(
            0, plans.SKEW, role="pid", number=int(target[0]), offset_s=offset, drift=drift
        )
        typer.echo(plans.carry_out(fault))
        return
    clock_fault.as_words(offset, drift)  # what cannot be is refused here
    os.environ[clock_fault.VARIABLE] = f"{offset!r},{drift!r}"
    try:
        os.execvp(target[0], target)
    except FileNotFoundError:
        raise FileNotFoundError(f"{target[0]}: no such command") from None


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(help="TOML with [[fault]] entries: at_s, do, …")],
    check: Annotated[bool, typer.Option("--check", help="Only read it.")] = False,
) -> None:
    """Carry out the faults of a plan at their times."""
    faults = plans.load(file)
    start = time.monotonic()
    for fault in faults:
        if check:
            typer.echo(f"{fault.at_s:8.3f} s  {fault.describe()}")
            continue
        time.sleep(max(0.0, start + fault.at_s - time.monotonic()))
        typer.echo(f"{time.monotonic() - start:8.3f} s  {plans.carry_out(fault)}")
