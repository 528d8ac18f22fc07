"""Followers that deliver with their leader, at 3δ: ACCEPT_ACKs go to every member of dest(m).

In Fig. 4 a follower hears of a delivery from its leader, one delay later. Here it does what the
leader does: it waits for L17's quorums and for L21. What makes that sound (docs/decisions/0029):

- *The leader's own vote is part of the quorum.* When leader(b) acknowledges m its clock is at least
  gts(m); what it proposes in b afterwards has a higher local timestamp.
- *Links are FIFO.* NEW_STATE(b), and the ACCEPT of all that leader(b) had proposed before its vote,
  came to us before that vote. So we know every message of b with a local timestamp below gts(m),
  if we keep proposals from the leader's ACCEPT on, and not from the last group's ACCEPT on (L13).
- *Later ballots bring back nothing else.* That is invariant 5; its premise is what we have seen.

The leader still sends DELIVER: to those who miss a vote, and for garbage collection, which counts
nothing else. So a follower that delivers early only ever does sooner what its leader would make it
do, or, if the leader is lost, what invariants 2 and 5 make the next one do.
"""

from __future__ import annotations

from heapq import heappop

from shmcast.multicast.protocols.core import Effect, GroupId, Message, ProcessId, Timestamp
from shmcast.multicast.protocols.wbcast import Acks, Status
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_wire import Accept, AcceptAck, Ballots, DeliverMsg, Phase


class AckMember(Member):
    def decides(self) -> bool:
        return True

    def ack_receivers(self, m: Message, bal: Ballots) -> tuple[ProcessId, ...]:
        return self.topology.members(m.dest)

    def on_accept(self, accept: Accept) -> list[Effect]:
        if accept.g == self.g0 and self.joined and self.may_accept(accept):
            self.note_proposal(accept.m, accept.lts)
        return super().on_accept(accept)

    def note_proposal(self, m: Message, lts: Timestamp) -> None:
        """L7-L8 of the leader, followed. Recovery looks at ACCEPTED and COMMITTED only (L47, L51),
        so this binds nobody."""
        if m.id not in self.state.phase and not self.is_forgotten(m.id):
            self.store(m, Phase.PROPOSED, lts)

    def on_accept_ack(self, ack: AcceptAck, sender: ProcessId) -> list[Effect]:
        s = self.state
        if s.status is Status.LEADER:
            return super().on_accept_ack(ack, sender)
        if s.status is Status.RECOVERING or s.cballot not in ack.bal:  # L18
            return []
        if s.phase.get(ack.mid) is Phase.COMMITTED or self.is_forgotten(ack.mid):
            s.acks.pop(ack.mid, None)
            return []
        # Votes of others may come before the ACCEPT that tells us what m is.
        acks = self.acks_of(ack.mid, self.groups_of(ack.bal), ack.bal)
        acks.voters[ack.g].add(sender)
        if acks.gts is None or not self.is_accepted(acks):
            return []
        return self.commit(s.messages[ack.mid], acks.gts)

    def groups_of(self, bal: Ballots) -> list[GroupId]:
        groups = [self.topology.group_of(b.leader) for b in bal]
        return [g for g in groups if g is not None]

    def is_accepted(self, acks: Acks) -> bool:
        return self.state.cballot.leader in acks.voters[self.g0] and super().is_accepted(acks)

    def deliver_in_order(self) -> list[Effect]:
        """At a follower: called only when the leader of our ballot is known to be in sync with a
        quorum (L63-L65), since it has voted or sent DELIVER in it."""
        s = self.state
        if s.status is Status.LEADER:
            return super().deliver_in_order()
        effects: list[Effect] = []
        while s.committed and self.may_deliver(s.committed[0][0]):
            gts, mid = heappop(s.committed)
            if self.is_new(gts):  # else its DELIVER has come
                effects += self.hand_over(s.messages[mid], gts)
        return effects

    def on_deliver(self, d: DeliverMsg) -> list[Effect]:
        s = self.state
        effects = super().on_deliver(d)
        if s.status is not Status.FOLLOWER or s.cballot != d.b:
            return effects
        s.acks.pop(d.m.id, None)
        self.forget_committed()
        return effects + self.deliver_in_order()
