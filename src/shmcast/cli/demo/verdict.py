"""The judgement: what each receiver really got, against what each sender was told.

Pure functions of the logs. Four ways to fail, each counted in messages:

lost        acknowledged, or delivered by another receiver, and missing where it was due
reordered   against (timestamp, sender), against another receiver, or against its sender's numbers
doubled     delivered more than once to one receiver
phantom     delivered though its sender was told that it was not, or to the wrong mailbox
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

Key = tuple[int, int]  # tag of the sender, number of the message
Stamp = tuple[int, int]  # timestamp, sender: the one order


@dataclass(slots=True)
class Sent:
    """One sender's log."""

    tag: int
    acknowledged: dict[int, int]  # number: timestamp
    refused: set[int] = field(default_factory=set)  # rejected, or no room
    boxes: dict[int, int] = field(default_factory=dict)  # number: set of mailboxes; none: the one
    was_killed: bool = False

    def may_have_sent(self, number: int) -> bool:
        """Acknowledged; or the one send that a killed sender did not live to write down."""
        tried = len(self.acknowledged) + len(self.refused)
        return number in self.acknowledged or (self.was_killed and number == tried)


@dataclass(slots=True)
class Got:
    """One receiver's log."""

    name: str
    mailbox: str
    bit: int  # of the mailbox in a sender's sets; -1 if it is a mailbox by itself
    joined_ns: int  # whatever was stamped later is due
    stayed: bool  # read to the end; else killed, and only what it wrote down counts
    keys: list[Key]
    stamps: list[Stamp]


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
    verdict.count("reordered", _descents(got.stamps), f"{got.name} against the timestamps")
    numbers: dict[int, list[int]] = {}
    for tag, number in got.keys:
        numbers.setdefault(tag, []).append(number)
    for tag, mine in numbers.items():
        verdict.count("reordered", _descents(mine), f"{got.name} against sender {tag}'s own order")


def _check_against_senders(got: Got, senders: dict[int, Sent], verdict: Verdict) -> None:
    def is_for_us(sent: Sent, number: int) -> bool:
        return got.bit < 0 or bool(sent.boxes.get(number, ~0) >> got.bit & 1)

    strange = sum(
        1
        for tag, number in got.keys
        if tag not in senders
        or not senders[tag].may_have_sent(number)
        or not is_for_us(senders[tag], number)
    )
    verdict.count("phantom", strange, got.name)
    have = set(got.keys)
    end_ns = got.stamps[-1][0] if got.stamps else got.joined_ns
    missing = sum(
        1
        for tag, sent in senders.items()
        for number, timestamp in sent.acknowledged.items()
        if timestamp > got.joined_ns
        and (got.stayed or timestamp <= end_ns)
        and is_for_us(sent, number)
        and (tag, number) not in have
    )
    verdict.count("lost", missing, f"acknowledged, not at {got.name}")


def _due(got: Got, key_stamps: dict[Key, Stamp]) -> set[Key]:
    """Of what another receiver got, that which falls into this one's time."""
    end_ns = got.stamps[-1][0] if got.stamps else got.joined_ns
    return {
        key
        for key, stamp in key_stamps.items()
        if stamp[0] > got.joined_ns and (got.stayed or stamp[0] <= end_ns)
    }


def _check_order(one: Sequence[Key], two: Sequence[Key], who: str, verdict: Verdict) -> None:
    """What both have stands in the same order."""
    place = {key: index for index, key in enumerate(one)}
    verdict.count("reordered", _descents([place[k] for k in two if k in place]), who)


def _check_pair(one: Got, two: Got, senders: dict[int, Sent], verdict: Verdict) -> None:
    _check_order(one.keys, two.keys, f"{two.name} against {one.name}", verdict)
    for here, there in ((one, two), (two, one)):
        stamps = dict(zip(there.keys, there.stamps, strict=True))
        if here.mailbox != there.mailbox:
            # Only what was for both: all or nothing, also where its sender does not know.
            stamps = {k: s for k, s in stamps.items() if _is_for_both(k, here, there, senders)}
        missing = len(_due(here, stamps) - set(here.keys))
        verdict.count("lost", missing, f"delivered by {there.name}, not at {here.name}")


def _is_for_both(key: Key, one: Got, two: Got, senders: dict[int, Sent]) -> bool:
    sent = senders.get(key[0])
    wanted = 1 << one.bit | 1 << two.bit
    return sent is not None and sent.boxes.get(key[1], 0) & wanted == wanted


def judge(receivers: Sequence[Got], senders: Sequence[Sent]) -> Verdict:
    """Receivers and senders of one domain, or of one mailbox by itself."""
    verdict = Verdict()
    by_tag = {sent.tag: sent for sent in senders}
    for got in receivers:
        _check_alone(got, verdict)
        _check_against_senders(got, by_tag, verdict)
    for one, two in combinations(receivers, 2):
        _check_pair(one, two, by_tag, verdict)
    for mailbox in {got.mailbox for got in receivers}:
        if not any(got.stayed and got.keys for got in receivers if got.mailbox == mailbox):
            verdict.problems.append(f"no receiver of {mailbox} stayed and got anything")
    return verdict


def longest_pause_ns(at_ns: Sequence[int], start_ns: int, end_ns: int) -> int:
    """The longest time within the interval without a delivery. The parts of a pause before and
    after it belong to other intervals."""
    inside = [t for t in at_ns if start_ns < t < end_ns]
    return max(two - one for one, two in pairwise([start_ns, *inside, end_ns]))
