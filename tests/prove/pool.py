"""Cases side by side, one per core, the longest first: no core waits for one that came last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def run_all(
    works: Iterable[tuple[float, Callable[[], Result]]], workers: int | None = None
) -> list[Result]:
    """Results in the order given. A work is about how long it takes, and what runs it: a function
    that waits for a program of its own.
    """
    listed = list(works)
    order = sorted(range(len(listed)), key=lambda i: -listed[i][0])
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        futures = {i: pool.submit(listed[i][1]) for i in order}
        return [futures[i].result() for i in range(len(listed))]
