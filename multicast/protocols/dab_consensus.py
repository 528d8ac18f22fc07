"""Early-deciding uniform consensus on the smallest value, for crash faults (paper 003 §7 asks for
any such algorithm).

Everyone floods its estimate round by round. A round that hears as many as the one before has met
no new failure, so its minimum is everybody's; it is announced once more, and decided when that
announcement can no longer be lost. f′ failures cost f′ + 2 rounds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import LocalTime, ProcessId
from shmcast.multicast.protocols.dab_messages import Life, Round


@dataclass(slots=True)
class FloodMin:
    about: Life
    me: ProcessId
    outlive: int  # for so long after a flush may a crash still lose it
    group: frozenset[ProcessId] = frozenset()
    skipped: set[ProcessId] = field(default_factory=set)
    heard: dict[int, dict[ProcessId, Round]] = field(default_factory=lambda: defaultdict(dict))
    r: int = 0  # 0: not begun; messages of others may be here already
    estimate: int = 0
    heard_before: int = 0
    announced: bool = False
    decide_at: LocalTime | None = None  # known when the announcement has left

    def begin(self, estimate: int, group: frozenset[ProcessId]) -> list[Round]:
        self.group = group
        self.estimate = estimate
        self.heard_before = len(group)
        self.r = 1
        return [Round(self.about, 1, estimate, False), *self.advance()]

    def receive(self, sender: ProcessId, message: Round) -> list[Round]:
        self.heard[message.r][sender] = message
        return self.advance()

    def skip(self, k: ProcessId) -> list[Round]:
        self.skipped.add(k)
        return self.advance()

    def advance(self) -> list[Round]:
        sent: list[Round] = []
        while self.r and not self.announced and self.round_is_over():
            sent.append(self.next_round())
        return sent

    def round_is_over(self) -> bool:
        return self.group - {self.me} <= self.heard[self.r].keys() | self.skipped

    def next_round(self) -> Round:
        heard = [m for k, m in self.heard[self.r].items() if k in self.group and k != self.me]
        self.estimate = self.lowest([self.estimate, *(m.value for m in heard)])
        count = len(heard) + 1
        early = count == self.heard_before or any(m.early for m in heard)
        self.heard_before = count
        self.r += 1
        self.announced = early
        return Round(self.about, self.r, self.estimate, early)

    def lowest(self, values: list[int]) -> int:
        return min(values)

    def flushed(self, now: LocalTime) -> None:
        """What we have said so far has left. DEVIATION: §7 decides Δ + Θ after the announcement
        was handed over. It waits up to Θ for its flush, which leaves Δ, and a crash loses what was
        flushed in the Θ before it. Whoever decides here has outlived that window."""
        if self.announced and self.decide_at is None:
            self.decide_at = now + self.outlive

    def decision(self, now: LocalTime) -> int | None:
        """What was announced, when everyone who lives will hear it."""
        return self.estimate if self.decide_at is not None and now >= self.decide_at else None
