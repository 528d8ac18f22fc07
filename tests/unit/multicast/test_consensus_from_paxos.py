"""Consensus over the log of Multi-Paxos: single handlers, and instances under faults."""

from dataclasses import replace

from shmcast.multicast.protocols.consensus import Decided, Propose
from shmcast.multicast.protocols.consensus_from_paxos import ConsensusFromPaxos, Wanted
from shmcast.multicast.protocols.core import (
    Ask,
    Effect,
    Event,
    Machine,
    ProcessId,
    Receive,
    Replied,
    Reply,
    Request,
    Send,
)
from shmcast.multicast.protocols.paxos import Append, Deposed, Entry, Leads, Paxos
from shmcast.multicast.protocols.registry import Options, lookup
from shmcast.multicast.protocols.stack import Stack
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot
from shmcast.multicast.sim.campaign import campaign

MEMBERS = (0, 1, 2)


def member(process: ProcessId) -> ConsensusFromPaxos:
    return ConsensusFromPaxos(process, MEMBERS, "paxos")


def appended(machine: ConsensusFromPaxos, event: Event) -> list[Wanted]:
    asked = [e.event for e in machine.handle(event, 0) if isinstance(e, Ask)]
    return [a.what.value for a in asked if isinstance(a, Request) and isinstance(a.what, Append)]


def from_log(what: object) -> Replied:
    return Replied(what, "paxos")


def replies(effects: list[Effect]) -> list[object]:
    return [e.what for e in effects if isinstance(e, Reply)]


def test_proposal_goes_to_all_and_the_leader_appends_it() -> None:
    proposal = Request(Propose("x", 1))
    follower = member(1)
    (send,) = [e for e in follower.handle(proposal, 0) if isinstance(e, Send)]
    assert send == Send(Wanted(1, "x"), (0, 2))
    assert appended(member(1), proposal) == []
    assert appended(member(0), Receive(send.message, 1)) == [Wanted(1, "x")]


def test_leader_appends_one_proposal_of_an_instance() -> None:
    leader = member(0)
    assert appended(leader, Request(Propose("x", 1))) == [Wanted(1, "x")]
    assert appended(leader, Receive(Wanted(1, "y"), 2)) == []


def test_first_entry_of_an_instance_decides_and_later_ones_count_for_nothing() -> None:
    one = member(1)
    first, second = (from_log(Entry(slot, Wanted(1, value))) for slot, value in enumerate("xy"))
    assert replies(one.handle(first, 0)) == [Decided("x", 1)]
    assert one.handle(second, 0) == []
    assert appended(one, from_log(Leads(Ballot(2, 1)))) == []


def test_new_leader_appends_what_is_not_decided() -> None:
    one = member(1)
    one.handle(Receive(Wanted(1, "x"), 2), 0)
    one.handle(Receive(Wanted(2, "y"), 2), 0)
    one.handle(from_log(Entry(0, Wanted(1, "x"))), 0)
    assert appended(one, from_log(Leads(Ballot(2, 1)))) == [Wanted(2, "y")]


def test_leader_that_lost_its_ballot_appends_again_when_it_leads_again() -> None:
    leader = member(0)
    leader.handle(Request(Propose("x", 1)), 0)
    leader.handle(from_log(Deposed(1)), 0)
    assert appended(leader, Request(Propose("y", 2))) == []
    again = appended(leader, from_log(Leads(Ballot(3, 0))))
    assert again == [Wanted(1, "x"), Wanted(2, "y")]


def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
    return Stack.linear(
        ("consensus", ConsensusFromPaxos(process, topology.groups[0], "paxos")),
        ("paxos", Paxos(topology, process)),
    )


def test_many_instances_under_faults_keep_what_consensus_promises() -> None:
    """Alone, without a broadcast below that would bring every proposal to the leader anyhow."""
    original = lookup("consensus")
    listens = replace(original.tolerates, nominations=True, suspicions=False)
    spec = replace(original, name="consensus-paxos", build=build, tolerates=listens)
    found = campaign(spec, range(100))
    assert found.passed, "\n".join(found.failures.values())
    assert found.faults["Crash"] > 20 and found.faults["WrongNomination"] > 20
