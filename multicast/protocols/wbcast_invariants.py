"""The 20 invariants of paper 000 (Fig. 6 and appendix A) over the global state, after each step.

Each is checked where the step can have broken it: at its own process, for the messages it
touched, or for a whole state where a ballot changed. Where the paper's own wording does not hold
for its own protocol, or garbage collection changes what it can mean, a comment starts with
DEVIATION. Invariant 6 speaks of the end of a run: see `invariant_6`.
"""

from __future__ import annotations

from collections.abc import Iterator

from shmcast.multicast.protocols.core import MessageId, ProcessId, Reply, Restart, Timestamp
from shmcast.multicast.protocols.quorum import majority
from shmcast.multicast.protocols.registry import Invariant, World
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Status
from shmcast.multicast.protocols.wbcast_history import History, LocalTS, Sent, Vote
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_rejoin import Missed
from shmcast.multicast.protocols.wbcast_wire import Ballot, Ballots, Phase

Kept = tuple[Ballot, Phase, Timestamp]  # of one message at one process: cballot, phase, LocalTS


class Invariants:
    """One run's. `observe` must come first and `remember` last."""

    def __init__(self) -> None:
        self.past = History(Topology(()))
        self.here: tuple[Member, ...] = ()  # the member that made the last step, if it lives
        self.touched: list[tuple[Member, MessageId]] = []  # by that step
        self.ballots: dict[ProcessId, tuple[Ballot, Ballot, int]] = {}  # ballot, cballot, clock
        self.kept: dict[tuple[ProcessId, MessageId], Kept] = {}
        self.owners: dict[Timestamp, MessageId] = {}  # of global timestamps

    def observe(self, world: World) -> None:
        past = self.past
        if past.steps == 0:
            past.topology = world.topology
        if world.step is not None and isinstance(world.step.event, Restart):
            self._forget_life(world.step.process)
        past.observe(world)
        machine = past.last.machine
        self.here = () if machine is None else (machine,)
        self.touched = [
            (m, mid) for m in self.here for mid in past.last.touched if mid in m.state.phase
        ]

    # Fig. 6 -------------------------------------------------------------------------------

    def invariant_1(self, world: World) -> None:
        """ACCEPT(m, g, b, lts₁) and ACCEPT(m, g, b, lts₂) sent ⇒ lts₁ = lts₂."""
        for a in self.past.last.accepts:
            first = self.past.accepts.get((a.m.id, a.g, a.bal), a.lts)
            assert first == a.lts, f"{a.m.id} has {first} and {a.lts} in {a.bal}"

    def invariant_2(self, world: World) -> None:
        """What a quorum of g accepted in Bal(g) is there in every higher ballot, with its local
        timestamp, and the clock is past it."""
        for machine, vote in self._accepted_below(world):
            s, mid = machine.state, vote.mid
            assert s.clock >= vote.gts.time, f"(c) clock {s.clock} below {vote.gts} of {mid}"
            # DEVIATION: collected, after the group committed it, and the member knows.
            if machine.is_forgotten(mid) and self.past.was_collected(machine.g0, mid):
                continue
            phase = s.phase.get(mid, Phase.START)
            assert phase >= Phase.ACCEPTED, f"(a) {mid} is lost, accepted in {vote.own}"
            assert s.local_ts[mid] == vote.lts, f"(b) {mid}: {s.local_ts[mid]}, was {vote.lts}"

    def _accepted_below(self, world: World) -> Iterator[tuple[Member, Vote]]:
        """Pairs that this step made: a new ballot somewhere, or a new quorum in an old one."""
        if self.past.last.ballot_changed:
            for machine in self.here:
                for vote in self.past.accepted_below(machine.g0, machine.state.cballot):
                    yield machine, vote
        for vote in self.past.last.accepted:
            for process in world.topology.groups[vote.g]:
                machine_of = world.machines.get(process)
                if isinstance(machine_of, Member) and machine_of.state.cballot > vote.own:
                    yield machine_of, vote

    def invariant_3(self, world: World) -> None:
        """All DELIVERs of m carry one global timestamp, and one local timestamp per group."""
        for sent in self.past.last.delivers:
            for other in self.past.delivers[sent.d.m.id]:
                assert other.d.gts == sent.d.gts, f"(b) {other.d} and {sent.d}"
                assert other.g != sent.g or other.d.lts == sent.d.lts, f"(a) {other.d}, {sent.d}"

    def invariant_4(self, world: World) -> None:
        """Two messages never share a global timestamp."""
        for sent in self.past.last.delivers:
            owner = self.owners.setdefault(sent.d.gts, sent.d.m.id)
            assert owner == sent.d.m.id, f"{owner} and {sent.d.m.id} share {sent.d.gts}"

    def invariant_5(self, world: World) -> None:
        """If leader(Bal(g)) is among those who accepted m, no later ballot holds a message with a
        local timestamp below m's global one that this leader did not know."""
        if not self.touched:
            return
        for machine in self.here:
            for vote in self.past.accepted_below(machine.g0, machine.state.cballot):
                if vote.leader_had is not None:
                    self._condition_3(machine, vote.gts, vote.leader_had, vote.leader_at)

    def _condition_3(self, machine: Member, gts: Timestamp, known: LocalTS, at: int) -> None:
        for _, mid in self.touched:
            lts = machine.state.local_ts[mid]
            if lts >= gts or known.get(mid) == lts:
                continue
            # DEVIATION: what was collected before is known all the same.
            assert self._delivered_before(machine, mid, lts, at), (
                f"{mid} at {lts} comes back below {gts}"
            )

    def _delivered_before(self, machine: Member, mid: MessageId, lts: Timestamp, at: int) -> bool:
        sent = self.past.delivers[mid]
        return any(x.g == machine.g0 and x.d.lts == lts and x.at < at for x in sent)

    # Appendix A ---------------------------------------------------------------------------

    def invariant_7(self, world: World) -> None:
        """What has a phase has been multicast."""
        for _, mid in self.touched:
            assert mid in self.past.multicast, f"{mid} comes from nowhere"

    def invariant_8(self, world: World) -> None:
        """ballot and cballot never decrease."""
        for machine in self.here:
            ballot, cballot, _ = self._before(machine)
            s = machine.state
            assert s.ballot >= ballot, f"ballot falls from {ballot} to {s.ballot}"
            assert s.cballot >= cballot, f"cballot falls from {cballot} to {s.cballot}"

    def _before(self, machine: Member) -> tuple[Ballot, Ballot, int]:
        s = machine.state
        return self.ballots.get(machine.me, (s.ballot, s.cballot, s.clock))

    def invariant_9(self, world: World) -> None:
        """cballot ≤ ballot."""
        for machine in self.here:
            assert machine.state.cballot <= machine.state.ballot

    def invariant_10(self, world: World) -> None:
        """Within one cballot a phase never falls."""
        for machine, mid in self.touched:
            kept = self.kept.get((machine.me, mid))
            if kept is not None and kept[0] == machine.state.cballot:
                assert machine.state.phase[mid] >= kept[1], f"{mid} was {kept[1].name}"

    def invariant_11(self, world: World) -> None:
        """Within one cballot the clock never falls."""
        for machine in self.here:
            _, cballot, clock = self._before(machine)
            assert cballot != machine.state.cballot or machine.state.clock >= clock

    def invariant_12(self, world: World) -> None:
        """Within one cballot a local timestamp never changes."""
        for machine, mid in self.touched:
            kept = self.kept.get((machine.me, mid))
            if kept is not None and kept[0] == machine.state.cballot:
                assert machine.state.local_ts[mid] == kept[2], f"{mid} had {kept[2]}"

    def invariant_13(self, world: World) -> None:
        """COMMITTED ⇒ LocalTS ≤ GlobalTS."""
        for machine, mid in self.touched:
            s = machine.state
            if s.phase[mid] is Phase.COMMITTED:
                assert s.local_ts[mid] <= s.global_ts[mid]

    def invariant_14(self, world: World) -> None:
        """COMMITTED ⇒ clock ≥ time(GlobalTS)."""
        for machine, mid in self.touched:
            s = machine.state
            if s.phase[mid] is Phase.COMMITTED:
                assert s.clock >= s.global_ts[mid].time, f"{s.clock} below {s.global_ts[mid]}"

    def invariant_15(self, world: World) -> None:
        """Who acknowledges in ballot b holds nothing that leader(b) has not held in b.

        DEVIATION: the paper says "when the leader sent the corresponding ACCEPT". If the ACCEPT
        of another group comes late, later ACCEPTs of the own leader have come before it, and
        LocalTS holds those as well. Its proofs need the weaker form only.
        """
        if not self.past.last.acks:
            return
        for machine in self.here:
            held = self.past.held[machine.g0, machine.state.cballot]
            for mid, lts in machine.state.local_ts.items():
                assert held.get(mid) == lts, f"{mid} at {lts}: the leader has {held.get(mid)}"

    def invariant_16(self, world: World) -> None:
        """COMMITTED with lts, gts ⇒ DELIVER(m, b, lts, gts) was sent to the group, b ≤ ballot.

        DEVIATION: between L20 and L23 a message may wait for those before it. Then no DELIVER
        was sent yet; what invariant 17 says of one holds already.
        """
        for machine, mid in self.touched:
            s = machine.state
            if s.phase[mid] is not Phase.COMMITTED:
                continue
            lts, gts = s.local_ts[mid], s.global_ts[mid]
            sent = [*self.past.delivers[mid], *self.past.last.delivers]
            if not any(self._matches(machine, x, mid, lts, gts) for x in sent):
                self._has_quorums(world, machine, mid, lts, gts)

    def _matches(
        self, machine: Member, sent: Sent, mid: MessageId, lts: Timestamp, gts: Timestamp
    ) -> bool:
        d = sent.d
        same = d.m.id == mid and sent.g == machine.g0 and d.lts == lts and d.gts == gts
        return same and d.b <= machine.state.ballot

    def invariant_17(self, world: World) -> None:
        """A DELIVER rests on quorums of all destination groups with one vector of ballots."""
        for machine in self.here:
            for sent in self.past.last.delivers:
                self._has_quorums(world, machine, sent.d.m.id, sent.d.lts, sent.d.gts)

    def _has_quorums(
        self, world: World, machine: Member, mid: MessageId, lts: Timestamp, gts: Timestamp
    ) -> None:
        by_ballots: dict[Ballots, list[Vote]] = {}
        for vote in self.past.by_message[mid]:
            by_ballots.setdefault(vote.bal, []).append(vote)
        for bal, votes in by_ballots.items():
            own = next((v for v in votes if v.g == machine.g0), None)
            if (
                own is not None
                and len(votes) == len(bal)
                and (own.lts, own.gts) == (lts, gts)
                and own.own <= machine.state.ballot
                and own.own.leader in own.voters
            ):
                return
        raise AssertionError(f"{mid} is committed at {gts} without quorums")

    def invariant_18(self, world: World) -> None:
        """As 5, for a NEW_STATE that a quorum acknowledged."""
        if not self.touched:
            return
        for machine in self.here:
            enough = majority(len(machine.peers))
            for (g, b), sync in self.past.syncs.items():
                later = g == machine.g0 and machine.state.cballot > b
                if later and len(sync.voters) >= enough and sync.gts is not None:
                    self._condition_3(machine, sync.gts, sync.local_ts, sync.at)

    def invariant_19(self, world: World) -> None:
        """Two quorums of g that accepted m accepted it with one local timestamp of g."""
        for vote in self.past.last.accepted:
            for other in self.past.by_message[vote.mid]:
                assert other.g != vote.g or other.lts == vote.lts, f"{other.lts}, {vote.lts}"

    def invariant_20(self, world: World) -> None:
        """The timestamps in LocalTS are distinct."""
        for machine in self.here:
            s = machine.state
            if any(self.kept.get((machine.me, mid)) is None for mid in self.past.last.touched):
                assert len(set(s.local_ts.values())) == len(s.local_ts), f"{s.local_ts}"

    # Ours ---------------------------------------------------------------------------------

    def only_the_suspected_are_left_behind(self, world: World) -> None:
        """wbcast_gc.py: nothing is dropped that somebody needs whom the leader that dropped it had
        not suspected for long."""
        assert world.step is not None
        for effect in world.step.effects:
            if isinstance(effect, Reply) and isinstance(effect.what, Missed):
                gts = effect.what.gts
                assert self.past.may_miss(world.step.process, gts), f"{effect.what}"

    def remember(self, world: World) -> None:
        self.past.remember()
        for machine in self.here:
            s = machine.state
            self.ballots[machine.me] = (s.ballot, s.cballot, s.clock)
            for mid in self.past.last.touched:
                if mid in s.phase:
                    self.kept[machine.me, mid] = (s.cballot, s.phase[mid], s.local_ts[mid])
                else:
                    self.kept.pop((machine.me, mid), None)

    def _forget_life(self, process: ProcessId) -> None:
        self.ballots.pop(process, None)
        self.past.cballots.pop(process, None)
        for key in [key for key in self.kept if key[0] == process]:
            del self.kept[key]


def invariants() -> list[Invariant]:
    one_run = Invariants()
    numbered = [getattr(one_run, f"invariant_{n}") for n in range(1, 21) if n != 6]
    ours = [one_run.only_the_suspected_are_left_behind]
    return [one_run.observe, *numbered, *ours, one_run.remember]


def invariant_6(world: World) -> None:
    """At the end of a run every group has a leader that a quorum of it follows."""
    for members in world.topology.groups:
        alive = [world.machines[p] for p in members if p in world.machines]
        followed: dict[Ballot, int] = {}
        for machine in alive:
            assert isinstance(machine, Member)
            if machine.state.status is not Status.RECOVERING:
                followed[machine.state.cballot] = followed.get(machine.state.cballot, 0) + 1
        assert any(
            count >= majority(len(members)) and _leads(world, ballot)
            for ballot, count in followed.items()
        ), f"no leader in {members}"


def _leads(world: World, ballot: Ballot) -> bool:
    leader = world.machines.get(ballot.leader)
    return (
        isinstance(leader, Member)
        and leader.state.status is Status.LEADER
        and leader.state.cballot == ballot
    )
