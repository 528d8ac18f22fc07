"""The domain of a cluster with the engine `eager`: its mailboxes, who makes it, who removes it.

    <cluster>.eager        one domain, `copies` segments, 64 places for senders
      <group>              the group's order: clients send, replicas receive; one that holds
                           them up for longer than hold_ns loses its place
      <group>.ready        nobody sends: who holds a place here is complete, and counts
      founding.lock        one place: whoever holds it may found a group that has no state

A place of a receiver is a record in every copy with its owner's identity, freed by anybody once the
owner is dead. So "who is complete" and the lock survive whatever the domain survives, and need no
other means.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from shmcast._native import lib
from shmcast.errors import ConfigError, Incompatible, MailboxFull, MailboxLost
from shmcast.mailbox.core import Protocol, check, new
from shmcast.mailbox.domain import Domain, Segments, create_box, create_handle
from shmcast.mailbox.mailbox import Mailbox
from shmcast.multicast.run.config import ClusterConfig
from shmcast.realtime.bounds import Bounds

SENDERS = 64  # clients, and replicas while they hand over a state
SPARE_MAX = 16
GROUPS_MAX = 23  # of 48 mailboxes
HEADER_BYTES = 8
_LOCK = "founding.lock"
_SLOT_BYTES_MIN = 256  # room for a piece of a snapshot, however small the messages are
_LANES_BYTES = 1 << 24  # of one group in one copy, about
_CAPACITY_MAX = 256
_RETRY_S = 0.002


def domain_name(config: ClusterConfig) -> str:
    return f"{config.name}.eager"


def box_bytes(config: ClusterConfig) -> int:
    return max(config.message_size, _SLOT_BYTES_MIN) + HEADER_BYTES


def lanes_for_replicas(config: ClusterConfig) -> int:
    """That clients leave free: a replica that comes back needs one for a moment."""
    return min(len(config.replicas), SPARE_MAX)


def _capacity(config: ClusterConfig) -> int:
    fits = _LANES_BYTES // (SENDERS * (box_bytes(config) + 128))
    return max(2, min(_CAPACITY_MAX, 1 << fits.bit_length() - 1 if fits else 2))


def _create(config: ClusterConfig) -> Domain:
    """All of it appears at once, under its name, or not at all."""
    if len(config.groups) > GROUPS_MAX:
        raise ConfigError(
            f"{config.path}: eager has at most {GROUPS_MAX} groups, not {len(config.groups)}: "
            "write fewer, or engine = 'wbcast'"
        )
    name = domain_name(config)
    size = box_bytes(config)
    handle = create_handle(
        name,
        copies=config.copies,
        senders=SENDERS,
        mailboxes=2 * len(config.groups) + 1,
        protocol=Protocol.EAGER,
        bounds=Bounds.default(copies=config.copies, message_bytes=size, protocol="eager"),
        mode=0o600,
        group=None,
    )
    segments = Segments(name, handle)
    try:
        for group in config.groups:  # first, so that a mailbox has its group's number
            places = 2 * len(group.replicas) + 2
            _box(segments, group.name, size, _capacity(config), places, evict=True)
        for group in config.groups:
            _box(segments, f"{group.name}.ready", 0, 2, 2 * len(group.replicas) + 2)
        _box(segments, _LOCK, 0, 2, 1)
        check(lib.sc_domain_publish(handle), name)
    except BaseException:
        segments.close()
        raise
    return Domain(segments)


def _box(
    segments: Segments, name: str, size: int, capacity: int, receivers: int, *, evict: bool = False
) -> None:
    create_box(
        segments.handle,
        name,
        message_size=size,
        capacity=capacity,
        receivers=receivers,
        checksum=True,
        evict=evict,
    )


def _open(config: ClusterConfig) -> Domain:
    domain = Domain.open(domain_name(config))
    try:
        wanted = [group.name for group in config.groups]
        if domain.mailboxes()[: len(wanted)] != wanted or any(
            domain.mailbox(name).message_size != box_bytes(config) for name in wanted
        ):
            raise Incompatible(
                f"{domain.name}: made from another cluster.toml: stop that cluster with "
                "`shmcast down` and its old file, or choose another name"
            )
    except BaseException:
        domain.close()
        raise
    return domain


def open_domain(config: ClusterConfig, deadline: float, *, create: bool) -> Domain:
    """Several replicas may start at once: one creates, the others find it.

    `deadline` in seconds of time.monotonic(). FileNotFoundError if it does not appear.
    """
    while True:
        try:
            return _open(config)
        except (FileNotFoundError, MailboxLost):
            if create:
                with contextlib.suppress(FileExistsError):
                    return _create(config)
            if time.monotonic() >= deadline:
                raise
        except Incompatible:
            if not create or not remove_if_unused(config):
                raise
        time.sleep(_RETRY_S)


def remove(config: ClusterConfig) -> bool:
    """For `shmcast down`, after the replicas have ended. True if there was something."""
    try:
        Domain.remove(domain_name(config))
    except FileNotFoundError:
        return False
    return True


def remove_if_unused(config: ClusterConfig) -> bool:
    """True if no replica of any group lives, and the domain is gone."""
    try:
        with Domain.open(domain_name(config)) as domain:
            domain.reap()
            for name in domain.mailboxes():
                if any(receiver_pids(domain.mailbox(name))):
                    return False
    except (FileNotFoundError, MailboxLost):
        return True
    with contextlib.suppress(FileNotFoundError):
        Domain.remove(domain_name(config))
    return True


def receiver_pids(box: Mailbox) -> Iterator[int]:
    """Who holds a place as receiver; the dead are among them until somebody reaps."""
    handle = box.segments.require()
    params = new("struct sc_mailbox_params *")
    check(lib.sc_mailbox_params(handle, box.index, params), box.name)
    out = new("struct sc_receiver_stats *")
    for slot in range(params.receivers):
        check(lib.sc_mailbox_receiver_stats(handle, box.index, slot, out), box.name)
        if out.held:
            yield int(out.pid)


@contextlib.contextmanager
def founding_lock(domain: Domain) -> Iterator[bool]:
    """False: another living process has it. The dead lose it."""
    try:
        held = domain.mailbox(_LOCK).receiver(timeout=0.05)
    except MailboxFull:
        domain.reap()
        yield False
        return
    try:
        yield True
    finally:
        held.close()
