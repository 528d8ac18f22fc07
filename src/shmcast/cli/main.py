"""The program ``shmcast``: puts the families of commands together.

A command's module is imported when it is called: a line of a shell script should not wait for what
only the demo needs.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Annotated, Any

import typer

import shmcast
from shmcast.cli.output import Family

_EPILOG = (
    "Exit codes: 0 fine, 1 a verdict or check failed, 2 usage, 3 not there, 4 no permission, "
    "5 lost or damaged, 6 not in time, 7 rejected, 8 no space in /dev/shm, 9 exists already. "
    "Completion of commands in your shell: shmcast --install-completion."
)

# In the order of --help: a function, or a family of commands.
COMMANDS = {
    "demo": "shmcast.cli.demo.command:demo",
    "create": "shmcast.cli.manage:create",
    "ls": "shmcast.cli.manage:ls",
    "rm": "shmcast.cli.manage:rm",
    "gc": "shmcast.cli.manage:gc",
    "doctor": "shmcast.cli.doctor:doctor",
    "top": "shmcast.cli.top:top",
    "calibrate": "shmcast.cli.calibrate:calibrate",
    "bench": "shmcast.cli.bench:app",
    "send": "shmcast.cli.shell:send",
    "recv": "shmcast.cli.shell:recv",
    "sim": "shmcast.cli.sim.command:sim",
    "verify": "shmcast.cli.verify:verify",
    "report": "shmcast.cli.report:report",
    "up": "shmcast.cli.cluster:up",
    "down": "shmcast.cli.cluster:down",
    "status": "shmcast.cli.cluster:status",
    "keys": "shmcast.cli.keys:keys",
    "inject": "shmcast.cli.inject:app",
    "watch": "shmcast.cli.watch:watch",
}


class Program(Family):
    """Knows its commands by name; builds one when somebody asks for it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _built(cmd_name)
        return self.commands[cmd_name]


def _built(name: str) -> Any:
    module, _, attribute = COMMANDS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, typer.Typer):
        family = typer.main.get_command(found)
        family.name = name
        return family
    alone = typer.Typer(add_completion=False)
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="shmcast",
    cls=Program,
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


def main() -> None:
    app()
