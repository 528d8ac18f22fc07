"""Optimistic delivery (paper 002 §4.1): what its own layer keeps, and how often it errs.

It "guarantees validity, uniform integrity, and fifo order of atomic multicast; it ensures
non-uniform agreement and probabilistic atomic order". A mistake is no violation: it is counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from shmcast.multicast.checks import fifo, reliable
from shmcast.multicast.checks.history import History, key
from shmcast.multicast.checks.trace import MessageKey, Trace
from shmcast.multicast.checks.verdict import Verdict

LAYER = "optimistic"


def history_of(trace: Trace) -> History:
    return History(trace, LAYER, multicast_layer="")


def _of_layer(check: Callable[..., Verdict], **how: bool) -> Callable[[History], Verdict]:
    return lambda history: check(history_of(history.trace), **how)


PROPERTIES: dict[str, Callable[[History], Verdict]] = {
    "optimistic-validity": _of_layer(reliable.multicast_validity),
    "optimistic-agreement": _of_layer(reliable.agreement, uniform=False),
    "optimistic-integrity": _of_layer(reliable.integrity, uniform=True),
    "optimistic-fifo": _of_layer(fifo.global_fifo, uniform=True),
}


@dataclass(frozen=True, slots=True)
class Mistakes:
    deliveries: int  # conservative ones, over all processes
    wrong: int

    @property
    def rate(self) -> Fraction:
        return Fraction(self.wrong, self.deliveries) if self.deliveries else Fraction(0)


def mistakes(trace: Trace) -> Mistakes:
    """§7.1.1: "messages whose optimistic order does not match the conservative order".

    At each process a message is wrong if it must move for the optimistic sequence to become the
    conservative one: all but a longest common subsequence. So one late message is one mistake,
    however many it should have preceded.
    """
    conservative, optimistic = History(trace), history_of(trace)
    deliveries = wrong = 0
    for participant, events in conservative.deliveries.items():
        place = optimistic.position.get(participant, {})
        order = [key(event) for event in events]
        deliveries += len(order)
        wrong += len(order) - _in_order(order, place)
    return Mistakes(deliveries, wrong)


def _in_order(order: list[MessageKey], place: dict[MessageKey, int]) -> int:
    """Length of the longest part of `order` whose places grow (patience sorting)."""
    piles: list[int] = []
    for message in order:
        if message not in place:
            continue
        at = bisect_left(piles, place[message])
        piles[at : at + 1] = [place[message]]
    return len(piles)
