"""The wait window w(p) of paper 002 §4.2, estimated as in §6."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from shmcast.multicast.protocols.core import LocalTime, ProcessId

SAMPLES = 100  # "for the last 100 messages"


@dataclass(slots=True)
class Average:
    samples: deque[int] = field(default_factory=deque)
    total: int = 0

    def add(self, sample: int) -> None:
        self.samples.append(sample)
        self.total += sample
        if len(self.samples) > SAMPLES:
            self.total -= self.samples.popleft()

    @property
    def value(self) -> int:
        return self.total // len(self.samples)


@dataclass(slots=True)
class WaitWindow:
    """ "The average of the difference between its current time and m's timestamp … for the last
    100 messages received from q. The value of w(p) is the maximum among such estimates." """

    fixed: LocalTime | None = None
    averages: dict[ProcessId, Average] = field(default_factory=dict)
    value: LocalTime = 0

    def __post_init__(self) -> None:
        if self.fixed is not None:
            self.value = self.fixed

    def observe(self, q: ProcessId, delay_and_skew: LocalTime) -> None:
        if self.fixed is not None:
            return
        average = self.averages.setdefault(q, Average())
        average.add(delay_and_skew)
        self.value = max(a.value for a in self.averages.values())
