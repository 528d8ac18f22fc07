"""One to several: three receivers of one mailbox, and one receiver in each of three mailboxes.

In the second every message goes to all three groups, in one order over them and to all or to none.
Peers know no groups: those that fan out by themselves send once, the others three times, and in no
common order.
"""

from __future__ import annotations

from bench.harness import Case, Scale
from bench.peers import shmcast_domain
from bench.peers.base import Peer
from bench.questions.throughput import stream_cases

FAN_OUT = {"fan-out 1 to 3": (1, 3, 64)}
GROUPS = {"1 to 3 groups": (1, 3, 64)}


def cases(peers: list[Peer], scale: Scale) -> list[Case]:
    ours = {peer.name: peer for peer in shmcast_domain.PEERS}
    with_groups = [ours.get(peer.name, peer) for peer in peers]
    return stream_cases(FAN_OUT, peers, scale) + stream_cases(GROUPS, with_groups, scale)
