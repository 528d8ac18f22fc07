"""The Dynamic Manager (paper 003 §7, Fig. 7): agrees on the last slot of each life that ended.

It knows who is active since which slot, runs one agreement per life (First Round, then
consensus), tells running agreements whom not to wait for, and lends a value to those in which it
cannot take part.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from shmcast.multicast.protocols.core import LocalTime, ProcessId
from shmcast.multicast.protocols.dab_bounds import Timing
from shmcast.multicast.protocols.dab_consensus import FloodMin
from shmcast.multicast.protocols.dab_first_round import FirstRound
from shmcast.multicast.protocols.dab_messages import Ballot, Help, Life, Outcome, Part, Round


@dataclass(frozen=True, slots=True)
class Decision:
    """m-decide: the life ends with this slot."""

    about: Life
    value: int


Output = Ballot | Decision


@dataclass(slots=True)
class Agreement:
    first: FirstRound
    consensus: FloodMin
    said: list[Ballot] = field(default_factory=list)
    said_at: LocalTime = 0


class Manager:
    first_round: type[FirstRound] = FirstRound
    flood_min: type[FloodMin] = FloodMin

    def __init__(self, me: ProcessId, timing: Timing, join_slot: int) -> None:
        self.me = me
        self.timing = timing
        self.join_slot = join_slot  # ours
        self.active: dict[ProcessId, int] = {me: join_slot}  # since which slot
        self.gone: set[ProcessId] = set()
        self.running: dict[Life, Agreement] = {}
        self.over: dict[Life, int | None] = {}  # decided; None: we only helped
        self.early: dict[Life, list[tuple[ProcessId, Ballot]]] = defaultdict(list)

    # What Ordering reports ----------------------------------------------------------------

    def join(self, k: ProcessId, slot: int) -> None:  # m-join
        self.active[k] = slot
        self.gone.discard(k)

    def leave(self, k: ProcessId, now: LocalTime) -> list[Output]:  # m-leave
        self.active.pop(k, None)
        self.gone.add(k)
        outputs: list[Output] = []
        for life, agreement in list(self.running.items()):
            if life[0] != k:
                agreement.first.skip(k)
                self._say(agreement, agreement.consensus.skip(k), outputs, now)
                outputs += self._progress(life, now)
        return outputs

    def fail(self, life: Life, value: int, now: LocalTime) -> list[Output]:  # m-fail
        """`value` is the last complete slot. DEVIATION: Fig. 9 and §6.2 name the first incomplete
        one; Fig. 5 and the proofs do not."""
        outputs = self.leave(life[0], now)
        if life in self.over or life in self.running:
            return outputs
        if value < self.join_slot:
            return [*outputs, *self.help(life, value)]
        expected = {k for k, since in self.active.items() if since <= value + 1}
        agreement = Agreement(
            self.first_round(self.me, value, expected - {self.me}, now + self.timing.hop),
            self.flood_min(life, self.me, self.timing.outlive, skipped=set(self.gone)),
        )
        self.running[life] = agreement
        self._say(agreement, [Part(life, value)], outputs, now)
        for sender, ballot in self.early.pop(life, []):
            outputs += self.receive(sender, ballot, now)
        return [*outputs, *self._progress(life, now)]

    def help(self, life: Life, value: int) -> list[Output]:  # h-fail
        if life in self.over:
            return []
        self.over[life] = None
        self.early.pop(life, None)
        return [Help(life, value)]

    # What others say ----------------------------------------------------------------------

    def receive(self, sender: ProcessId, ballot: Ballot, now: LocalTime) -> list[Output]:
        life = ballot.about
        if life in self.over:
            return self._answer_again(life, ballot)
        agreement = self.running.get(life)
        if agreement is None:
            self.early[life].append((sender, ballot))
            return []
        outputs: list[Output] = []
        match ballot:
            case Part() | Help():
                agreement.first.receive(sender, ballot)
            case Round():
                sent = agreement.consensus.receive(sender, ballot)
                self._say(agreement, sent, outputs, now)
            case Outcome(_, value):
                return [self._decide(life, value)]
        return [*outputs, *self._progress(life, now)]

    def _answer_again(self, life: Life, ballot: Ballot) -> list[Output]:
        value = self.over[life]
        if not ballot.again or isinstance(ballot, Outcome) or value is None:
            return []
        return [Outcome(life, value)]

    # Time ---------------------------------------------------------------------------------

    def flushed(self, now: LocalTime) -> None:
        """All that we have said so far has left."""
        for agreement in self.running.values():
            agreement.consensus.flushed(now)

    def wake(self, now: LocalTime) -> list[Output]:
        return [output for life in list(self.running) for output in self._progress(life, now)]

    def next_wake(self, now: LocalTime) -> LocalTime | None:
        times = [
            at
            for agreement in self.running.values()
            for at in (agreement.consensus.decide_at, agreement.first.ready_at)
            if at is not None and at > now
        ]
        return min(times, default=None)

    def say_again(self, now: LocalTime) -> list[Output]:
        """§10: against messages that the network lost although it must not."""
        outputs: list[Output] = []
        for agreement in self.running.values():
            if now - agreement.said_at > self.timing.after_last_report:
                agreement.said_at = now
                outputs += [replace(ballot, again=True) for ballot in agreement.said]
        return outputs

    # Inside -------------------------------------------------------------------------------

    def _progress(self, life: Life, now: LocalTime) -> list[Output]:
        agreement = self.running.get(life)
        if agreement is None:
            return []
        outputs: list[Output] = []
        first, consensus = agreement.first, agreement.consensus
        if not consensus.r and first.is_over(now):
            sent = consensus.begin(first.estimate, first.group())
            self._say(agreement, sent, outputs, now)
        value = consensus.decision(now)
        return outputs if value is None else [*outputs, self._decide(life, value)]

    def _say(
        self,
        agreement: Agreement,
        ballots: list[Part] | list[Round],
        outputs: list[Output],
        now: LocalTime,
    ) -> None:
        if ballots:
            agreement.said += ballots
            agreement.said_at = now
            outputs += ballots

    def _decide(self, life: Life, value: int) -> Decision:
        self.running.pop(life, None)
        self.over[life] = value
        return Decision(life, value)
