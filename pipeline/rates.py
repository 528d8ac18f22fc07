"""Multicasts and deliveries over time, in steps that a person can read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shmcast.multicast.checks.trace import DELIVER, MULTICAST, Trace
from shmcast.pipeline.latency import NO_GROUP, group_of

STEPS_WANTED = 90


@dataclass(frozen=True, slots=True)
class Rates:
    start_ns: int
    step_ns: int
    multicasts: tuple[int, ...]  # per step; retries count
    deliveries: dict[int, tuple[int, ...]]  # group -> per step

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.step_ns * len(self.multicasts)


def step_for(span_ns: int, wanted: int = STEPS_WANTED) -> int:
    """1, 2 or 5 times a power of ten, so that there are at most `wanted` steps."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step * wanted >= span_ns:
                return factor * step
        step *= 10


def rates(trace: Trace, groups: Sequence[Sequence[int]]) -> Rates:
    """Steps begin at the first row's time."""
    if not trace.events:
        return Rates(0, 1, (), {})
    start = min(event.real_t for event in trace.events)
    end = max(event.real_t for event in trace.events)
    step = step_for(end - start + 1)
    count = (end - start) // step + 1
    group = group_of(groups)
    sent: list[int] = []
    got: dict[int, list[int]] = {g: [] for g in range(len(groups))}
    for event in trace.events:
        if event.layer != "":
            continue
        at = (event.real_t - start) // step
        if event.kind == MULTICAST:
            sent.append(at)
        elif event.kind == DELIVER:
            got.setdefault(group.get(event.proc, NO_GROUP), []).append(at)

    def per_step(steps: list[int]) -> tuple[int, ...]:
        return tuple(np.bincount(np.array(steps, dtype=np.int64), minlength=count).tolist())

    return Rates(start, step, per_step(sent), {g: per_step(steps) for g, steps in got.items()})
