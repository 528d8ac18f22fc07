"""Clocks and their uncertainty, always as an upper bound.

Between cores of one host: measured (csrc/rt_clock.c). Between hosts: Cristian's method. A request
that leaves at t1, is received at t2, answered at t3 (both by the other clock) and back at t4 says
that the offset (their clock minus ours) was at most t2 − t1 when it was received, and at least
t3 − t4 when it was answered, whatever the two ways took. Clocks that drift apart by at most r
widen such an interval by r for every second that passes. All lines have the same slope, so the
best of all samples is one number for each side: the state never grows.

    offset(t) ≤ t2 − t1 + r·(t − t1)          offset(t) ≥ t3 − t4 − r·(t − t4)

Integers only, in units of 1e-9 ns, rounded outwards: the bound must not be lost to floats.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shmcast._native import ffi, lib
from shmcast.errors import error_from

PPB = 1_000_000_000
HOST_DRIFT_PPB = 600_000
"""ρ of CLOCK_MONOTONIC: a crystal's 100 ppm, and the 500 ppm by which the kernel lets NTP steer it.
chrony steers faster when it corrects a large error, unless `maxslewrate` is 500 or less."""
TICK_NS = 1  # a clock that shows t is somewhere in [t, t + 1)
_FROM_NOW = 1 << 63


class CoreSkew(NamedTuple):
    """Two cores of this host."""

    cpu_a: int
    cpu_b: int
    low_ns: int  # clock of b minus clock of a is at least this
    high_ns: int  # and at most this
    round_trip_ns: int
    rounds: int
    inversions: int  # effects that were stamped before their causes
    inversion_ns: int  # the largest; what ε has to cover as far as anybody could see


class Epsilon(NamedTuple):
    """ε on one host."""

    observed_ns: int  # largest inversion between two of `pairs`; 0 where the kernel keeps its word
    provable_ns: int  # no two clocks are further apart than this, whatever the kernel says
    pairs: list[CoreSkew]  # that were compared directly


def compare_cores(
    cpu_a: int, cpu_b: int, *, rounds: int = 20_000, limit_s: float = 1.0
) -> CoreSkew:
    out = ffi.new("struct sc_rt_skew *")
    deadline = _FROM_NOW | int(limit_s * PPB)
    code = lib.sc_rt_clock_skew(cpu_a, cpu_b, rounds, deadline, out)
    if code:
        raise error_from(code, f"clocks of cores {cpu_a} and {cpu_b}")
    return CoreSkew(
        cpu_a,
        cpu_b,
        out.low_ns,
        out.high_ns,
        out.round_trip_ns,
        out.rounds,
        out.inversions,
        out.inversion_ns,
    )


def pairs_to_compare(cpus: Sequence[int], most: int) -> list[tuple[int, int]]:
    """The first core with every other one, whatever `most` is; then further pairs."""
    every = [(cpus[0], other) for other in cpus[1:]]
    rest = itertools.islice(itertools.combinations(cpus[1:], 2), max(0, most - len(every)))
    return [*every, *rest]


def epsilon_from(pairs: list[CoreSkew]) -> Epsilon:
    """Two cores that were not compared with each other were both compared with the first: b − a is
    the difference of their distances to it."""
    observed = max((p.inversion_ns for p in pairs), default=0)
    found = {(p.cpu_a, p.cpu_b): (p.low_ns, p.high_ns) for p in pairs}
    star = [p for p in pairs if p.cpu_a == pairs[0].cpu_a]
    for a, b in itertools.combinations(star, 2):
        derived = (b.low_ns - a.high_ns, b.high_ns - a.low_ns)
        found.setdefault((a.cpu_b, b.cpu_b), derived)
    provable = max((max(-low, high, 0) for low, high in found.values()), default=0)
    return Epsilon(observed, provable, pairs)


def epsilon_of_host(*, rounds: int = 20_000, most_pairs: int = 64, limit_s: float = 1.0) -> Epsilon:
    """All cores that this process may use; nothing with one core. No pair is left out of what is
    provable, but with many cores most are not compared directly, so their bound is wider."""
    cpus = sorted(os.sched_getaffinity(0))
    return epsilon_from(
        [
            compare_cores(a, b, rounds=rounds, limit_s=limit_s)
            for a, b in pairs_to_compare(cpus, most_pairs)
        ]
    )


class KernelError(NamedTuple):
    """What NTP or PTP says of the wall clock, for those who trust it."""

    synchronised: bool
    most_ns: int
    estimated_ns: int


def kernel_error() -> KernelError:
    """Two hosts whose clocks follow the same reference differ by at most the sum of theirs."""
    most, estimated = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    state = lib.sc_rt_clock_error(most, estimated)
    if state < 0:
        raise error_from(state, "adjtimex")
    return KernelError(bool(state), most[0], estimated[0])


class ClockBroken(Exception):
    """Samples contradict each other: a clock jumped, or drifts faster than its bound."""


class Interval(NamedTuple):
    """Their clock minus ours, at one moment of ours: not below `low_ns`, not above `high_ns`."""

    low_ns: int
    high_ns: int

    @property
    def offset_ns(self) -> int:
        return (self.low_ns + self.high_ns) // 2

    @property
    def epsilon_ns(self) -> int:
        """Error of `offset_ns` at most: ε after correction by it."""
        return max(self.high_ns - self.offset_ns, self.offset_ns - self.low_ns)

    @property
    def uncorrected_ns(self) -> int:
        """ε without any correction."""
        return max(abs(self.low_ns), abs(self.high_ns))


def relative_drift_ppb(drift_ppb: int) -> int:
    """Two clocks within ±ρ of true time drift apart by at most 2ρ/(1−ρ), by either's measure."""
    if not 0 <= drift_ppb < PPB:
        raise ValueError(f"drift must be 0 to {PPB - 1} ppb, not {drift_ppb}")
    return -(-2 * drift_ppb * PPB // (PPB - drift_ppb))


@dataclass(slots=True)
class RemoteClock:
    """What is known of another host's clock. Pure: samples in, intervals out."""

    drift_ppb: int  # ρ of either clock; of a host's HOST_DRIFT_PPB
    samples: int = 0
    last_ns: int = 0  # our clock at the latest sample; no interval is asked for before
    _rate: int = field(init=False)
    _upper: int = 0  # of the line offset + r·t, in 1e-9 ns
    _lower: int = 0

    def __post_init__(self) -> None:
        self._rate = relative_drift_ppb(self.drift_ppb)

    def feed(self, t1: int, t2: int, t3: int, t4: int) -> Interval:
        """One round trip. Raises ClockBroken if no offset fits all samples; then start anew."""
        if t4 < t1 or t3 < t2 or t4 < self.last_ns:
            raise ClockBroken(f"a clock ran backwards: {(t1, t2, t3, t4)} after {self.last_ns}")
        upper = (t2 + TICK_NS) * PPB - (PPB + self._rate) * t1
        lower = t3 * PPB - (PPB - self._rate) * (t4 + TICK_NS)
        if self.samples:
            upper, lower = min(upper, self._upper), max(lower, self._lower)
        found = self._between(lower, upper, t4)
        self._upper, self._lower = upper, lower
        self.samples += 1
        self.last_ns = t4
        return found

    def at(self, local_ns: int) -> Interval:
        if not self.samples:
            raise ValueError("no sample yet: feed() one round trip first")
        if local_ns < self.last_ns:
            raise ValueError(f"{local_ns} is before the latest sample, {self.last_ns}")
        return self._between(self._lower, self._upper, local_ns)

    def known(self, local_ns: int) -> Interval | None:
        """at() for another thread than feed()'s: None before the first sample. Each side is a bound
        by itself, so one that is newer than the other does no harm."""
        if not self.samples:
            return None
        return self._between(self._lower, self._upper, max(local_ns, self.last_ns))

    def _between(self, lower: int, upper: int, local_ns: int) -> Interval:
        moved = self._rate * (local_ns + TICK_NS)
        low, high = (lower - moved) // PPB, -(-(upper + moved) // PPB)
        if low > high:
            raise ClockBroken(
                f"no offset fits: at least {low} ns and at most {high} ns; a clock jumped, or "
                f"drifts by more than {self.drift_ppb} ppb"
            )
        return Interval(low, high)
