"""What types and ranges do not say: a message that is well formed and makes no sense. Pure.

The machines of WbCast look things up by what a message says; they would end their own process over
one that no process of the protocol sends. It ends with its sender instead.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from shmcast.errors import Corrupt
from shmcast.multicast.protocols.core import Machine, Message, Wire
from shmcast.multicast.protocols.wbcast import WbCast
from shmcast.multicast.protocols.wbcast_wire import (
    Accept,
    AcceptAck,
    DeliverMsg,
    Lives,
    MulticastMsg,
    NewLeader,
    NewLeaderAck,
    NewState,
    Phase,
)


class Edge:
    """Of one replica. Called for every message that comes in, so it asks no more than it must."""

    def __init__(self, machine: Machine) -> None:
        self._checks: dict[type[Wire], Callable[[Any], None]] = {}
        if isinstance(machine, WbCast):
            self._machine = machine
            self._checks = {
                MulticastMsg: lambda w: self._message(w.m),
                DeliverMsg: lambda w: self._message(w.m),
                Accept: self._accept,
                AcceptAck: self._accept_ack,
                NewLeader: lambda w: self._lives(w.lives),
                NewLeaderAck: self._state,
                NewState: self._state,
            }

    def check(self, wire: Wire) -> None:
        """Corrupt: not from a process that follows the protocol."""
        found = self._checks.get(wire.__class__)
        if found is not None:
            found(wire)

    def _message(self, m: Message) -> None:
        group = self._machine.g0
        if group not in m.dest or any(a >= b for a, b in pairwise(m.dest)):
            raise Corrupt(f"{m.id} for groups {m.dest}, at a member of group {group}")

    def _accept(self, accept: Accept) -> None:
        m = accept.m
        self._message(m)
        if accept.g not in m.dest:
            raise Corrupt(f"an ACCEPT of group {accept.g} for {m.id}, which went to {m.dest}")

    def _accept_ack(self, ack: AcceptAck) -> None:
        m = self._machine.state.messages.get(ack.mid)
        if m is not None and (ack.g not in m.dest or len(ack.bal) != len(m.dest)):
            raise Corrupt(f"a vote of group {ack.g} for {ack.mid}, which went to {m.dest}")

    def _lives(self, lives: Lives) -> None:
        if len(lives) != len(self._machine.peers):
            raise Corrupt(f"lives of {len(lives)} members, and there are {self._machine.peers}")

    def _state(self, wire: NewLeaderAck | NewState) -> None:
        self._lives(wire.lives)
        snapshot = wire.snapshot
        for mid, phase in snapshot.phase.items():
            m = snapshot.messages.get(mid)
            is_whole = mid in snapshot.local_ts and (
                phase is not Phase.COMMITTED or mid in snapshot.global_ts
            )
            if m is None or not is_whole:
                raise Corrupt(f"a snapshot that holds {mid} in part only")
            self._message(m)
