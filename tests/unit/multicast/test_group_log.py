"""Consensus within a group, with learners outside (paper 002 §2.2, §6)."""

from dataclasses import dataclass

from shmcast.multicast.protocols.core import (
    Effect,
    Event,
    MessageId,
    Nominate,
    Receive,
    Reply,
    Request,
    Send,
    Start,
)
from shmcast.multicast.protocols.group_log import (
    Accept,
    Accepted,
    Append,
    Ballot,
    Follows,
    GroupLog,
    Leads,
    Learned,
    NewLeader,
    NewLog,
    Promise,
    Refused,
    Slot,
)
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.sim.api import DELTA, simulate
from shmcast.multicast.sim.delays import Constant, SlowLinks
from shmcast.multicast.sim.faults import Crash
from shmcast.multicast.sim.workload import Submit

TOPOLOGY = Topology.regular(groups=3, replicas=3)
FIRST, SECOND = Ballot(0, 0), Ballot(1, 1)


@dataclass(frozen=True)
class Text:
    text: str
    to: tuple[int, ...] = ()

    def about(self) -> tuple[MessageId, ...]:
        return ()


A, B = Text("a", to=(1,)), Text("b", to=(1, 2))
SLOT_A, SLOT_B = Slot(0, A, (0,)), Slot(1, B, (1, 0))


def member(process: int, *events: Event) -> GroupLog:
    group = TOPOLOGY.group_of(process)
    assert group is not None
    found = GroupLog(TOPOLOGY, process, group)
    for event in (Start(), *events):
        found.handle(event, 0)
    return found


def sends(effects: list[Effect]) -> list[Send]:
    return [e for e in effects if isinstance(e, Send)]


def replies(effects: list[Effect]) -> list[object]:
    return [e.what for e in effects if isinstance(e, Reply)]


def test_first_member_leads_from_the_start() -> None:
    assert replies(GroupLog(TOPOLOGY, 0, 0).handle(Start(), 0)) == [Leads(())]
    assert GroupLog(TOPOLOGY, 1, 0).handle(Start(), 0) == []


def test_values_are_numbered_for_each_group_that_learns_them() -> None:
    leader = member(0, Request(Append(A)))
    accept, accepted = sends(leader.handle(Request(Append(B)), 0))
    assert accept == Send(Accept(FIRST, SLOT_B), (1, 2))
    assert accepted == Send(Accepted(FIRST, 0, (SLOT_B,)), tuple(range(9)))


def test_follower_appends_nothing() -> None:
    assert member(1).handle(Request(Append(A)), 0) == []


def test_value_is_learned_with_the_second_of_three_votes() -> None:
    learner = member(3)
    vote = Accepted(FIRST, 0, (SLOT_A,))
    assert learner.handle(Receive(vote, 0), 0) == []
    assert learner.handle(Receive(vote, 0), 0) == [], "one process has one vote"
    assert replies(learner.handle(Receive(vote, 2), 0)) == [Learned(0, A)]
    assert learner.handle(Receive(vote, 1), 0) == []


def test_votes_of_two_ballots_do_not_add_up() -> None:
    learner = member(3, Receive(Accepted(FIRST, 0, (SLOT_A,)), 0))
    assert learner.handle(Receive(Accepted(SECOND, 0, (SLOT_A,)), 1), 0) == []


def test_another_group_learns_in_the_order_of_the_log() -> None:
    learner = member(3)
    for voter in (0, 1):
        assert learner.handle(Receive(Accepted(FIRST, 0, (SLOT_B,)), voter), 0) == []
    learner.handle(Receive(Accepted(FIRST, 0, (SLOT_A,)), 0), 0)
    last = learner.handle(Receive(Accepted(FIRST, 0, (SLOT_A,)), 1), 0)
    assert replies(last) == [Learned(0, A), Learned(0, B)]


def test_new_leader_takes_the_longest_log_of_the_highest_ballot() -> None:
    candidate = member(1, Nominate(0, 1), Receive(NewLeader(SECOND), 1))
    candidate.handle(Receive(Promise(SECOND, FIRST, (SLOT_A,)), 1), 0)
    effects = candidate.handle(Receive(Promise(SECOND, FIRST, (SLOT_A, SLOT_B)), 2), 0)
    assert effects == [Send(NewLog(SECOND, (SLOT_A, SLOT_B)), (0, 1, 2))]


