"""The engines that serve a cluster, and what can be set about them: `[options]` of cluster.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shmcast.multicast.protocols.dab_bounds import Timing

TICKS_PER_MS = 1000  # a tick is 1 µs of CLOCK_MONOTONIC
BYTES_PER_TICK = 10  # a slow host, or one with more processes than cores
_ASKS_AGAIN = ("request_ticks", "retry_ticks", "patience_ticks")

_WBCAST = ("wbcast", "wbcast-acks")  # the second: followers deliver at 3δ instead of 4δ
ENGINES = ("eager", *_WBCAST, "skeen", "ft-skeen", "fastcast", "optimistic", "dab")
_WITH_LEADERS = (*_WBCAST, "ft-skeen", "fastcast")
_MESSAGES = (*_WBCAST, "skeen", "ft-skeen", "fastcast", "optimistic", "dab")


@dataclass(frozen=True, slots=True)
class Option:
    default: float  # in ms, if the name says so
    low: float
    high: float
    engines: tuple[str, ...]
    meaning: str

    def is_for(self, engine: str) -> bool:
        return engine in self.engines

    def in_ticks(self, value_ms: float) -> int:
        return max(1, round(value_ms * TICKS_PER_MS)) if value_ms else 0


OPTIONS: dict[str, Option] = {
    "heartbeat_ms": Option(
        10, 1, 10_000, _MESSAGES, "how often a replica shows that it is alive, when it is idle"
    ),
    "suspect_ms": Option(
        150,
        5,
        60_000,
        _MESSAGES,
        "silence after which a replica is suspected, at the least; grows by itself on a host "
        "that is late",
    ),
    "request_ms": Option(
        100, 1, 60_000, (*_MESSAGES, "eager"), "after which a client asks another replica"
    ),
    "retry_ms": Option(
        100, 1, 60_000, _WITH_LEADERS, "after which a leader asks again for a message stuck"
    ),
    "patience_ms": Option(
        100, 1, 60_000, _WITH_LEADERS, "for which a new leader may take to gather its quorum"
    ),
    "collect_ms": Option(
        20, 1, 60_000, _WBCAST, "how often delivered messages are forgotten"
    ),
    "lag_ms": Option(
        2000, 1, 600_000, _WBCAST, "for which a suspected replica's messages are kept"
    ),
    "bound_ms": Option(
        0, 0, 600_000, _MESSAGES, "Δ that a recorded run is judged by; 0: by none"
    ),
    "delta_ms": Option(20, 0.1, 60_000, ("dab",), "Δ: the longest way of a message"),
    "theta_ms": Option(20, 0.1, 60_000, ("dab",), "Θ: the length of a slot"),
    "gamma_ms": Option(1, 0.01, 60_000, ("dab",), "Γ: how far two clocks may be apart"),
    "latency_ms": Option(
        60_000, 0.1, 600_000, ("dab",), "the delay that the application counts on, failures and all"
    ),
    "failures": Option(1, 1, 16, ("dab",), "f: how many replicas may fail at the same time"),
    "burst": Option(
        100, 1, 1000, ("dab",), "AppMaxBurst: multicasts that one replica may have on their way"
    ),
}  # fmt: skip


def for_messages_of(options: Mapping[str, int], message_size: int) -> dict[str, int]:
    """Who asks again before the longest message can have come only makes the queues longer."""
    on_its_way = message_size // BYTES_PER_TICK
    return {n: v + on_its_way if n in _ASKS_AGAIN else v for n, v in options.items()}


def ticks_of(name: str) -> str:
    """heartbeat_ms, as a program sees it: heartbeat_ticks. A number stays one."""
    return f"{name.removesuffix('_ms')}_ticks" if name.endswith("_ms") else name


def timing_of(options: Mapping[str, int]) -> Timing:
    """Of the engine dab."""
    return Timing(
        delta=options["delta_ticks"],
        theta=options["theta_ticks"],
        gamma=options["gamma_ticks"],
        f=options["failures"],
    )
