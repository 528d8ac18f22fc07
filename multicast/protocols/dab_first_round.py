"""The First Round of an agreement (paper 003 §7, Fig. 8): who takes part, and the smallest value.

Members may disagree on whether a newcomer takes part in an agreement. Whoever is expected and
does not take part helps: it lends its value, so that nobody waits for it, and stays out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import LocalTime, ProcessId
from shmcast.multicast.protocols.dab_messages import Help, Part


@dataclass(slots=True)
class FirstRound:
    me: ProcessId
    estimate: int
    awaited: set[ProcessId]
    ready_at: LocalTime  # our own message has reached everyone
    takes_part: set[ProcessId] = field(default_factory=set)

    def receive(self, sender: ProcessId, message: Part | Help) -> None:
        self.estimate = self.lowest(self.estimate, message.value)
        self.awaited.discard(sender)
        if isinstance(message, Part):
            self.takes_part.add(sender)

    def lowest(self, a: int, b: int) -> int:
        return min(a, b)

    def skip(self, k: ProcessId) -> None:
        """DEVIATION: Fig. 8 drops k from the group even if its "part" has arrived. Others may have
        k in theirs, so we keep it, and consensus is told to skip k."""
        self.awaited.discard(k)

    def is_over(self, now: LocalTime) -> bool:
        """DEVIATION: Fig. 8 lacks the wait of Δ + Θ, which the text asks for. It keeps rounds in
        step and guards nothing: whoever decides has outlived the flush of all that it said."""
        return not self.awaited and now >= self.ready_at

    def group(self) -> frozenset[ProcessId]:
        return frozenset({self.me, *self.takes_part})