def test_new_log_is_voted_on_again() -> None:
    """Votes of the ballot before may be lost with their voters."""
    follower = member(2)
    effects = sends(follower.handle(Receive(NewLog(SECOND, (SLOT_A, SLOT_B)), 1), 0))
    assert effects == [
        Send(Accepted(SECOND, 0, (SLOT_A, SLOT_B)), (0, 1, 2)),
        Send(Accepted(SECOND, 0, (SLOT_A, SLOT_B)), (3, 4, 5)),
        Send(Accepted(SECOND, 0, (SLOT_B,)), (6, 7, 8)),
    ]


def test_new_leader_goes_on_numbering_where_the_log_ends() -> None:
    leader = member(1, Receive(NewLog(SECOND, (SLOT_A,)), 1))
    accept = sends(leader.handle(Request(Append(B)), 0))[0]
    assert accept.message == Accept(SECOND, SLOT_B)


def test_old_leader_steps_down_when_it_promises() -> None:
    leader = member(0, Nominate(0, 1))
    assert Follows() in replies(leader.handle(Receive(NewLeader(SECOND), 1), 0))
    assert leader.handle(Request(Append(A)), 0) == []


def test_accept_of_an_old_ballot_is_not_voted_for() -> None:
    follower = member(2, Receive(NewLeader(SECOND), 1))
    effects = follower.handle(Receive(Accept(FIRST, SLOT_A), 0), 0)
    assert effects == [Send(Refused(SECOND), (0,))]


def test_lower_ballot_is_refused_with_the_higher_one() -> None:
    follower = member(2, Receive(NewLeader(Ballot(5, 1)), 1))
    refused = follower.handle(Receive(NewLeader(SECOND), 1), 0)
    assert refused == [Send(Refused(Ballot(5, 1)), (1,))]


def test_refused_candidate_tries_above_the_ballot_it_was_told() -> None:
    candidate = member(1, Nominate(0, 1), Receive(NewLeader(SECOND), 1))
    effects = candidate.handle(Receive(Refused(Ballot(5, 2)), 2), 0)
    assert effects == [Send(NewLeader(Ballot(6, 1)), (0, 1, 2))]


def test_nominated_process_insists_against_another_candidate() -> None:
    """If the other one led and then died, leader selection would name nobody new."""
    leader = member(0)
    effects = sends(leader.handle(Receive(NewLeader(SECOND), 1), 0))
    assert Send(NewLeader(Ballot(2, 0)), (0, 1, 2)) in effects


def test_refused_leader_does_not_lead_on_in_the_ballot_of_another() -> None:
    """It took the other's log for its own, and both appended to it."""
    old = member(0, Nominate(0, 1))
    assert replies(old.handle(Receive(Refused(SECOND), 2), 0)) == [Follows()]
    promised = sends(old.handle(Receive(NewLeader(SECOND), 1), 0))
    assert promised == [Send(Promise(SECOND, FIRST, ()), (1,))]
    old.handle(Receive(NewLog(SECOND, (SLOT_A,)), 1), 0)
    assert old.handle(Request(Append(B)), 0) == []


def test_leader_hears_of_a_candidate_that_died_before_it_asked_it() -> None:
    follower = member(1, Receive(NewLeader(Ballot(1, 2)), 2))
    for late in (Accept(FIRST, SLOT_A), NewLog(FIRST, (SLOT_A,))):
        effects = follower.handle(Receive(late, 0), 0)
        assert effects == [Send(Refused(Ballot(1, 2)), (0,))]
    leader = member(0)
    effects = leader.handle(Receive(Refused(Ballot(1, 2)), 1), 0)
    assert effects == [Reply(Follows()), Send(NewLeader(Ballot(2, 0)), (0, 1, 2))]


def test_candidate_does_not_start_again_for_each_refusal() -> None:
    candidate = member(0, Receive(Refused(SECOND), 1))
    assert candidate.handle(Receive(Refused(SECOND), 2), 0) == []


def test_run_is_not_closed_while_a_leader_change_waits_on_a_slow_link() -> None:
    topology = Topology.regular(groups=1, replicas=3)
    slow = SlowLinks(Constant(DELTA), frozenset({(1, 2), (2, 1)}), factor=60)
    run = simulate(
        "baseline-null",
        topology=topology,
        inputs=[Submit(2 * DELTA, 2, (0,))],
        faults=[Crash(0, DELTA)],
        delay=slow,
    )
    run.check()
    assert run.trace.closed
