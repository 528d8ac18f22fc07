"""Inside one component of causal_checks.py: is there m → m′, and one q that has m′ first?

For each message and receiver q, the latest place at q of what causally precedes the message flows
along the steps, each step once: so a component costs steps times receivers, however it is tangled.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shmcast.pipeline.cycles import numbered, strong_labels

NEVER = (1 << 62) - 1  # the place of what q never delivers
MESSAGES_MAX = 20_000  # of a component; a larger one is not decided
_RECEIVERS = 128  # at once: bounds the memory

Numbers = npt.NDArray[np.int64]
Message = tuple[int, int]


class Violation(NamedTuple):
    """Receiver `q` delivers `effect`, and `cause` later or never."""

    q: int
    effect: Message
    cause: Message
    effect_row: int  # of the table
    cause_row: int


class Tangle:
    """`table`: s1, n1, s2, n2, q, pos, owed. Rows with q < 0 are steps s1.n1 → s2.n2; the others
    are places of s1.n1 at q."""

    def __init__(self, table: Any) -> None:
        self._names, (start, end) = numbered(table)
        q = table.column("q").to_numpy()
        self._rows = np.flatnonzero(q >= 0)
        self._q = q[self._rows]
        self._node = start[self._rows]
        self._pos = table.column("pos").to_numpy()[self._rows]
        self._owed = table.column("owed").to_numpy(zero_copy_only=False)[self._rows]
        steps = q < 0
        self._steps = (start[steps], end[steps])

    @property
    def messages(self) -> int:
        return len(np.unique(self._node))

    def violation(self) -> Violation | None:
        label, after = self._condensed()
        receivers = np.unique(self._q)
        for first in range(0, len(receivers), _RECEIVERS):
            some = receivers[first : first + _RECEIVERS]
            mine = np.flatnonzero((self._q >= some[0]) & (self._q <= some[-1]))
            column = np.searchsorted(some, self._q[mine])
            latest = np.full((len(after), len(some)), -1, np.int64)
            owed = self._owed[mine]
            at = (label[self._node[mine]][owed], column[owed])
            np.maximum.at(latest, at, self._pos[mine][owed])
            _flow(latest, after)
            pos = self._pos[mine]
            wrong = (pos != NEVER) & (latest[label[self._node[mine]], column] > pos)
            if wrong.any():
                return self._told(int(mine[np.argmax(wrong)]))
        return None

    def _condensed(self) -> tuple[Numbers, list[Numbers]]:
        """The component of causes each message is in (nearly always alone), and what follows it."""
        count, label = strong_labels(len(self._names), self._steps)
        ends = np.column_stack([label[self._steps[0]], label[self._steps[1]]])
        edges = np.unique(ends[ends[:, 0] != ends[:, 1]].reshape(-1, 2), axis=0)
        bounds = np.searchsorted(edges[:, 0], np.arange(count + 1))
        return label, [edges[a:b, 1] for a, b in itertools.pairwise(bounds)]

    def _told(self, effect: int) -> Violation:
        """With the nearest cause that comes too late."""
        q, pos = int(self._q[effect]), self._pos[effect]
        here = np.flatnonzero((self._q == q) & self._owed & (self._pos > pos))
        late = {int(self._node[row]): int(row) for row in here}
        causes: dict[int, list[int]] = defaultdict(list)
        for one, other in zip(*(ends.tolist() for ends in self._steps), strict=True):
            causes[other].append(one)
        node = int(self._node[effect])
        cause = late[_nearest(causes, node, late)]
        return Violation(
            q,
            self._names[node],
            self._names[int(self._node[cause])],
            int(self._rows[effect]),
            int(self._rows[cause]),
        )


def _flow(latest: Any, after: list[Numbers]) -> None:
    """Hands each row's values on to all that follow it, in the order of the graph."""
    waiting = np.zeros(len(after), np.int64)
    for followers in after:
        waiting[followers] += 1
    ready = deque(np.flatnonzero(waiting == 0).tolist())
    while ready:
        one = ready.popleft()
        followers = after[one]
        latest[followers] = np.maximum(latest[followers], latest[one])
        waiting[followers] -= 1
        ready.extend(followers[waiting[followers] == 0].tolist())


def _nearest(causes: dict[int, list[int]], message: int, late: dict[int, int]) -> int:
    queue, known = deque([message]), {message}
    while queue:
        for cause in causes[queue.popleft()]:
            if cause in late:
                return cause
            if cause not in known:
                known.add(cause)
                queue.append(cause)
    raise AssertionError("what flowed here has a cause")
