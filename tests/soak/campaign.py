"""Campaigns without end: seeds nobody has looked at, until the time is over.

usage: python tests/soak/campaign.py [--seconds N] [--first SEED] [PROTOCOL...]

Prints the range of seeds at the end; give its end as --first to go on from there.
"""

from __future__ import annotations

import argparse
import time

from shmcast.multicast.protocols.registry import names
from shmcast.multicast.sim.campaign import Campaign
from shmcast.multicast.sim.parallel import CHUNK_SEEDS, added_up, campaigns

FIRST = 1_000_000  # beyond the seeds of the proof


def soak(protocols: list[str], seconds: float, first: int) -> tuple[dict[str, Campaign], int]:
    """Whole rounds of seeds for all protocols, at least one."""
    end = time.monotonic() + seconds
    parts: list[Campaign] = []
    seed = first
    while seed == first or time.monotonic() < end:
        parts += campaigns(protocols, seed, CHUNK_SEEDS)
        seed += CHUNK_SEEDS
    return added_up(parts), seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocols", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=FIRST)
    options = parser.parse_args()
    found, end = soak(options.protocols or names(), options.seconds, options.first)
    for one in found.values():
        print(one)
        for text in one.failures.values():
            print(text)
    runs = sum(one.runs for one in found.values())
    faults = sum(one.faults.total() for one in found.values())
    hours = sum(one.virtual_hours for one in found.values())
    print(f"seeds {options.first} to {end - 1}: {runs} runs, {faults} faults, {hours:.3f} hours")
    return 0 if all(one.passed for one in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
