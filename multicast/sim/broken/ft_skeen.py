"""Fault-tolerant Skeen and FastCast with one mistake each, and Paxos below them."""

from __future__ import annotations

from collections.abc import Callable

from shmcast.multicast.protocols.core import (
    Effect,
    LocalTime,
    Machine,
    Message,
    ProcessId,
    Send,
    Timestamp,
)
from shmcast.multicast.protocols.fastcast import FastCast
from shmcast.multicast.protocols.ft_skeen import FtSkeen, build_with
from shmcast.multicast.protocols.paxos import Paxos, Promise
from shmcast.multicast.protocols.registry import Build, Options
from shmcast.multicast.protocols.stack import Stack
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_session import Client
from shmcast.multicast.protocols.wbcast_wire import Ballot, MulticastMsg
from shmcast.multicast.sim.churn import churn
from shmcast.multicast.sim.mutants import mutant

Change = Callable[[FtSkeen, Paxos], None]


def impatient(skeen: FtSkeen, paxos: Paxos) -> None:
    skeen.may_deliver = lambda gts: True  # type: ignore[method-assign]


def clock_not_advanced(skeen: FtSkeen, paxos: Paxos) -> None:
    skeen.clock_after = lambda gts: skeen.state.clock  # type: ignore[method-assign]


def own_timestamp(skeen: FtSkeen, paxos: Paxos) -> None:
    whole = skeen.commit

    def commit(m: Message, gts: Timestamp) -> list[Effect]:
        return whole(m, skeen.state.local_ts[m.id])

    skeen.commit = commit  # type: ignore[method-assign]


def delivers_again(skeen: FtSkeen, paxos: Paxos) -> None:
    once = skeen.on_deliver

    def on_deliver(m: Message, gts: Timestamp) -> list[Effect]:
        skeen.state.max_delivered_gts = Timestamp(-1, -1)
        return once(m, gts)

    skeen.on_deliver = on_deliver  # type: ignore[method-assign]


def skips_some(skeen: FtSkeen, paxos: Paxos) -> None:
    """A follower keeps every third message for itself."""
    whole = skeen.on_deliver

    def on_deliver(m: Message, gts: Timestamp) -> list[Effect]:
        last = skeen.me == skeen.peers[-1]
        return [] if last and m.id.seq % 3 == 0 else whole(m, gts)

    skeen.on_deliver = on_deliver  # type: ignore[method-assign]


def tells_everyone(skeen: FtSkeen, paxos: Paxos) -> None:
    whole = skeen.propose
    everyone = skeen.topology.members(tuple(range(len(skeen.topology.groups))))

    def propose(m: Message) -> list[Effect]:
        return [Send(e.message, everyone) for e in whole(m) if isinstance(e, Send)]

    skeen.propose = propose  # type: ignore[method-assign]


def no_barrier(skeen: FtSkeen, paxos: Paxos) -> None:
    skeen.is_current = lambda entry: True  # type: ignore[method-assign]
    skeen.on_leads = lambda ballot: skeen.take_over()  # type: ignore[method-assign]


def accepts_any_ballot(skeen: FtSkeen, paxos: Paxos) -> None:
    paxos.may_accept = lambda b: True  # type: ignore[method-assign]


def forgets_accepted(skeen: FtSkeen, paxos: Paxos) -> None:
    def nothing(votes: list[Promise]) -> dict[int, object]:
        return {}

    paxos.safe_values = nothing  # type: ignore[method-assign]


def takes_any_accepted(skeen: FtSkeen, paxos: Paxos) -> None:
    """Of each slot the value accepted in the lowest ballot."""

    def lowest(votes: list[Promise]) -> dict[int, object]:
        found: dict[int, tuple[Ballot, object]] = {}
        for vote in votes:
            for slot, (b, value) in vote.accepted.items():
                if slot not in found or b < found[slot][0]:
                    found[slot] = (b, value)
        return {slot: value for slot, (_, value) in found.items()}

    paxos.safe_values = lowest  # type: ignore[method-assign]


