"""How many messages a second: one to one, three to one; singly and batched; 4 KiB.

Batched means 64 at a time through a peer's own batch call, at both ends; a peer without one is
not in that row, and the ratio is to the best peer of the single sends as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.harness import Case, Scale
from bench.peers.base import Peer
from bench.questions.streaming import Load, stream

SINGLE, BATCHED = "single", "batched by 64"
# question → senders, receivers, bytes
QUESTIONS = {
    "stream 64 B": (1, 1, 64),
    "fan-in 3 to 1": (3, 1, 64),
    "stream 4 KiB": (1, 1, 4096),
}


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    return stream_cases(QUESTIONS, peers, scale)


def stream_cases(
    questions: Mapping[str, tuple[int, int, int]], peers: list[Peer], scale: Scale
) -> list[Case]:
    found = []
    for question, (senders, receivers, size) in questions.items():
        for case in (SINGLE, BATCHED):
            batched = case == BATCHED
            load = Load(
                senders,
                receivers,
                size,
                send_batched=batched,
                receive_batched=batched,
                chunk=256 if size > 1024 or not scale.seconds else 1024,
                seconds=scale.seconds,
            )
            found += [
                Case(question, case, peer.name, peer.copies, partial(stream, peer, load))
                for peer in peers
                if (peer.batches or not batched)
            ]
    return found
