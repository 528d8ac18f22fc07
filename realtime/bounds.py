"""The time bounds of a mailbox: the paper's constants and everything that follows from them.

The names are those of "Reliable multicast with replicated mailboxes", §3.1 and §4.1. All times
are nanoseconds. A mailbox carries its bounds from creation on; nothing changes them later.
"""

from __future__ import annotations

from dataclasses import dataclass

NS_PER_MS = 1_000_000


class InconsistentBounds(ValueError):
    """The constants contradict each other; the text names the smallest value that would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Constants for one copy, and the number of copies."""

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

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise InconsistentBounds(f"copies must be at least 1, not {self.copies}")
        for name in ("write_ns", "flag_ns", "decide_ns", "read_ns", "clear_ns", "poll_ns"):
            if getattr(self, name) <= 0:
                raise InconsistentBounds(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("epsilon_ns", "hold_ns"):
            if getattr(self, name) < 0:
                raise InconsistentBounds(f"{name} must not be negative")
        if self.expiry_ns == 0:
            object.__setattr__(self, "expiry_ns", self.smallest_expiry_ns)
        elif self.expiry_ns < self.smallest_expiry_ns:
            raise InconsistentBounds(
                f"expiry_ns (χ) is {self.expiry_ns}, but χ ≥ Δs + p + n·δd + 2ε: "
                f"use at least {self.smallest_expiry_ns}"
            )

    @property
    def send_ns(self) -> int:
        """Δs = n·δs + n·δf."""
        return self.copies * (self.write_ns + self.flag_ns)

    @property
    def smallest_expiry_ns(self) -> int:
        """χ ≥ Δs + p + n·δd + 2ε."""
        return self.send_ns + self.poll_ns + self.copies * self.decide_ns + 2 * self.epsilon_ns

    def receive_ns(self, protocol: str) -> int:
        """Δr: n(δd + δr + δfd + ε) in `crash`, n(δd + δr + δfd) + p + ε in `timing`."""
        once = self.decide_ns + self.read_ns + self.clear_ns
        if protocol == "timing":
            return self.copies * once + self.poll_ns + self.epsilon_ns
        return self.copies * (once + self.epsilon_ns)

    def latency_ns(self, protocol: str) -> int:
        """From a message's timestamp to its delivery; in `eager` only if its sender dies."""
        if protocol == "timing":
            return self.expiry_ns + self.epsilon_ns
        return self.send_ns + self.epsilon_ns

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
