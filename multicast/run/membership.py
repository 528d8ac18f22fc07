"""Coming and going of a replica with the engine `dab`: it joins, and leaves before it ends.

Nobody is a member from the start: each life joins as an incarnation of its own, also the first
ones, which then begin the order together. Who finds no member that began before it founds the
group; everybody else takes over a state from one of those.

Safe when late: a slot's flush that leaves later than Δ after its slot has broken the promise that
all bounds rest on. The others will agree that this life is over, so it ends at once, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shmcast.errors import DeadlineMissed
from shmcast.multicast.protocols.core import (
    Event,
    LocalTime,
    Machine,
    ProcessId,
    Request,
    TimerName,
)
from shmcast.multicast.protocols.dab import SLOT, Dab
from shmcast.multicast.protocols.dab_messages import (
    Doubt,
    Expelled,
    Join,
    JoinOK,
    Leave,
    LeaveOK,
)
from shmcast.multicast.protocols.registry import lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.run.options import timing_of


def machine_of(
    engine: str, me: ProcessId, topology: Topology, options: Mapping[str, int]
) -> Machine:
    """One process of the protocol, with what cluster.toml says of it."""
    spec = lookup(engine)
    if engine == "dab":
        agreed = {"timing": timing_of(options), "burst_max": options["burst"]}
        return spec.build(me, topology, {"initially": (), **agreed})
    return spec.build(me, topology, options)


class Membership:
    """`founds` is called when this replica begins the group."""

    def __init__(
        self,
        machine: Machine,
        handle: Callable[[Event], None],
        *,
        founds: Callable[[], None],
    ) -> None:
        assert isinstance(machine, Dab)
        self._dab, self._handle = machine, handle
        self._founds = founds
        self.joined = False  # and not about to leave
        self.left = False
        self.doubts = 0

    def join(self, life: int) -> None:
        self._handle(Request(Join(life + 1)))

    def leave(self) -> None:
        """Ends with `left`; the order goes on meanwhile."""
        if self.joined:
            self.joined = False
            self._handle(Request(Leave()))
        else:
            self.left = True

    def answered(self, what: object) -> None:
        match what:
            case JoinOK():
                self.joined = True
                if not self._is_preceded():
                    self._founds()
            case LeaveOK():
                self.left = True
            case Doubt():
                self.doubts += 1  # §10: the order goes on, perhaps with a gap for that peer
            case Expelled():
                raise DeadlineMissed(
                    "the others agreed that this replica has failed, it was silent for longer than "
                    "delta_ms allows: start it again, it joins anew; or raise delta_ms"
                )

    def _is_preceded(self) -> bool:
        dab = self._dab
        return any(
            peer.process != dab.me and peer.joined < dab.joins_at and peer.cut is None
            for peer in dab.ordering.everyone()
        )

    def check(self, name: TimerName, at: LocalTime, now: LocalTime) -> None:
        """A timer is carried out now that was due at `at`."""
        if name == SLOT and self._dab.delivers and now - at > self._dab.timing.delta:
            raise DeadlineMissed(
                f"this replica was {(now - at) / 1000:.0f} ms late, more than delta_ms allows, and "
                "the others do without it: start it again, it joins anew; or raise delta_ms"
            )
