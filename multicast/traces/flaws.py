"""Ways in which a run can be wrong, each at one place of a generated run.

`breaks` are the properties of the table that the flaw violates, and no others: where one property
implies another, both are named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shmcast.multicast.traces.generate import BOUND_NS, GAP_NS, TRANSIT_GAPS, Plan

Spoil = Callable[[Plan, np.random.Generator], None]
_ORDER = ("timestamp-order", "uniform-global-total", "ordering")


@dataclass(frozen=True)
class Flaw:
    what: str
    breaks: tuple[str, ...]
    spoil: Spoil


def _pick(candidates: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator) -> int:
    if not len(candidates):
        raise ValueError("the run is too small for this flaw: more messages, please")
    return int(rng.choice(candidates))


def _members(made: Plan, message: int) -> set[int]:
    low = int(made.dest_low[message])
    groups = made.groups[low : low + int(made.dest_count[message])]
    return {p for group in groups for p in group}


def _same_dest(made: Plan, a: int, b: int) -> bool:
    return bool(made.dest_low[a] == made.dest_low[b] and made.dest_count[a] == made.dest_count[b])


def swap_at_one_process(made: Plan, rng: np.random.Generator) -> None:
    """One process delivers two neighbours the other way round; the others see them in order."""
    for process in rng.permutation(sum(len(group) for group in made.groups)):
        mine = made.deliveries_at(int(process))
        for a, b in itertools.pairwise(mine):
            first, second = int(made.message[a]), int(made.message[b])
            group = _members(made, first)
            if (
                len(group) > 1
                and _same_dest(made, first, second)
                and made.sender[first] != made.sender[second]
                and process not in (made.sender[first], made.sender[second])
            ):
                made.at[a], made.at[b] = made.at[b], made.at[a]
                return
    raise ValueError("the run is too small for this flaw: more messages, please")


def swap_of_one_sender(made: Plan, rng: np.random.Generator) -> None:
    """Everybody delivers two messages of one sender in the wrong order, and all agree."""
    candidates = [
        (a, b)
        for sender in range(int(made.sender.max()) + 1)
        for mine in [np.flatnonzero(made.sender == sender).tolist()]
        for a, b in itertools.pairwise(mine)
        if b - a < TRANSIT_GAPS and _same_dest(made, a, b) and sender not in _members(made, a)
    ]
    if not candidates:
        raise ValueError("the run is too small for this flaw: more messages, please")
    a, b = candidates[int(rng.integers(len(candidates)))]
    made.seq[a], made.seq[b] = made.seq[b], made.seq[a]
    made.sent_at[a], made.sent_at[b] = made.sent_at[b], made.sent_at[a]


def late_cause(made: Plan, rng: np.random.Generator) -> None:
    """A process multicasts m′ after it delivered m; everybody who delivers both has m′ first."""
    count = len(made.sender)
    for a in rng.permutation(count):
        sender = int(made.sender[a])
        inside = _members(made, int(a))
        if sender in inside:
            continue
        for b in range(int(a) + 1, min(int(a) + 40, count)):
            if sender in made.sender[a + 1 : b + TRANSIT_GAPS + 2]:
                break  # a later one of the same sender would break FIFO too
            mine = [d for d in made.deliveries_of(b) if made.proc[d] == sender]
            if mine and inside & _members(made, b):
                made.sent_at[a] = made.at[mine[0]] + 1
                return
    raise ValueError("the run is too small for this flaw: more messages, please")


def stray_delivery(made: Plan, rng: np.random.Generator) -> None:
    """A process that is in none of its groups delivers a message, at its place in the order."""
    everyone = sum(len(group) for group in made.groups)
    for a in rng.permutation(len(made.sender)):
        outside = set(range(everyone)) - _members(made, int(a)) - {int(made.sender[a])}
        if outside:
            process = min(outside)
            at = int(made.sent_at[a]) + TRANSIT_GAPS * GAP_NS
            one = made.deliveries_of(int(a))[0]
            made.add(int(a), process, at, (int(made.ts_time[one]), int(made.ts_group[one])))
            return
    raise ValueError("the run is too small for this flaw: more groups, please")


def delivery_of_nothing(made: Plan, rng: np.random.Generator) -> None:
    """A message is delivered that nobody multicast: the last of its sender."""
    message = _pick(_last_of_senders(made), rng)
    made.sent_at[message] = -1
    made.heard = made.heard[made.heard[:, 1] != message]


def _last_of_senders(made: Plan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(
        [np.flatnonzero(made.sender == s)[-1] for s in np.unique(made.sender)], np.int64
    )


def twice(made: Plan, rng: np.random.Generator) -> None:
    """One process delivers its last message twice."""
    process = int(rng.choice(np.unique(made.proc)))
    last = made.deliveries_at(process)[-1]
    ts = (int(made.ts_time[last]), int(made.ts_group[last]))
    made.add(int(made.message[last]), process, int(made.at[last]) + 1, ts)


def one_never_delivers(made: Plan, rng: np.random.Generator) -> None:
    """The last message of one process is missing there, of a group that has others."""
    for process in rng.permutation(np.unique(made.proc)):
        last = made.deliveries_at(int(process))[-1]
        message = int(made.message[last])
        sizes = [len(group) for group in made.groups if process in group]
        if sizes[0] >= 3 and made.sender[message] != process:
            made.proc[last] = -1
            return
    raise ValueError("the run is too small for this flaw: groups of three, please")


def gap(made: Plan, rng: np.random.Generator) -> None:
    """A message in the middle is missing at one process that goes on delivering."""
    for process in rng.permutation(np.unique(made.proc)):
        mine = made.deliveries_at(int(process))
        senders = made.sender[made.message[mine]]
        for place in range(len(mine) - 1):
            if senders[place] != process and (senders[place + 1 :] == senders[place]).any():
                made.proc[mine[place]] = -1
                return
    raise ValueError("the run is too small for this flaw: more messages, please")


def nobody_delivers(made: Plan, rng: np.random.Generator) -> None:
    """A message of a correct sender disappears: the last one of the run."""
    made.proc[made.deliveries_of(len(made.sender) - 1)] = -1


def late(made: Plan, rng: np.random.Generator) -> None:
    """One delivery comes after the bound: the last one of a process, so nothing else moves."""
    process = int(rng.choice(np.unique(made.proc)))
    last = made.deliveries_at(process)[-1]
    made.at[last] = made.sent_at[made.message[last]] + BOUND_NS + 1


def another_timestamp(made: Plan, rng: np.random.Generator) -> None:
    """One process is shown another timestamp for a message, in the same order."""
    one = _pick(np.flatnonzero(made.proc >= 0), rng)
    made.ts_group[one] += 100


def shared_timestamp(made: Plan, rng: np.random.Generator) -> None:
    """Two messages with different receivers share a timestamp."""
    count = len(made.sender)
    for a in rng.permutation(count - 1):
        if not _members(made, int(a)) & _members(made, int(a) + 1):
            mine, next_ = made.deliveries_of(int(a)), made.deliveries_of(int(a) + 1)
            made.ts_time[mine] = made.ts_time[next_[0]]
            made.ts_group[mine] = made.ts_group[next_[0]]
            return
    raise ValueError("the run is too small for this flaw: more groups, please")


def eavesdropper(made: Plan, rng: np.random.Generator) -> None:
    """A process outside of its groups takes part in ordering a message."""
    everyone = set(range(sum(len(group) for group in made.groups)))
    for a in rng.permutation(len(made.sender)):
        outside = everyone - _members(made, int(a)) - {int(made.sender[a])}
        if outside:
            made.heard = np.vstack([made.heard, [[min(outside), int(a)]]])
            return
    raise ValueError("the run is too small for this flaw: more groups, please")


FLAWS: dict[str, Flaw] = {
    "total": Flaw(
        "one process delivers two messages the other way round",
        (*_ORDER, "uniform-pairwise-total"),
        swap_at_one_process,
    ),
    "timestamp": Flaw(
        "one delivery shows another timestamp", ("timestamp-order",), another_timestamp
    ),
    "shared-timestamp": Flaw(
        "two messages share a timestamp", ("timestamp-order",), shared_timestamp
    ),
    "fifo": Flaw(
        "all deliver a sender's messages in the wrong order",
        ("uniform-fifo", "uniform-causal"),
        swap_of_one_sender,
    ),
    "causal": Flaw("an effect comes before its cause", ("uniform-causal",), late_cause),
    "stray": Flaw("a stranger delivers", ("uniform-integrity",), stray_delivery),
    "unsent": Flaw("nobody multicast it", ("uniform-integrity",), delivery_of_nothing),
    "twice": Flaw("delivered twice", ("uniform-integrity", "timestamp-order"), twice),
    "agreement": Flaw("one member never delivers", ("uniform-agreement",), one_never_delivers),
    "gap": Flaw(
        "one member leaves a message out",
        ("uniform-agreement", "uniform-fifo", "uniform-causal", "ordering"),
        gap,
    ),
    "validity": Flaw("nobody delivers", ("multicast-validity", "termination"), nobody_delivers),
    "late": Flaw("one delivery is late", ("uniform-real-time",), late),
    "genuine": Flaw("a stranger takes part", ("genuineness",), eavesdropper),
}
