"""What the logs of a soak run must show."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
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


def violations(
    senders: list[SenderLog], receivers: dict[str, list[Key]], witness: str, mailbox: str = "all"
) -> list[str]:
    """`witness` is a receiver that was there from beginning to end and never killed."""
    wrong = []
    for name, keys in receivers.items():
        for earlier, later in zip(keys, keys[1:], strict=False):
            if earlier[:2] >= later[:2]:
                wrong.append(f"order: {name} got {later} after {earlier}")
    order = sorted({key for keys in receivers.values() for key in keys})
    place = {key: i for i, key in enumerate(order)}
    for name, keys in receivers.items():
        for earlier, later in zip(keys, keys[1:], strict=False):
            if place[later] != place[earlier] + 1:
                missed = order[place[earlier] + 1]
                wrong.append(f"consensus: {name} missed {missed} between {earlier} and {later}")
    seen = {(key.token, key.number) for key in receivers[witness]}
    known = {(key.token, key.number) for key in order}
    if len(known) != len(order):
        wrong.append(f"integrity: {len(order) - len(known)} messages have two places in the order")
    for log in senders:
        for number, where in log.accepted.items():
            addressed = where == "all" or mailbox in where.split("+")
            if addressed and (log.token, number) not in seen:
                wrong.append(f"validity: {log.token} {number} was accepted, {witness} has it not")
        for number in log.refused:
            if (log.token, number) in known:
                wrong.append(f"rejection: {log.token} {number} was refused and yet delivered")
    tried = {(log.token, number) for log in senders for number in log.tried}
    wrong += [f"creation: nobody sent {message}" for message in known - tried]
    last: dict[str, int] = defaultdict(lambda: -1)
    for key in receivers[witness]:
        if key.number <= last[key.token]:
            wrong.append(f"fifo: {witness} got {key} after number {last[key.token]}")
        last[key.token] = key.number
    return wrong
