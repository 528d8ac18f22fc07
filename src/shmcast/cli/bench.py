"""``shmcast bench``: bounds of this machine, and speed against the peers one would use instead.

The peers live in bench/ of the source tree, with a C program that needs a compiler and results
that belong beside the code that they measured; none of that is installed. So these commands run
where the tree is: in it, or with an editable install of it.
"""

from __future__ import annotations

import json as json_module
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

import shmcast
from shmcast.cli import bounds_bench
from shmcast.cli.output import Code, complain, emit_json

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Measure: bounds, and speed against peers."
)
app.command()(bounds_bench.bounds)

Quick = Annotated[bool, typer.Option("--quick", help="A first look: seconds, once each.")]
Repetitions = Annotated[
    int | None, typer.Option(min=1, help="For the spread. Default: 5, with --quick 1.")
]
Peers = Annotated[
    list[str] | None, typer.Option("--peer", help="Part of a name; repeatable. Default: all.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep JSON, raw samples, tables and plots there.")
]
Json = Annotated[bool, typer.Option("--json", help="Rows and missing peers, for machines.")]


def source_tree() -> Path:
    """Where bench/ is."""
    here = Path.cwd()
    installed_from = Path(shmcast.__file__).resolve().parents[2]
    for place in (here, *here.parents, installed_from):
        if (place / "bench" / "run.py").is_file() and (place / "csrc" / "api.h").is_file():
            return place
    raise FileNotFoundError(
        "figures against peers are measured in shmcast's source tree, which is not here (no "
        "bench/run.py): git clone it, run `make bench` there; `shmcast bench bounds` works "
        "everywhere"
    )


def _topic(name: str, questions: list[str], text: str) -> None:
    """Makes the command `name`, which asks these questions of bench/questions/."""

    @app.command(name, help=text)
    def ask(
        *, quick: Quick = False, repetitions: Repetitions = None, peers: Peers = None,
        out: Out = None, json: Json = False,
    ) -> None:  # fmt: skip
        arguments = ["--only", *questions, *(["--quick"] if quick else [])]
        arguments += ["--repetitions", str(repetitions)] if repetitions else []
        arguments += ["--peers", *peers, "shmcast"] if peers else []
        _measure(arguments, out=out, json=json)


def _measure(arguments: list[str], *, out: Path | None, json: bool) -> None:
    tree = source_tree()
    with tempfile.TemporaryDirectory(prefix="shmcast-bench-") as made:
        folder = (out or Path(made)).absolute()
        command = [sys.executable, "-m", "bench.run", "--out", str(folder), *arguments]
        complain("measuring: nothing else should run here now")
        done = subprocess.run(  # it says on stderr how far it is
            command, cwd=tree, stdout=subprocess.DEVNULL, check=False,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )  # fmt: skip
        if done.returncode:
            complain("the measurement failed, as it says above")
            raise typer.Exit(Code.FAILED_VERDICT)
        written = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        content = json_module.loads(written.read_text(encoding="utf-8"))
        if json:
            emit_json({name: content[name] for name in ("command", "machine", "missing", "rows")})
        else:
            typer.echo(written.with_suffix(".md").read_text(encoding="utf-8"))
        for name, why in content["missing"].items():
            complain(f"not measured: {name} ({why}): pip install 'shmcast[bench]'")
        if out is not None:
            complain(f"written: {written.with_suffix('')}.*")


_topic(
    "latency",
    ["core", "roundtrip"],
    "There and back: blocking and spinning, beside the bare cache line between two cores.",
)
_topic(
    "throughput",
    ["throughput", "frames"],
    "Messages a second: one to one, three to one, 4 KiB, frames of 1 MiB in place.",
)
_topic(
    "multicast",
    ["multicast"],
    "One to three receivers, and one to three groups in one order, all or nothing.",
)
