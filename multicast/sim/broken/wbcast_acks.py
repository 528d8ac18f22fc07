"""WbCast whose followers deliver on ACCEPT_ACKs, with one mistake each: those of wbcast.py, and
those that only a follower that decides for itself can make."""

from __future__ import annotations

from shmcast.multicast.protocols.core import Effect, Message, ProcessId, Timestamp
from shmcast.multicast.protocols.registry import Spec
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import Acks, Status, WbCast
from shmcast.multicast.protocols.wbcast_acks import AckMember
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_specs import build_with
from shmcast.multicast.protocols.wbcast_wire import AcceptAck, NewState
from shmcast.multicast.sim.api import DELTA
from shmcast.multicast.sim.broken.wbcast import MEMBERS, SENDERS, everyone
from shmcast.multicast.sim.churn import STEP_LIMIT, churn
from shmcast.multicast.sim.delays import Constant, Rule, Scripted
from shmcast.multicast.sim.faults import Crash, WrongNomination
from shmcast.multicast.sim.mutants import mutant
from shmcast.multicast.sim.scenario import Scenario
from shmcast.multicast.sim.workload import Submit

PROTOCOL = "wbcast-acks"


class WithoutTheLeader(AckMember):
    def is_accepted(self, acks: Acks) -> bool:
        return WbCast.is_accepted(self, acks)


class ForgetsProposals(AckMember):
    def note_proposal(self, m: Message, lts: Timestamp) -> None:
        pass


class ImpatientFollowers(AckMember):
    def may_deliver(self, gts: Timestamp) -> bool:
        return self.state.status is Status.FOLLOWER or super().may_deliver(gts)


class ForgetsTheNewState(AckMember):
    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:
        effects = super().on_new_state(new, sender)
        if effects:
            self.state.committed = []
            self.state.pending = []
        return effects


class CountsAnyVector(AckMember):
    """All votes for a message add up, whatever their ballots."""

    def on_accept_ack(self, ack: AcceptAck, sender: ProcessId) -> list[Effect]:
        s = self.state
        for bal in list(s.acks.get(ack.mid, {})):
            if s.status is Status.FOLLOWER and bal != ack.bal:
                s.acks[ack.mid][bal].voters[ack.g].add(sender)
        return super().on_accept_ack(ack, sender)


class DeliversOnNewState(AckMember):
    def on_new_state(self, new: NewState, sender: ProcessId) -> list[Effect]:
        effects = super().on_new_state(new, sender)
        return effects + self.deliver_in_order() if effects else effects


def half_a_ballot(spec: Spec, seed: int) -> Scenario:
    """A ballot that reaches one follower of five. x is accepted at p0 and p1, m is committed at all
    and waits for x. p2 becomes a candidate with the votes of p3 and p4, which know x only as
    proposed, and its NEW_STATE, without x, gets to p4 alone. Then p1 leads with p0 and p3: x is
    back, and goes before m. In groups of three a candidate and one follower are a quorum."""
    topology = Topology.regular(groups=2, replicas=5, clients=1)
    first, second, candidate, third, alone = topology.groups[0]
    other_leader, client = topology.groups[1][0], topology.clients[0]
    late, m_at, candidate_at = 100 * DELTA, 2 * DELTA, 10 * DELTA
    delays = (
        *(Rule(late, src=other_leader, dst=p) for p in (candidate, third, alone)),
        *(Rule(late, src=candidate, dst=p) for p in (first, second)),
        Rule(late, src=candidate, dst=third, label="NewState"),
        Rule(late, src=second, dst=alone),
    )
    return Scenario(
        spec=spec,
        topology=topology,
        inputs=(Submit(0, client, (0, 1)), Submit(m_at, client, (0,))),
        faults=(
            _nomination(candidate, candidate_at),
            Crash(candidate, candidate_at + 4 * DELTA),
            _nomination(second, candidate_at + 5 * DELTA),
        ),
        seed=seed,
        delay=Scripted(Constant(DELTA), delays),
        step_limit=STEP_LIMIT,
    )


def _nomination(leader: ProcessId, at: int) -> WrongNomination:
    return WrongNomination(0, leader, at, at + 100 * DELTA, to=frozenset({leader}))


FOLLOWERS: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "without-the-leader",
        "a follower takes any quorum of its group, the leader's vote in it or not",
        "ordering",
        100,
        WithoutTheLeader,
    ),
    (
        "without-the-leader-inside",
        "the same, seen by the invariant",
        "invariant invariant_16",
        20,
        WithoutTheLeader,
    ),
    (
        "forgets-proposals",
        "a follower knows a message only when all its groups have proposed",
        "ordering",
        100,
        ForgetsProposals,
    ),
    (
        "impatient-followers",
        "a follower does not wait for pending local timestamps",
        "ordering",
        20,
        ImpatientFollowers,
    ),
)
CHURN: tuple[tuple[str, str, str, int, type[Member]], ...] = (
    (
        "forgets-the-new-state",
        "a follower does not wait for what a new ballot began with",
        "ordering",
        100,
        ForgetsTheNewState,
    ),
    (
        "counts-any-vector",
        "a follower adds up votes with different ballots",
        "invariant invariant_16",
        100,
        CountsAnyVector,
    ),
)

for name, differs, breaks, seeds, kind in MEMBERS:
    on_acks = type(f"{kind.__name__}OnAcks", (kind, AckMember), {})
    mutant(PROTOCOL, name, differs, breaks=breaks, seeds=seeds, build=build_with(on_acks))
for name, differs, breaks, seeds, change in SENDERS:
    build = everyone(change, build_with(AckMember))
    mutant(PROTOCOL, name, differs, breaks=breaks, seeds=seeds, build=build)
for name, differs, breaks, seeds, kind in FOLLOWERS:
    mutant(PROTOCOL, name, differs, breaks=breaks, seeds=seeds, build=build_with(kind))
for name, differs, breaks, seeds, kind in CHURN:
    mutant(
        PROTOCOL,
        name,
        differs,
        breaks=breaks,
        seeds=seeds,
        build=build_with(kind),
        scenarios=churn,
    )
mutant(
    PROTOCOL,
    "delivers-on-new-state",
    "a follower delivers what NEW_STATE holds before a quorum has it",
    breaks="ordering",
    seeds=1,
    build=build_with(DeliversOnNewState),
    scenarios=half_a_ballot,
)
