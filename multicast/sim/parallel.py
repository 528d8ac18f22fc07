"""Campaigns on all cores: each process takes some seeds of one protocol, and answers with what it
found."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from shmcast.multicast.sim.campaign import Campaign, campaign, spec_of

CHUNK_SEEDS = 50
GC_THRESHOLD = 50_000  # a run makes few cycles; looking for them cost a tenth of it


def jobs_here() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def campaigns(
    names: Sequence[str], first: int, seeds: int, *, jobs: int | None = None
) -> Iterator[Campaign]:
    """Parts of the campaigns over seeds first … first + seeds - 1, as they are done.

    Closing the iterator ends the rest.
    """
    chunks = [
        (name, start, min(CHUNK_SEEDS, first + seeds - start))
        for start in range(first, first + seeds, CHUNK_SEEDS)
        for name in names
    ]
    jobs = min(jobs or jobs_here(), len(chunks))
    if jobs <= 1:
        return (_part(*chunk) for chunk in chunks)
    # Forked now, before the caller starts threads (a progress bar has one). Starting them afresh
    # instead would leave multiprocessing's tracker behind.
    pool = ProcessPoolExecutor(jobs, get_context("fork"), _quieten)
    return _results(pool, [pool.submit(_part, *chunk) for chunk in chunks])


def _results(pool: ProcessPoolExecutor, parts: list[Future[Campaign]]) -> Iterator[Campaign]:
    try:
        for part in as_completed(parts):
            yield part.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def added_up(parts: Iterator[Campaign] | Sequence[Campaign]) -> dict[str, Campaign]:
    found: dict[str, Campaign] = {}
    for part in parts:
        found.setdefault(part.name, Campaign(part.name)).merge(part)
    return dict(sorted(found.items()))


def _quieten() -> None:
    gc.set_threshold(GC_THRESHOLD)


def _part(name: str, first: int, seeds: int) -> Campaign:
    return campaign(spec_of(name), range(first, first + seeds))
