"""The judgement: what each receiver really got, against what each sender was told.

Pure functions of the logs, and independent of the checkers of recorded runs. Four ways to fail,
each counted in messages:

lost        acknowledged, or delivered by another receiver, and missing where it was due
reordered   against its place in the order, another's view of that, or its sender's numbers
doubled     delivered more than once to one receiver
phantom     delivered though its sender was told that it was not, or where it was not addressed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Key = tuple[int, int]  # tag of the sender, number of the message
Stamp = tuple[int, int]  # time, and what breaks ties: the one order

BEFORE_ALL: Stamp = (-1, -1)
_LAST_TIE = 1 << 62


@dataclass(slots=True)
class Sent:
    """One sender's log."""

    tag: int
    acknowledged: dict[int, int]  # number: time in the order
    to: dict[int, int]  # number: set of mailboxes or groups; everything that was tried
    doubtful: set[int] = field(default_factory=set)  # it was killed before it knew

    def may_have_sent(self, number: int) -> bool:
        return number in self.acknowledged or number in self.doubtful


@dataclass(slots=True)
class Got:
    """One life of one receiver: its log."""

    name: str
    place: str  # a mailbox, or a group
    bit: int  # of that in a sender's sets
    since: Stamp  # whatever comes later in the order is due
    stayed: bool  # it read to the end; else it was killed, and only what it wrote down counts
    keys: list[Key]
    stamps: list[Stamp]

    @property
    def end(self) -> Stamp:
        if self.stayed:
            return (_LAST_TIE, _LAST_TIE)
        return self.stamps[-1] if self.stamps else BEFORE_ALL


@dataclass(slots=True)
class Verdict:
    lost: int = 0
    reordered: int = 0
    doubled: int = 0
    phantom: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.reordered or self.doubled or self.phantom or self.problems)

    def count(self, kind: str, count: int, text: str) -> None:
        if count:
            setattr(self, kind, getattr(self, kind) + count)
            self.problems.append(f"{count} {kind}: {text}")


def _descents(values: Iterable[int] | Iterable[Stamp]) -> int:
    steps: Iterable[tuple[Any, Any]] = pairwise(values)
    return sum(1 for one, two in steps if two <= one)


def _check_alone(got: Got, verdict: Verdict) -> None:
    """What one log shows by itself."""
    verdict.count("doubled", len(got.keys) - len(set(got.keys)), got.name)
    verdict.count("reordered", _descents(got.stamps), f"{got.name} against the order's stamps")
    numbers: dict[int, list[int]] = {}
    for tag, number in got.keys:
        numbers.setdefault(tag, []).append(number)
    for tag, mine in numbers.items():
        verdict.count("reordered", _descents(mine), f"{got.name} against sender {tag}'s own order")


def _is_phantom(key: Key, bit: int, senders: dict[int, Sent]) -> bool:
    sent = senders.get(key[0])
    if sent is None or not sent.may_have_sent(key[1]):
        return True
    return not sent.to.get(key[1], 0) >> bit & 1


def _stamps(receivers: Sequence[Got], verdict: Verdict) -> dict[Key, Stamp]:
    """Of everything that anybody got. One stamp per message and one message per stamp: as all
    stamps increase at each receiver, that makes one order."""
    stamp_of: dict[Key, Stamp] = {}
    key_at: dict[Stamp, Key] = {}
    for got in receivers:
        wrong = 0
        for key, stamp in zip(got.keys, got.stamps, strict=True):
            same = stamp_of.setdefault(key, stamp) == stamp
            wrong += not (same and key_at.setdefault(stamp, key) == key)
        verdict.count("reordered", wrong, f"{got.name} against the others")
    return stamp_of


def judge(receivers: Sequence[Got], senders: Sequence[Sent]) -> Verdict:
    """Receivers and senders of one domain, or replicas and clients of one cluster."""
    verdict = Verdict()
    by_tag = {sent.tag: sent for sent in senders}
    for got in receivers:
        _check_alone(got, verdict)
        strange = sum(_is_phantom(key, got.bit, by_tag) for key in got.keys)
        verdict.count("phantom", strange, got.name)
    due = _stamps(receivers, verdict)
    for sent in senders:
        for number, time in sent.acknowledged.items():
            due.setdefault((sent.tag, number), (time, _LAST_TIE))  # nobody got it
    for got in receivers:
        have, end = set(got.keys), got.end
        missing = sum(
            1
            for key, stamp in due.items()
            if got.since < stamp <= end
            and key not in have
            and key[0] in by_tag
            and by_tag[key[0]].to.get(key[1], 0) >> got.bit & 1
        )
        verdict.count("lost", missing, f"missing at {got.name}")
    for place in {got.place for got in receivers}:
        if not any(got.stayed and got.keys for got in receivers if got.place == place):
            verdict.problems.append(f"no receiver of {place} stayed and got anything")
    return verdict


def longest_pause_ns(at_ns: Sequence[int], start_ns: int, end_ns: int) -> int:
    """The longest time within the interval without a delivery. The parts of a pause before and
    after it belong to other intervals."""
    inside = [t for t in at_ns if start_ns < t < end_ns]
    return max(two - one for one, two in pairwise([start_ns, *inside, end_ns]))
