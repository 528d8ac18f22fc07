"""``shmcast create``, ``ls``, ``rm``, ``gc``: what exists here, and cleaning up."""

from __future__ import annotations

import pwd
from typing import Annotated, Any

import typer
from rich.table import Table

from shmcast.cli import complete
from shmcast.cli.output import Code, complain, console, emit_json, exit_code, mebi, text_of
from shmcast.errors import ShmcastError
from shmcast.mailbox import server
from shmcast.mailbox.core import CopyState, Protocol
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.mailbox import Mailbox
from shmcast.mailbox.survey import Survey, is_abandoned, survey, surveys, users
from shmcast.realtime import board

Json = Annotated[bool, typer.Option("--json", help="Figures for machines.")]


def create(
    name: Annotated[str, typer.Argument(help="Letters, digits, '_', '.' and '-'.")],
    *,
    copies: Annotated[int, typer.Option(help="Survives the loss of all but one.")] = 3,
    message_size: Annotated[int, typer.Option(help="Largest message, in bytes.")] = 4096,
    capacity: Annotated[int, typer.Option(help="Messages per sender.")] = 256,
    protocol: Annotated[Protocol, typer.Option()] = Protocol.EAGER,
    mode: Annotated[str, typer.Option(help="Permission bits, octal.")] = "600",
    group: Annotated[str | None, typer.Option(help="Group of the segments.")] = None,
) -> None:
    """Make a mailbox that stays until it is removed."""
    Mailbox.create(
        name,
        copies=copies,
        message_size=message_size,
        capacity=capacity,
        protocol=protocol,
        mode=int(mode, 8),
        group=group,
    ).close()


def copies_text(copies: list[CopyState]) -> str:
    return "".join("●" if state is CopyState.INTACT else "○" for state in copies)


def _owner(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def as_json(found: Survey, mapped: dict[tuple[int, int, int], set[int]]) -> dict[str, Any]:
    pids: set[int] = set()
    for segment in found.segments:
        pids |= mapped.get(segment.inode, set())
    return {
        "name": found.name,
        "mailboxes": [
            {
                "name": box.name,
                "protocol": box.protocol,
                "message_size": box.message_size,
                "capacity": box.capacity,
                "senders": [s.pid for s in box.stats.senders if s.pid],
                "receivers": [r.pid for r in box.stats.receivers],
            }
            for box in found.boxes
        ],
        "copies": [state.value for state in found.copies],
        "segments": [segment.serial for segment in found.segments],
        "size_bytes": found.size_bytes,
        "mode": f"{found.segments[0].mode:o}",
        "owner": _owner(found.segments[0].user_id),
        "mapped_by": sorted(pids),
        "error": found.error,
    }


def _table(found: list[Survey]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("name", "protocol", "copies", "senders", "receivers", "size", "owner", "mode"):
        right = title in ("senders", "receivers", "size")
        table.add_column(title, justify="right" if right else "left")
    names = [d.name if d.is_single else f"{d.name}/{b.name}" for d in found for b in d.boxes]
    table.columns[0].min_width = max(map(len, names), default=0)  # a name is there to be copied
    for domain in found:
        owner, mode = _owner(domain.segments[0].user_id), f"{domain.segments[0].mode:o}"
        size = mebi(domain.size_bytes)
        if domain.error:
            table.add_row(domain.name, f"[red]{domain.error}[/]", "", "", "", size, owner, mode)
            continue
        copies = copies_text(domain.copies)
        if not domain.boxes:
            table.add_row(f"{domain.name}/", "", copies, "", "", size, owner, mode)
        for box in domain.boxes:
            name = domain.name if domain.is_single else f"{domain.name}/{box.name}"
            senders = str(sum(1 for s in box.stats.senders if s.pid))
            receivers = str(len(box.stats.receivers))
            table.add_row(name, box.protocol, copies, senders, receivers, size, owner, mode)
    return table


def ls(json: Json = False) -> None:
    """What exists on this host: mailboxes, copies (● intact, ○ failed), members, sizes."""
    found = surveys()
    if json:
        mapped = users()
        emit_json([as_json(domain, mapped) for domain in found])
    elif found:
        console().print(_table(found))
    else:
        complain("there is no mailbox here; make one with: shmcast create NAME")


def rm(
    names: Annotated[
        list[str],
        typer.Argument(
            help="A mailbox, a domain, or domain/mailbox.", autocompletion=complete.names
        ),
    ],
    force: Annotated[bool, typer.Option("--force", "-f", help="Also while in use.")] = False,
) -> None:
    """Remove mailboxes. Their members get MailboxLost at their next step."""
    worst = Code.OK
    for name in names:
        try:
            members = _members(name)
            if members and not force:
                server.sweep(name.partition("/")[0], replace=False)  # the dead are no users
                members = _members(name)
            if members and not force:
                pids = ", ".join(map(str, sorted(members)))
                raise ValueError(f"{name}: in use by process {pids}; say --force to remove it")
            Mailbox.remove(name)
        except (ShmcastError, OSError, ValueError) as error:
            complain(text_of(error))
            worst = exit_code(error)
    raise typer.Exit(worst)


def _members(name: str) -> set[int]:
    """The processes that hold a place in this mailbox, or in any one of this domain."""
    domain, _, inner = name.partition("/")
    here = [box for box in survey(domain).boxes if not inner or box.name == inner]
    receivers = {r.pid for box in here for r in box.stats.receivers}
    return receivers | {s.pid for box in here for s in box.stats.senders} - {0}


def gc(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Default: every domain here.", autocompletion=complete.domains),
    ] = None,
    replace: Annotated[bool, typer.Option(help="Replace failed copies.")] = True,
    abandoned: Annotated[
        bool, typer.Option("--abandoned", help="Also remove what no visible process has mapped.")
    ] = False,
    json: Json = False,
) -> None:
    """Clean up after the dead: free their places, replace failed copies."""
    mapped = users() if abandoned else {}
    reports: list[dict[str, Any]] = []
    for name in names or server.names():
        if abandoned and is_abandoned(survey(name), mapped):
            Domain.remove(name)
            reports.append({"name": name, "removed": True, "freed": 0, "replaced": 0, "error": ""})
            continue
        done = server.sweep(name, replace=replace)
        reports.append({"removed": False, **done._asdict()})
    reports += [
        {"name": orphan, "removed": True, "freed": 0, "replaced": 0, "error": ""}
        for orphan in ([] if names else board.remove_orphans())
    ]
    if json:
        emit_json(reports)
    else:
        for report in reports:
            typer.echo(_swept(report))
    if any(report["error"] for report in reports):
        raise typer.Exit(Code.FAILED_VERDICT)


def _swept(report: dict[str, Any]) -> str:
    name = report["name"]
    if report["error"]:
        return f"{name}: {report['error']}; or remove it: shmcast rm {name}"
    if report["removed"]:
        return f"{name}: nobody used it; removed"
    return f"{name}: {report['freed']} places freed, {report['replaced']} copies replaced"
