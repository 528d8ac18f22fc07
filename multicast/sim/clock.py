"""A process's clock as an exact, integer function of real time.

local(t) = local_start + ⌊(t − real_start) · (10⁶ + drift_ppm) / 10⁶⌋
"""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(slots=True)
class Clock:
    offset: int = 0  # skew at real time 0, in ticks
    drift_ppm: int = 0
    real_start: int = 0

    def local(self, real: int) -> int:
        return self.offset + (real - self.real_start) * (MILLION + self.drift_ppm) // MILLION

    def real(self, local: int) -> int:
        """The first real tick at which the clock shows `local` or more."""
        return self.real_start - (self.offset - local) * MILLION // (MILLION + self.drift_ppm)

    def changed(self, real: int, jump: int, drift_ppm: int | None) -> Clock:
        """The clock from `real` on, after a jump and a change of rate."""
        rate = self.drift_ppm if drift_ppm is None else drift_ppm
        return Clock(self.local(real) + jump, rate, real)
