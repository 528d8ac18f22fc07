"""What can be seen of the demo while it runs: shared memory, and the logs as they grow."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from shmcast.cli.demo.logs import Log
from shmcast.cli.demo.troupe import Standing
from shmcast.cli.sampling import Row

_RATE_S = 1.0


@dataclass(frozen=True, slots=True)
class BoxScene:
    row: Row
    name: str
    agreed: int  # deliveries that were compared, of all its receivers
    one_order: bool


@dataclass(frozen=True, slots=True)
class GroupScene:
    standing: Standing
    agreed: int
    one_order: bool
    delivered_per_s: float


@dataclass(frozen=True, slots=True)
class Scene:
    boxes: list[BoxScene]
    groups: list[GroupScene]
    send_worst_ns: int = 0
    delivery_worst_ns: int = 0


@dataclass(slots=True)
class Order:
    """The order at one place, checked live: at each receiver stamps only grow, and each stamp
    belongs to one message. What is missing somewhere is for the verdict at the end."""

    checked: int = 0
    is_one: bool = True
    _logs: dict[str, Log] = field(default_factory=dict)
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    _at: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    _counts: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, logs: Mapping[str, Log]) -> None:
        for name, log in logs.items():
            last = self._last.get(name, (-1, -1))
            for at, tie, _, tag, number in self._logs.setdefault(name, log).fresh().tolist():
                stamp, key = (at, tie), (tag, number)
                if stamp <= last or self._at.setdefault(stamp, key) != key:
                    self.is_one = False
                last = stamp
                self.checked += 1
            self._last[name] = last
        now = time.monotonic()
        self._counts.append((now, self.checked))
        while now - self._counts[0][0] > _RATE_S and len(self._counts) > 2:
            self._counts.popleft()

    @property
    def per_s(self) -> float:
        (then, before), (now, after) = self._counts[0], self._counts[-1]
        return (after - before) / (now - then) if now > then else 0.0
