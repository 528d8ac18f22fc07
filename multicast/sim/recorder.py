"""Writes trace events: all of them, those of the application only, or into a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from shmcast.multicast.checks.trace import Trace, TraceEvent
from shmcast.multicast.protocols.core import (
    Message,
    MessageId,
    ProcessId,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.node import Node

Sink: TypeAlias = Callable[[TraceEvent], None]
Recording: TypeAlias = Literal["full", "parts", "application"] | Sink
"""full: transmissions too; parts: of those, the first of each process about the same messages,
which is what genuineness needs; application: none of them; a sink gets the latter, and nothing
is kept."""


class Recorder:
    def __init__(self, topology: Topology, recording: Recording) -> None:
        self.trace = Trace(topology.groups, topology.clients)
        self.transmissions = recording in ("full", "parts")
        self.parts: set[tuple[ProcessId, tuple[MessageId, ...]]] | None = (
            set() if recording == "parts" else None
        )
        self.sink: Sink = recording if callable(recording) else self.trace.events.append
        self.count = 0

    def event(
        self,
        kind: str,
        node: Node,
        now: int,
        message: Message | None = None,
        *,
        layer: str = "",
        ts: Timestamp | None = None,
        detail: str = "",
    ) -> None:
        node.lseq += 1
        self.sink(
            TraceEvent(
                self.count,
                now,
                node.local(now),
                node.pid,
                node.incarnation,
                node.lseq,
                kind,
                layer,
                None if message is None else message.id,
                () if message is None else message.dest,
                ts,
                None,
                None,
                (),
                detail,
            )
        )
        self.count += 1

    def transmission(
        self, kind: str, node: Node, now: int, wire: Wire, *, peer: ProcessId, copy: int | None
    ) -> None:
        about = wire.about()
        if self.parts is not None:
            part = (node.pid, about)
            if part in self.parts:
                return
            self.parts.add(part)
        node.lseq += 1
        self.sink(
            TraceEvent(
                self.count,
                now,
                node.local(now),
                node.pid,
                node.incarnation,
                node.lseq,
                kind,
                "",
                None,
                (),
                None,
                peer,
                copy,
                about,
                wire.label,
            )
        )
        self.count += 1
