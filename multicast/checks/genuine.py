"""Genuineness: only dest(m) and m's sender take part in ordering m."""

from __future__ import annotations

from shmcast.multicast.checks.history import History, name
from shmcast.multicast.checks.trace import RECEIVE, SEND
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated


def genuineness(history: History) -> Verdict:
    """Nobody outside dest(m) ∪ {sender} sends or receives a message about m."""
    transmissions = 0
    for event in history.trace.events:
        if event.kind not in (SEND, RECEIVE):
            continue
        transmissions += 1
        for message in event.about:
            if event.proc == message[0] or history.may_be_sent(message):
                continue
            if event.proc not in history.members(history.dest(message)):
                return violated(
                    f"p{event.proc} handles {event.detail} about {name(message)}, which is none "
                    "of its business",
                    event,
                )
    someone_sent = any(e.proc not in history.faulty for e in history.multicasts.values())
    if not transmissions and (someone_sent or history.deliverers):
        return undetermined("the trace holds no transmissions: record it in full")
    return PASSED
