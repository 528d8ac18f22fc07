"""FastCast (Coelho, Schiper, Pedone), as paper 000 §VI reviews it: fault-tolerant Skeen that does
not wait for consensus before it goes on.

"The leader also immediately sends the local timestamp to the leaders of the other destination
groups, without waiting for consensus to finish. The leaders then speculatively act on these
timestamps … Once the consensus on the local timestamps is reached, the leaders exchange messages
confirming this. By the time a leader receives these messages, it may have already done all of the
work necessary … and can commit the corresponding application message at once."

    MULTICAST   δ   Soft    δ   Global chosen   2δ   = 4δ
                    Local chosen  2δ   PROPOSE  δ

A speculation that fails, because a leader changed, costs a second Global.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmcast.multicast.protocols.core import (
    Effect,
    GroupId,
    Message,
    MessageId,
    ProcessId,
    Send,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.ft_skeen import (
    PROMISES,
    RETRY_TICKS,
    SHAPES,
    TOLERATES,
    FtSkeen,
    build_with,
    logs_agree,
)
from shmcast.multicast.protocols.registry import Spec, register
from shmcast.multicast.protocols.topology import Topology


@dataclass(frozen=True, slots=True)
class Soft(Wire):
    """A local timestamp that may still be lost with its leader."""

    m: Message
    g: GroupId
    lts: Timestamp

    def about(self) -> tuple[MessageId, ...]:
        return (self.m.id,)


class FastCast(FtSkeen):
    def __init__(self, topology: Topology, me: ProcessId, retry_ticks: int = RETRY_TICKS) -> None:
        super().__init__(topology, me, retry_ticks)
        self.soft: dict[MessageId, dict[GroupId, Timestamp]] = {}

    def on_assigned(self, m: Message, lts: Timestamp) -> list[Effect]:
        leaders = tuple(self.cur_leader[g] for g in m.dest)
        return [Send(Soft(m, self.g0, lts), leaders)]

    def on_soft(self, soft: Soft) -> list[Effect]:
        s, m = self.state, soft.m
        if m.id in s.delivered:
            return []
        guesses = self.soft.setdefault(m.id, {})
        guesses[soft.g] = soft.lts
        if not s.leading or m.id not in s.pending or len(guesses) < len(m.dest):
            return []
        return self.persist(m, max(guesses.values()))

    def commit(self, m: Message, gts: Timestamp) -> list[Effect]:
        self.soft.pop(m.id, None)
        return super().commit(m, gts)

    def on_message(self, message: Wire, sender: ProcessId) -> list[Effect]:
        if isinstance(message, Soft):
            return self.on_soft(message)
        return super().on_message(message, sender)


PROTOCOL = register(
    Spec(
        name="fastcast",
        build=build_with(FastCast),
        promises=PROMISES,
        tolerates=TOLERATES,
        shapes=SHAPES,
        invariants=lambda: [logs_agree()],
    )
)
