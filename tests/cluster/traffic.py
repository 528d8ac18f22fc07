"""Clients of a cluster under test, and the verdict on what they were told."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from cluster.replicas import Replicas
from helpers import wait_until

BOTH = ["g1", "g2"]


class Traffic:
    """A client that multicasts until it is told to stop; remembers what was acknowledged."""

    def __init__(self, cluster: Replicas, groups: Sequence[str] = BOTH) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.places: list[tuple[int, int]] = []
        self._cluster, self._groups = cluster, groups
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._cluster.client() as client:
                while not self._stop.is_set():
                    ordered = client.multicast(b"payload", self._groups, timeout=60)
                    self.acknowledged.append((client.id, ordered.sequence))
                    self.places.append(ordered.timestamp)
        except BaseException as error:
            self._error = error

    def wait_for(self, more: int) -> None:
        enough = len(self.acknowledged) + more
        wait_until(
            lambda: len(self.acknowledged) >= enough or self._error, f"{more} more multicasts"
        )
        assert self._error is None

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert self._error is None and not self._thread.is_alive()


def judged(cluster: Replicas, traffic: Traffic, survivors: list[str]) -> None:
    """Ends the run; no promise is broken, and what was acknowledged is delivered, once."""
    traffic.stop()
    assert traffic.places == sorted(set(traffic.places))
    cluster.wait_for_delivery(survivors, traffic.acknowledged[-1])
    cluster.stop_all()
    assert cluster.verdicts() == {}
    for name in survivors:
        assert cluster.delivered(name) == traffic.acknowledged
