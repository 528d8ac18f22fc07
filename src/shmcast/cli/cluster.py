"""``shmcast up``, ``down``, ``status``: a cluster's replicas on this host."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.table import Table

from shmcast.cli.output import Code, complain, console, emit_json, progress
from shmcast.errors import MailboxLost
from shmcast.multicast.run.config import ClusterConfig, Replica, load
from shmcast.multicast.run.leftovers import lives_lost
from shmcast.multicast.run.life import PeerLife
from shmcast.multicast.run.run_directory import RunDirectory, living
from shmcast.multicast.run.supervisor import Supervisor, end_strays, log_to, stop

File = Annotated[Path, typer.Argument(help="cluster.toml", show_default=False)]
OnHost = Annotated[
    str | None, typer.Option("--host", help="Which host of the file this is.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Figures for machines.")]
_DETACH_TIMEOUT_S = 30.0
_DETACHED = "SHMCAST_DETACHED"


def this_host(config: ClusterConfig, given: str | None) -> str:
    """The host asked for, the only one, or the one whose address this machine has."""
    if given is not None:
        return config.host(given).name
    if len(config.hosts) == 1:
        return config.hosts[0].name
    own = {a.address for addresses in psutil.net_if_addrs().values() for a in addresses}
    found = [host.name for host in config.hosts if host.address in own]
    if len(found) == 1:
        return found[0]
    names = ", ".join(host.name for host in config.hosts)
    raise ValueError(f"{config.path}: which host is this? say --host with one of {names}")


def up(
    file: File,
    host: OnHost = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when the replicas have started.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Begin without the state of before, if that is lost.")
    ] = False,
) -> None:
    """Start the replicas that belong on this host, and start again what dies."""
    config = load(file)
    name = this_host(config, host)
    if RunDirectory(config, name).is_held():
        complain(f"{config.name} is up on {name} already; see: shmcast status {file}")
        return
    end_strays(RunDirectory(config, name).read())
    if not new and lives_lost(config):
        raise MailboxLost(
            f"{config.name}: its replicas have ended without `shmcast down`, all of them, as if "
            "their supervisor was killed: their state is lost, with what was acknowledged to "
            "clients. To begin without it: shmcast up --new"
        )
    if detach:
        _detach(config, name, new)
        return
    is_daemon = os.environ.pop(_DETACHED, "") == "1"
    say = log_to(RunDirectory(config, name).path / "log") if is_daemon else _say
    if not Supervisor(config, name, say=say, new=new).run():
        complain(f"{config.name} is up on {name} already; see: shmcast status {file}")


def _say(name: str, text: str) -> None:
    typer.echo(f"{name}: {text}", err=True)


def _detach(config: ClusterConfig, host: str, new: bool) -> None:
    command = [sys.executable, "-m", "shmcast.cli", "up", str(config.path), "--host", host]
    command += ["--new"] if new else []
    daemon = subprocess.Popen(
        command,
        env={**os.environ, _DETACHED: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    directory = RunDirectory(config, host)
    wanted = {replica.name for replica in config.on_host(host)}
    end = time.monotonic() + _DETACH_TIMEOUT_S
    with progress(f"starting {config.name} on {host}", len(wanted)) as show:
        while time.monotonic() < end and daemon.poll() is None:
            replicas = directory.replicas_in(directory.read())
            started = wanted & {n for n, r in replicas.items() if r.get("starts")}
            show(len(started))
            if started == wanted and directory.is_held():
                return
            time.sleep(0.02)
    raise TimeoutError(f"{config.name} did not start: try without --detach, and read what it says")


def down(file: File, host: OnHost = None) -> None:
    """End the replicas of this host, in order; nothing is left behind."""
    config = load(file)
    name = this_host(config, host)
    replicas, directory = config.on_host(name), RunDirectory(config, name)

    def ended() -> int:
        known = directory.replicas_in(directory.read())
        alive = [one for one in known.values() if living(one.get("process"))]
        return len(replicas) - len(alive)

    with progress(f"ending {config.name} on {name}", len(replicas), look=ended):
        was_up = stop(config, name)
    if not was_up:
        complain(f"{config.name} was not up on {name}")


def status_of(config: ClusterConfig, host: str) -> dict[str, Any]:
    """What is known on this host."""
    directory = RunDirectory(config, host)
    state = directory.read()
    supervisor = living(state.get("supervisor")) if directory.is_held() else None
    is_up = supervisor is not None
    known = directory.replicas_in(state)
    return {
        "cluster": config.name,
        "engine": config.engine,
        "host": host,
        "up": is_up,
        "supervisor": supervisor[0] if supervisor else None,
        "same_file": state.get("fingerprint") == config.fingerprint if is_up else None,
        "replicas": [
            {
                **_replica_status(replica.name, known.get(replica.name, {})),
                **_shown_by(config, replica),
            }
            for replica in config.on_host(host)
        ],
    }


def _shown_by(config: ClusterConfig, replica: Replica) -> dict[str, Any]:
    """What a replica's own record says. `eager` has neither: no process leads, and places in the
    shared memory say who is complete."""
    peer = PeerLife(config, replica.proc)
    life = peer.read()
    lives = life is not None and life.has_begun and not peer.is_dead(life)
    peer.close()
    if life is None or not lives:
        return {"life": None, "complete": None, "leader": None}
    leader = config.replicas[life.leader].name if life.leader >= 0 else None
    return {"life": life.incarnation, "complete": bool(life.complete), "leader": leader}


def _replica_status(name: str, known: dict[str, Any]) -> dict[str, Any]:
    process = living(known.get("process"))
    return {
        "name": name,
        "state": "up" if process else "failing" if known.get("failing") else "down",
        "pid": process[0] if process else None,
        "uptime_s": round(time.time() - process[1], 3) if process else None,
        "starts": known.get("starts", 0),
        "ended": known.get("ended") or None,
        "last_words": known.get("last_words", []),
        "trace": str(known.get("trace") or ""),
        "links": dict(links) if isinstance(links := known.get("links"), dict) else {},
    }


def status(file: File, host: OnHost = None, json: Json = False) -> None:
    """Which replicas of this host are up. Exit code 1 unless all are."""
    config = load(file)
    found = status_of(config, this_host(config, host))
    if json:
        emit_json(found)
    else:
        _print(found)
    if any(replica["state"] != "up" for replica in found["replicas"]):
        raise typer.Exit(Code.FAILED_VERDICT)


def _print(found: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("replica", "state", "pid", "uptime", "starts", "last end", "follows"):
        table.add_column(title, justify="left" if title in ("replica", "state") else "right")
    for one in found["replicas"]:
        uptime = "" if one["uptime_s"] is None else f"{one['uptime_s']:,.0f} s"
        style = "green" if one["state"] == "up" else "red"
        table.add_row(
            one["name"],
            f"[{style}]{one['state']}[/]",
            str(one["pid"] or ""),
            uptime,
            str(one["starts"]),
            one["ended"] or "",
            (one["leader"] or "") if one["complete"] is not False else "waits for a state",
        )
    console().print(table)
    for one in found["replicas"]:
        if one["state"] == "failing":
            complain(f"{one['name']} keeps failing: {' / '.join(one['last_words'])}")
        if one["trace"]:
            complain(f"{one['name']}: its record is not whole: {one['trace']}")
        for peer, what in one["links"].items():
            complain(f"{one['name']}: link with {peer}: {what}")
    if found["same_file"] is False:
        complain("it runs with another version of this file: shmcast down, then up")
