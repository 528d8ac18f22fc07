"""What the shell offers for a name: what exists here. A completion never fails, it offers less."""

from __future__ import annotations

from shmcast.errors import ShmcastError


def names(incomplete: str) -> list[str]:
    """Mailboxes, domains, and the mailboxes of each domain."""
    from shmcast.mailbox.survey import surveys  # late: only the shell asks for it

    try:
        found = surveys()
    except (ShmcastError, OSError):
        return []
    inner = [f"{one.name}/{box.name}" for one in found if not one.is_single for box in one.boxes]
    return _fitting([one.name for one in found] + inner, incomplete)


def domains(incomplete: str) -> list[str]:
    from shmcast.mailbox import server

    try:
        return _fitting(server.names(), incomplete)
    except OSError:
        return []


def _fitting(found: list[str], incomplete: str) -> list[str]:
    return sorted(name for name in found if name.startswith(incomplete))
