"""Large payloads, and much that is kept for a replica that is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.replicas import replicas
from helpers import wait_until
from shmcast.errors import MessageTooLarge
from shmcast.multicast.run.config import MESSAGE_SIZE_MAX
from shmcast.multicast.run.wire import FRAME_BYTES_MAX


def test_the_largest_payload_is_ordered_and_a_replica_comes_back_behind_many(
    tmp_path: Path,
) -> None:
    """One payload of 16 MiB ended all three replicas; so did the state that a replica asks for when
    it comes back, once it was longer than a frame."""
    assert 8 * MESSAGE_SIZE_MAX < FRAME_BYTES_MAX
    size = f"message_size = {MESSAGE_SIZE_MAX}"
    with replicas(tmp_path, "large", groups=1, more=size) as cluster:
        cluster.start_all()
        with cluster.client() as client:
            client.multicast(bytes(MESSAGE_SIZE_MAX), ["g1"], timeout=60)
            with pytest.raises(MessageTooLarge):
                client.multicast(bytes(MESSAGE_SIZE_MAX + 1), ["g1"])
            cluster.kill("g1.b")
            for _ in range(5):
                client.multicast(bytes(4 << 20), ["g1"], timeout=60)
            cluster.start("g1.b")
            cluster.wait_for_life("g1.b", 1)
            wait_until(
                lambda: (
                    client.multicast(b"small", ["g1"], timeout=60)
                    and cluster.delivered("g1.b", incarnation=1)
                ),
                "it delivers again",
            )
        cluster.stop_all()
        assert cluster.verdicts() == {}
