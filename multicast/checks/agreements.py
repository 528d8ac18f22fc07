"""Consensus and terminating reliable broadcast, over PROPOSE and DECIDE rows.

`detail` holds the value, `layer` the instance. For TRB of sender s the instance's one PROPOSE is
s's broadcast, and the value SENDER_FAULTY stands for F_s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from shmcast.multicast.checks.history import History
from shmcast.multicast.checks.trace import CRASH, DECIDE, FAULT, PROPOSE, Trace, TraceEvent
from shmcast.multicast.checks.verdict import PASSED, Verdict, undetermined, violated

SENDER_FAULTY = "F_s"


class Instance:
    def __init__(self, trace: Trace, layer: str) -> None:
        self.trace = trace
        self.proposals: list[TraceEvent] = []
        self.decisions: dict[int, list[TraceEvent]] = defaultdict(list)
        faulty: set[int] = set()
        for event in trace.events:
            if event.kind in (CRASH, FAULT):
                faulty.add(event.proc)
            elif event.layer == layer and event.kind == PROPOSE:
                self.proposals.append(event)
            elif event.layer == layer and event.kind == DECIDE:
                self.decisions[event.proc].append(event)
        members = {p for group in trace.groups for p in group}
        self.correct = sorted(members - faulty)

    def deciders(self, uniform: bool) -> list[TraceEvent]:
        return [
            event
            for process, events in self.decisions.items()
            if uniform or process in self.correct
            for event in events
        ]


def consensus_termination(trace: Trace, layer: str = "") -> Verdict:
    """Every correct process decides exactly one value."""
    instance = Instance(trace, layer)
    for process in instance.correct:
        decided = instance.decisions.get(process, [])
        if len(decided) > 1:
            return violated(f"p{process} decides {len(decided)} times", *decided[:2])
        if not decided:
            if not trace.closed:
                return undetermined("the run is open: a decision may still come")
            return violated(f"correct p{process} never decides")
    return PASSED


def consensus_agreement(trace: Trace, layer: str = "", *, uniform: bool) -> Verdict:
    """No two correct (uniform: any) processes decide differently."""
    decided = Instance(trace, layer).deciders(uniform)
    for event in decided:
        if event.detail != decided[0].detail:
            return violated(f"decided {decided[0].detail} and {event.detail}", decided[0], event)
    return PASSED


def consensus_integrity(trace: Trace, layer: str = "", *, uniform: bool) -> Verdict:
    """What a correct (uniform: any) process decides was proposed before."""
    instance = Instance(trace, layer)
    for event in instance.deciders(uniform):
        if not any(p.detail == event.detail and p.idx < event.idx for p in instance.proposals):
            return violated(f"p{event.proc} decides {event.detail}, which nobody proposed", event)
    return PASSED


def trb_validity(trace: Trace, sender: int, layer: str = "") -> Verdict:
    """A correct sender's message is what every correct process delivers."""
    instance = Instance(trace, layer)
    if sender not in instance.correct or not instance.proposals:
        return PASSED
    sent = instance.proposals[0]
    for event in instance.deciders(uniform=False):
        if event.detail != sent.detail:
            return violated(f"p{event.proc} delivers {event.detail}", sent, event)
    return consensus_termination(trace, layer)


def trb_integrity(trace: Trace, layer: str = "", *, uniform: bool) -> Verdict:
    """Anything but F_s is delivered only if the sender broadcast it."""
    instance = Instance(trace, layer)
    sent = {event.detail for event in instance.proposals}
    for event in instance.deciders(uniform):
        if event.detail != SENDER_FAULTY and event.detail not in sent:
            return violated(f"p{event.proc} delivers {event.detail}, never broadcast", event)
    return PASSED


# Over all instances of a trace --------------------------------------------------------------


def _every(history: History, kind: str, check: Callable[[str], Verdict]) -> Verdict:
    """Instances are layers that begin with `kind`; the first violated one is reported."""
    rows = (e.layer for e in history.trace.events if e.kind in (PROPOSE, DECIDE))
    worst = PASSED
    for layer in dict.fromkeys(layer for layer in rows if layer.split(" ")[0] == kind):
        verdict = check(layer)
        if verdict.violated:
            return verdict
        if verdict is not PASSED:
            worst = verdict
    return worst


def every_consensus_termination(history: History) -> Verdict:
    return _every(history, "consensus", lambda i: consensus_termination(history.trace, i))


def every_consensus_agreement(history: History, *, uniform: bool) -> Verdict:
    return _every(
        history, "consensus", lambda i: consensus_agreement(history.trace, i, uniform=uniform)
    )


def every_consensus_integrity(history: History, *, uniform: bool) -> Verdict:
    return _every(
        history, "consensus", lambda i: consensus_integrity(history.trace, i, uniform=uniform)
    )


def every_trb_termination(history: History) -> Verdict:
    return _every(history, "trb", lambda i: consensus_termination(history.trace, i))


def every_trb_agreement(history: History, *, uniform: bool) -> Verdict:
    return _every(history, "trb", lambda i: consensus_agreement(history.trace, i, uniform=uniform))


def every_trb_integrity(history: History, *, uniform: bool) -> Verdict:
    return _every(history, "trb", lambda i: trb_integrity(history.trace, i, uniform=uniform))


def every_trb_validity(history: History) -> Verdict:
    """The layer of TRB(s) is "trb s"."""
    return _every(
        history, "trb", lambda i: trb_validity(history.trace, int(i.removeprefix("trb ")), i)
    )
