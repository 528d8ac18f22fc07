"""The time bounds of a mailbox: the paper's constants and everything that follows from them.

The names are those of "Reliable multicast with replicated mailboxes", §3.1 and §4.1. All times
are nanoseconds. A mailbox carries its bounds from creation on; nothing changes them later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

NS_PER_MS = 1_000_000
LONGEST_NS = 3600 * 1000 * NS_PER_MS
CONSTANTS = ("write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns")


def quorum(receivers: int) -> int:
    """μ = ⌈(N+1)/2⌉ of §3.4: so many receivers decide in `timing`."""
    return (receivers + 2) // 2


def tolerated_receivers(protocol: str, receivers: int) -> int:
    """How many of N receivers may fail (the table of §4.1): any, or ⌊(N−1)/2⌋ in `timing`."""
    return (receivers - 1) // 2 if protocol == "timing" else receivers


class InconsistentBounds(ValueError):
    """The constants contradict each other; the text names the smallest value that would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long each step may take on one copy, and how many copies there are; in ns.

    Everything else follows by the paper's formulas: Δs, the longest send (`send_ns`), Δr, the
    longest receive (`receive_ns`), and when a message is delivered (`latency_ns`). A mailbox is
    created with its bounds and keeps them. `default` is generous; `shmcast calibrate` measures
    what a machine needs; `for_latency` starts from the latency that is wanted.
    """

    copies: int
    write_ns: int  # δs: writing one message into one copy
    flag_ns: int  # δf: setting the a-flag in one copy
    decide_ns: int  # δd: deciding upon a message in one copy
    read_ns: int  # δr: reading a message
    clear_ns: int  # δfd: setting the d-flag and removing a message in one copy
    epsilon_ns: int = 0  # ε: largest difference between two clocks
    poll_ns: int = 10 * NS_PER_MS  # p: longest time before a receiver looks again
    expiry_ns: int = 0  # χ; 0 means the smallest that is allowed
    hold_ns: int = 1000 * NS_PER_MS  # a receiver that stops the senders longer than this is late
    calibration: int = 0  # which measurement they came from (calibrate.py); 0: none

    def __post_init__(self) -> None:
        wrong = [*self._out_of_range(), *self._too_early()]
        if wrong:
            raise InconsistentBounds("; ".join(wrong))
        if self.expiry_ns == 0:
            object.__setattr__(self, "expiry_ns", self.smallest_expiry_ns)

    def _out_of_range(self) -> Iterator[str]:
        if self.copies < 1:
            yield f"copies must be at least 1, not {self.copies}"
        for name in (*CONSTANTS, "poll_ns"):
            if getattr(self, name) <= 0:
                yield f"{name} must be positive, not {getattr(self, name)}: use at least 1"
        for name in ("epsilon_ns", "hold_ns", "expiry_ns", "calibration"):
            if getattr(self, name) < 0:
                yield f"{name} must not be negative: use at least 0"

    def _too_early(self) -> Iterator[str]:
        smallest = self.smallest_expiry_ns
        if 0 < self.expiry_ns < smallest:
            yield (
                f"expiry_ns (χ) is {self.expiry_ns}, but χ ≥ Δs + p + n·δd + 2ε: "
                f"use at least {smallest}"
            )
        longest = max(self.expiry_ns, smallest) + self.receive_ns("crash") + self.poll_ns
        if longest >= LONGEST_NS:
            yield f"the bounds add up to {longest} ns: keep them below {LONGEST_NS} (an hour)"

    @property
    def send_ns(self) -> int:
        """Δs = n·δs + n·δf."""
        return self.copies * (self.write_ns + self.flag_ns)

    @property
    def smallest_expiry_ns(self) -> int:
        """χ ≥ Δs + p + n·δd + 2ε."""
        return self.send_ns + self.poll_ns + self.copies * self.decide_ns + 2 * self.epsilon_ns

    def receive_ns(self, protocol: str) -> int:
        """Δr: n(2δd + δr + δfd + ε) in `crash`, n(δd + δr + δfd) + p + ε in `timing`.

        The paper has one δd in `crash`; docs/decisions/0010 says why that is too short.
        """
        once = self.decide_ns + self.read_ns + self.clear_ns
        if protocol == "timing":
            return self.copies * once + self.poll_ns + self.epsilon_ns
        delay = self.decide_ns if protocol == "crash" else 0
        return self.copies * (once + delay + self.epsilon_ns)

    def latency_ns(self, protocol: str) -> int:
        """From a message's timestamp to its delivery; in `eager` only if its sender dies."""
        if protocol == "timing":
            return self.expiry_ns + self.epsilon_ns
        return self.send_ns + self.epsilon_ns

    # Appendix A.1: joining and leaving. The paper leaves Δj and Δl open. Writing one's name into
    # the list of a copy takes no longer than writing a message and its flag there, so the timed
    # protocols use Δs for both; `eager` needs no margin, because joining is a barrier.

    def join_ns(self, protocol: str) -> int:
        """From the start of a join to the entry timestamp: Δj + ε."""
        return self.epsilon_ns + (0 if protocol == "eager" else self.send_ns)

    def leave_ns(self, protocol: str) -> int:
        """From the start of a leave to the exit timestamp: Δl + ε."""
        return self.join_ns(protocol)

    def drained_ns(self, protocol: str) -> int:
        """From the start of a leave until the last message before the exit has been read."""
        return self.leave_ns(protocol) + self.latency_ns(protocol) + self.receive_ns(protocol)

    @property
    def removal_ns(self) -> int:
        """A.1.2: in `timing` a message stays Δs + Δr + 2ε after its timestamp, for newcomers."""
        return self.send_ns + self.receive_ns("timing") + 2 * self.epsilon_ns

    # The other direction.

    @classmethod
    def for_latency(cls, wanted_ns: int, *, protocol: str, needed: Bounds) -> Bounds:
        """The most generous bounds that still deliver within `wanted_ns`.

        `needed` holds the constants that the machine must at least be given, from calibration for
        example. They are stretched by one common factor; ε is a property of the clocks and stays.
        """
        least = replace(needed, expiry_ns=0)
        if least.latency_ns(protocol) > wanted_ns:
            raise InconsistentBounds(
                f"a latency of {wanted_ns} ns is out of reach with these constants: "
                f"use at least {least.latency_ns(protocol)}"
            )
        part = needed.copies * (needed.write_ns + needed.flag_ns)
        fixed = needed.epsilon_ns
        stretched = ["write_ns", "flag_ns"]
        if protocol == "timing":
            part += needed.poll_ns + needed.copies * needed.decide_ns
            fixed += 2 * needed.epsilon_ns
            stretched += ["decide_ns", "poll_ns"]
        room = wanted_ns - fixed
        wider = {name: getattr(needed, name) * room // part for name in stretched}
        return replace(needed, expiry_ns=0, **wider)

    @classmethod
    def largest_poll_ns(cls, wanted_ns: int, *, needed: Bounds) -> int:
        """`timing`: the slowest polling, all else as it is, that still keeps a latency."""
        fastest = replace(needed, poll_ns=1, expiry_ns=0)
        slack = wanted_ns - fastest.latency_ns("timing")
        if slack < 0:
            raise InconsistentBounds(
                f"a latency of {wanted_ns} ns leaves no time to poll: "
                f"use at least {fastest.latency_ns('timing')}"
            )
        return 1 + slack

    @classmethod
    def default(cls, *, copies: int, message_bytes: int, protocol: str) -> Bounds:
        """Generous figures for a machine that was not calibrated.

        `eager` uses Δs only to give up on a sender that is alive but does not move: half a second,
        since a busy machine can leave a process standing for a tenth of one. The timed
        protocols wait Δs on every message, so theirs is as short as an ordinary, unpinned process
        can usually keep. In `crash` every receive takes n·δd; in `timing` n·δd is the time that a
        receiver's thread may be late without losing its voice.
        """
        copy_ns = message_bytes  # 1 GB/s, a fifth of what memory does
        if protocol == "eager":
            return cls(
                copies=copies,
                write_ns=450 * NS_PER_MS // copies + copy_ns,
                flag_ns=50 * NS_PER_MS // copies,
                decide_ns=NS_PER_MS,
                read_ns=NS_PER_MS + copy_ns,
                clear_ns=NS_PER_MS,
            )
        return cls(
            copies=copies,
            write_ns=8 * NS_PER_MS + copy_ns,
            flag_ns=2 * NS_PER_MS,
            decide_ns=4 * NS_PER_MS if protocol == "timing" else NS_PER_MS // 5,
            read_ns=5 * NS_PER_MS + copy_ns,
            clear_ns=NS_PER_MS,
            poll_ns=NS_PER_MS,
        )
