"""Figures of every mailbox here, sampled from shared memory; rates from two samples.

Handles stay open from one sample to the next: opening maps memory, reading does not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from shmcast.errors import ShmcastError
from shmcast.mailbox import server
from shmcast.mailbox.core import Closing, CopyState
from shmcast.mailbox.domain import Domain
from shmcast.mailbox.records import MailboxStats


@dataclass(frozen=True, slots=True)
class Row:
    """One mailbox at one moment. What concerns senders is the whole domain's."""

    name: str
    protocol: str
    copies: list[CopyState]
    senders: int
    receivers: int
    sent: int
    received: int
    rejected: int
    depth: int  # of the receiver that is furthest behind
    send_worst_ns: int
    send_bound_ns: int
    delivery_worst_ns: int
    delivery_bound_ns: int
    sent_per_s: float = 0.0
    received_per_s: float = 0.0

    @property
    def intact(self) -> int:
        return sum(1 for state in self.copies if state is CopyState.INTACT)

    def as_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        values["copies"] = [state.value for state in self.copies]
        return values


def row(name: str, protocol: str, stats: MailboxStats) -> Row:
    return Row(
        name=name,
        protocol=protocol,
        copies=stats.copies,
        senders=sum(1 for s in stats.senders if s.pid),
        receivers=len(stats.receivers),
        sent=sum(s.messages for s in stats.senders),
        received=sum(r.messages for r in stats.receivers),
        rejected=sum(s.rejected for s in stats.senders),
        depth=max((r.depth for r in stats.receivers), default=0),
        send_worst_ns=max((s.worst_ns for s in stats.senders), default=0),
        send_bound_ns=stats.send_bound_ns,
        delivery_worst_ns=max((r.worst_ns for r in stats.receivers), default=0),
        # Beyond it the core counts late: `crash` and `timing` deliver nothing before the latency.
        delivery_bound_ns=stats.latency_bound_ns + stats.receive_bound_ns,
    )


class Watch(Closing):
    """Everything that exists here, again and again."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._domains: dict[str, Domain] = {}
        self._last: dict[str, tuple[float, Row]] = {}
        self.errors: dict[str, str] = {}  # domains that cannot be read

    def sample(self) -> list[Row]:
        present = set(self._names or server.names())
        for gone in set(self._domains) - present:
            self._domains.pop(gone).close()
        self.errors = {}
        rows: list[Row] = []
        for name in sorted(present):
            try:
                rows += self._sample_domain(name)
            except (ShmcastError, OSError) as error:
                self.errors[name] = str(error)
                if name in self._domains:
                    self._domains.pop(name).close()
        return [self._with_rates(found) for found in rows]

    def _sample_domain(self, name: str) -> list[Row]:
        if name not in self._domains:
            self._domains[name] = Domain.open(name, timeout=0)  # the next picture tries again
        domain = self._domains[name]
        rows = []
        for inner in domain.mailboxes():
            box = domain.mailbox(inner)
            shown = name if inner == name else f"{name}/{inner}"
            rows.append(row(shown, box.protocol.value, box.stats()))
        return rows

    def _with_rates(self, found: Row) -> Row:
        now = time.monotonic()
        then, earlier = self._last.get(found.name, (now, found))
        self._last[found.name] = (now, found)
        elapsed_s = now - then
        if elapsed_s <= 0:
            return found
        # A receiver that leaves takes its count with it, so a rate may not go below nothing.
        sent_per_s = max(0.0, (found.sent - earlier.sent) / elapsed_s)
        received_per_s = max(0.0, (found.received - earlier.received) / elapsed_s)
        values = {name: getattr(found, name) for name in found.__slots__}
        return Row(**{**values, "sent_per_s": sent_per_s, "received_per_s": received_per_s})

    def close(self) -> None:
        for domain in self._domains.values():
            domain.close()
        self._domains.clear()