def sends_once(client: Client) -> None:
    def never(now: LocalTime) -> list[Effect]:
        return []

    client.sender.on_timer = never  # type: ignore[method-assign]


def sends_half(client: Client) -> None:
    """Every fourth message goes to its first group only, and is never repeated."""
    sends_once(client)
    whole = client.sender.multicast

    def half(m: Message, now: LocalTime) -> list[Effect]:
        effects = whole(m, now)
        if m.id.seq % 4:
            return effects
        leader = client.sender.cur_leader[m.dest[0]]
        return [Send(MulticastMsg(m), (leader,)) if isinstance(e, Send) else e for e in effects]

    client.sender.multicast = half  # type: ignore[method-assign]


def members(kind: type[FtSkeen], change: Change) -> Build:
    whole = build_with(kind)

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        machine = whole(process, topology, options)
        assert isinstance(machine, Stack)
        if "paxos" in machine.modules:
            skeen, paxos = machine["skeen"], machine["paxos"]
            assert isinstance(skeen, FtSkeen) and isinstance(paxos, Paxos)
            change(skeen, paxos)
        return machine

    return build


def clients(kind: type[FtSkeen], change: Callable[[Client], None]) -> Build:
    whole = build_with(kind)

    def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
        machine = whole(process, topology, options)
        assert isinstance(machine, Stack)
        client = machine["skeen"]
        if isinstance(client, Client):
            change(client)
        return machine

    return build


MEMBERS: tuple[tuple[str, str, str, int, Change], ...] = (
    ("impatient", "L20-L21 do not wait for pending timestamps", "ordering", 20, impatient),
    ("clock-not-advanced", "L15 does not advance the clock", "ordering", 30, clock_not_advanced),
    ("own-timestamp", "L14 takes the own proposal", "timestamp-order", 10, own_timestamp),
    ("two-orders", "the same as own-timestamp", "uniform-global-total", 30, own_timestamp),
    ("delivers-again", "a repeated delivery counts", "uniform-integrity", 20, delivers_again),
    ("skips-some", "one follower drops messages", "uniform-agreement", 10, skips_some),
    ("tells-everyone", "PROPOSE goes to all groups", "genuineness", 10, tells_everyone),
    (
        "paxos-forgets-accepted",
        "a new Paxos leader ignores what was accepted",
        "invariant logs_agree",
        100,
        forgets_accepted,
    ),
    (
        "paxos-accepts-any-ballot",
        "a Paxos acceptor breaks its promise",
        "invariant logs_agree",
        100,
        accepts_any_ballot,
    ),
)
CHURN: tuple[tuple[str, str, str, int, Change], ...] = (
    (
        "paxos-takes-any-accepted",
        "a new Paxos leader takes the oldest accepted value",
        "invariant logs_agree",
        300,
        takes_any_accepted,
    ),
    ("no-barrier", "a leader does not fence what it does not know", "ordering", 300, no_barrier),
)

for protocol, kind in (("ft-skeen", FtSkeen), ("fastcast", FastCast)):
    for name, differs, breaks, seeds, change in MEMBERS:
        mutant(protocol, name, differs, breaks=breaks, seeds=seeds, build=members(kind, change))
    for name, differs, breaks, seeds, change in CHURN:
        mutant(
            protocol,
            name,
            differs,
            breaks=breaks,
            seeds=seeds,
            build=members(kind, change),
            scenarios=churn,
        )
    mutant(
        protocol,
        "sends-once",
        "a sender never repeats a multicast",
        breaks="multicast-validity",
        seeds=60,
        build=clients(kind, sends_once),
    )
    mutant(
        protocol,
        "sends-half",
        "some multicasts reach their first group only",
        breaks="termination",
        seeds=60,
        build=clients(kind, sends_half),
    )
