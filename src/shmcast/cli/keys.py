"""`shmcast keys`: a key pair for each host of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from shmcast.multicast.run.keys import make


def keys(
    hosts: Annotated[list[str], typer.Argument(help="Names of hosts, as in cluster.toml.")],
    directory: Annotated[Path, typer.Option("--dir", help="Where to put them.")] = Path("keys"),
    replace: Annotated[bool, typer.Option(help="Also where there is one already.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key pair per host. Copy every .public file to every host, and each .secret file to
    its own host only: who holds it is that host."""
    made = {host: make(directory, host, replace=replace) for host in hosts}
    if as_json:
        typer.echo(
            json.dumps({h: {"public": str(p), "secret": str(s)} for h, (p, s) in made.items()})
        )
        return
    for host, (public, secret) in made.items():
        typer.echo(f"{host}: {public} (to every host), {secret} (to {host} only)")
