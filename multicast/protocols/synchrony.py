"""The constants of a synchronous network (paper 004 §6.7) and the bounds that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Synchrony:
    """δ bounds a link, ρ the drift of a clock, ε the distance of two clocks; at most f processes
    are faulty, and correct ones are at most d links apart."""

    delta: int
    f: int
    d: int = 1
    rho_ppm: int = 0
    epsilon: int = 0

    @property
    def link(self) -> Fraction:
        """δ(1 + ρ): how long a message can be under way, seen by one clock."""
        return Fraction(self.delta * (MILLION + self.rho_ppm), MILLION)

    @property
    def hop(self) -> Fraction:
        """Fig. 12: how far the timestamp of a copy may lag behind per link it took."""
        return self.link + self.epsilon

    @property
    def real_bound(self) -> int:
        """Theorem 11: (f + d)δ."""
        return (self.f + self.d) * self.delta

    @property
    def local_bound(self) -> Fraction:
        """Theorem 12: (f + d)δ(1 + ρ) + (f + 1)ε."""
        return (self.f + self.d) * self.link + (self.f + 1) * self.epsilon

    @property
    def local_bound_ticks(self) -> int:
        return ceil(self.local_bound)
