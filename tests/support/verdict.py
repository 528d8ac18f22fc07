"""What the logs of a soak run must show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class Key(NamedTuple):
    """One message's place in the order, and who it is."""

    timestamp: int
    lane: int
    token: str
    number: int


@dataclass
class SenderLog:
    token: str
    tried: set[int] = field(default_factory=set)
    accepted: dict[int, str] = field(default_factory=dict)  # number -> mailboxes
    refused: set[int] = field(default_factory=set)


def read_sender(path: Path) -> SenderLog:
    log = SenderLog(path.stem)
    for line in path.read_text().split("\n")[:-1]:
        word, *rest = line.split()
        if word == "try":
            log.tried.add(int(rest[0]))
        elif word == "ok":
            log.accepted[int(rest[0])] = rest[2]
        elif word == "no":
            log.refused.add(int(rest[0]))
    return log


def read_receiver(path: Path) -> list[Key]:
    keys = []
    for line in path.read_text().split("\n")[:-1]:
        word, *rest = line.split()
        if word == "got":
            keys.append(Key(int(rest[2]), int(rest[3]), rest[0], int(rest[1])))
    return keys


def order_violations(receivers: dict[str, list[Key]]) -> list[str]:
    return [
        f"order: {name} got {later} after {earlier}"
        for name, keys in receivers.items()
        for earlier, later in pairwise(keys)
        if earlier[:2] >= later[:2]
    ]


def consensus_violations(receivers: dict[str, list[Key]]) -> list[str]:
    """Between a receiver's first and last delivery nothing is missing that anyone has."""
    order = sorted({key for keys in receivers.values() for key in keys})
    place = {key: i for i, key in enumerate(order)}
    return [
        f"consensus: {name} missed {order[place[earlier] + 1]} between {earlier} and {later}"
        for name, keys in receivers.items()
        for earlier, later in pairwise(keys)
        if place[later] > place[earlier] + 1
    ]


def integrity_violations(senders: list[SenderLog], receivers: dict[str, list[Key]]) -> list[str]:
    tried = {(log.token, number) for log in senders for number in log.tried}
    refused = {(log.token, number) for log in senders for number in log.refused}
    everyone = {key for keys in receivers.values() for key in keys}
    messages = Counter((key.token, key.number) for key in everyone)
    wrong = [f"integrity: {m} has {n} places in the order" for m, n in messages.items() if n > 1]
    wrong += [f"creation: nobody sent {message}" for message in messages.keys() - tried]
    wrong += [f"rejection: {m} was refused and delivered" for m in messages.keys() & refused]
    return wrong


def validity_violations(senders: list[SenderLog], seen: list[Key], mailbox: str) -> list[str]:
    had = {(key.token, key.number) for key in seen}
    return [
        f"validity: {log.token} {number} was accepted and never delivered"
        for log in senders
        for number, where in log.accepted.items()
        if (where == "all" or mailbox in where.split("+")) and (log.token, number) not in had
    ]


def fifo_violations(seen: list[Key]) -> list[str]:
    last: dict[str, int] = {}
    wrong = []
    for key in seen:
        if key.number <= last.get(key.token, -1):
            wrong.append(f"fifo: {key} came after number {last[key.token]}")
        last[key.token] = key.number
    return wrong


def violations(
    senders: list[SenderLog], receivers: dict[str, list[Key]], witness: str, mailbox: str = "all"
) -> list[str]:
    """`witness` is a receiver that was there from beginning to end and never killed."""
    return [
        *order_violations(receivers),
        *consensus_violations(receivers),
        *integrity_violations(senders, receivers),
        *validity_violations(senders, receivers[witness], mailbox),
        *fifo_violations(receivers[witness]),
    ]
