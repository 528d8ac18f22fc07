"""The constants of Dynamic Atomic Broadcast (paper 003) and every bound that follows from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Δ bounds the network from a flush on, Θ is the slot, Γ bounds the distance of two clocks, f
    the failures in the window of one join or agreement. In ticks."""

    delta: int = 400
    theta: int = 1000
    gamma: int = 200
    f: int = 2

    def slot(self, clock: int) -> int:
        return clock // self.theta

    @property
    def hop(self) -> int:
        """A control message waits for the flush and travels: Δ + Θ."""
        return self.delta + self.theta

    @property
    def outlive(self) -> int:
        """Θ + Γ: whoever lives for so long on its own clock after a flush does not lose it any
        more. Γ, because local time may run that much ahead of real time."""
        return self.theta + self.gamma

    @property
    def step(self) -> int:
        """Δ + Γ + 2Θ: the delay without failures (Lemma 9.1), and the price of each round that a
        new failure spoils (Lemma 7.2)."""
        return self.delta + self.gamma + 2 * self.theta

    @property
    def spoiled_round(self) -> int:
        """What such a round takes here: ballots travel with the mark of their slot, so one that
        is missing is missed at that mark, Δ + Γ after the slot; the next ballots wait for the
        end of a slot. At most Δ + Γ + Θ; the lemma counts one slot more."""
        return self.theta * ((self.delta + self.gamma) // self.theta + 1)

    @property
    def detection(self) -> int:
        """§6.2, from the crash to the report, in real time."""
        return self.delta + self.theta + 2 * self.gamma

    def agreement(self, crashes: int) -> int:
        """Lemma 7.2: from a report to its decision, with so many crashes meanwhile. The lemma gives
        the last of three hops Δ + Θ, and here its flush is outlived; where Δ is much shorter than
        Θ that takes longer, up to Θ + Γ in all."""
        lemma = self.gamma + self.theta + 3 * self.hop
        return max(lemma, self.agreement_in_slots) + crashes * self.step

    @property
    def agreement_in_slots(self) -> int:
        """Each hop takes the whole slots that cover Δ + Γ. Before them goes the slot by which two
        reports differ, after them the one to outlive; the First Round can end a slot later than
        the answers that it waits for."""
        hop_slots = -(-(self.delta + self.gamma) // self.theta)
        ends_late = 2 * self.delta + self.gamma > (2 * hop_slots - 1) * self.theta
        return (2 + 3 * hop_slots + ends_late) * self.theta - self.delta

    @property
    def after_last_report(self) -> int:
        """Lemma 7.3."""
        return 3 * self.step

    def latency(self, crashes: int) -> int:
        """Lemma 9.2: of a message hit by staggered crashes."""
        return 2 * self.theta + self.detection + self.agreement(crashes - 1)

    @property
    def join_wait(self) -> int:
        """§6.3: until agreements on the previous life have ended. (Fig. 4 leaves detection out.)"""
        return self.detection + self.agreement(self.f - 1)

    def join_slot(self, clock: int) -> int:
        return (clock + (self.f + 3) * (self.delta + 2 * self.theta) + self.gamma) // self.theta

    @property
    def join_bound(self) -> int:
        """t1: from join to join-OK, on the local clock."""
        lead = (self.f + 3) * (self.delta + 2 * self.theta) + self.gamma
        return self.join_wait + lead

    @property
    def leave_bound(self) -> int:
        """t2."""
        return 2 * self.theta

    @property
    def echo(self) -> int:
        """Until all living processes know of a join that one of them knows of."""
        return (self.f + 2) * self.hop

    @property
    def lower_bound(self) -> int:
        """Theorem 2: no algorithm is faster in the worst case."""
        return (self.f + 1) * self.delta


def network_average_rate(app_average: int, k: int, lost: int) -> int:
    """§9: packets per slot to reserve when any k + lost consecutive ones lose at most `lost`.
    DEVIATION: with the flush of §4, which §9 leaves out."""
    a = app_average + 1
    return a + (-(-a // k) + 1) * lost + 1


def network_burst(app_burst: int, k: int, lost: int) -> int:
    b = app_burst + 1
    return b + -(-b // k) * lost
