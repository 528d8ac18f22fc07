"""Every peer, ours last."""

from __future__ import annotations

from bench.peers import (
    fifo,
    iceoryx,
    multiprocessing_pipe,
    multiprocessing_queue,
    posix_mq,
    shmcast_mailbox,
    unix_seqpacket,
    zeromq,
)
from bench.peers.base import Peer

_MODULES = (
    unix_seqpacket,
    multiprocessing_pipe,
    multiprocessing_queue,
    posix_mq,
    zeromq,
    fifo,
    iceoryx,
    shmcast_mailbox,
)


def every_peer() -> list[Peer]:
    return [peer for module in _MODULES for peer in module.PEERS]


def missing_peers() -> dict[str, str]:
    return {peer.name: why for peer in every_peer() if (why := peer.missing())}


def present_peers() -> list[Peer]:
    return [peer for peer in every_peer() if peer.missing() is None]
