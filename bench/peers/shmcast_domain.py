"""A domain of shmcast: one send to several mailboxes, in one order over all, all or nothing."""

from __future__ import annotations

import contextlib
from functools import partial

from bench.peers.base import Channel, Peer, ReceivingEnd, SendingEnd, unique_name
from bench.peers.shmcast_mailbox import called, receiving_end, slots_for


class DomainChannel(Channel):
    """Receiver i has mailbox i for itself."""

    def __init__(self, senders: int, receivers: int, size: int, wait: str, copies: int) -> None:
        from shmcast import Domain

        self._wait = wait
        self.name = unique_name()
        self._boxes = [f"box{index}" for index in range(receivers)]
        with Domain.create(self.name, copies=copies, senders=senders) as domain:
            for box in self._boxes:
                domain.create_mailbox(box, message_size=size, capacity=slots_for(size))

    def sender(self, index: int) -> SendingEnd:
        from shmcast import Domain

        domain = Domain.open(self.name)
        sender = domain.sender()
        to = tuple(self._boxes)
        return SendingEnd(
            partial(sender.send, to=to), partial(sender.send_many, to=to), domain.close
        )

    def receiver(self, index: int) -> ReceivingEnd:
        from shmcast import Mailbox

        return receiving_end(Mailbox.open(f"{self.name}/{self._boxes[index]}"), self._wait)

    def close(self) -> None:
        from shmcast import Domain
        from shmcast.errors import ShmcastError

        with contextlib.suppress(ShmcastError, FileNotFoundError):
            Domain.remove(self.name)


def domain_peer(copies: int) -> Peer:
    return Peer(
        called(copies),
        partial(DomainChannel, copies=copies),
        fans_out=True,
        stream_wait="adaptive",
        batches=True,
        copies=copies,
    )


PEERS = [domain_peer(1), domain_peer(3)]
