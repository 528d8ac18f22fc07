"""Multi-Paxos as a module: rules of single handlers, and a log under crashes and rival leaders."""

from shmcast.multicast.protocols.core import (
    Ask,
    Deliver,
    Effect,
    Event,
    LocalTime,
    Machine,
    Message,
    Multicast,
    Nominate,
    ProcessId,
    Receive,
    Replied,
    Reply,
    Request,
    Send,
    SetTimer,
    Timer,
    Timestamp,
    Wire,
)
from shmcast.multicast.protocols.ft_skeen import logs_agree
from shmcast.multicast.protocols.paxos import (
    NOOP,
    Accepted,
    Append,
    Chosen,
    Entry,
    Leads,
    Paxos,
    Prepare,
    Promise,
    Propose,
)
from shmcast.multicast.protocols.registry import Options, Spec, Tolerates, minority
from shmcast.multicast.protocols.stack import Stack
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast_wire import Ballot
from shmcast.multicast.sim.api import simulate
from shmcast.multicast.sim.campaign import campaign
from shmcast.multicast.sim.faults import Crash
from shmcast.multicast.sim.workload import Submit

TOPOLOGY = Topology.regular(groups=1, replicas=3)
FIRST, SECOND = Ballot(1, 0), Ballot(2, 1)


def sent(effects: list[Effect]) -> list[tuple[Wire, tuple[int, ...]]]:
    return [(e.message, e.to) for e in effects if isinstance(e, Send)]


def receive(machine: Paxos, message: Wire, sender: int) -> list[Effect]:
    return machine.handle(Receive(message, sender), 0)


def test_value_is_chosen_by_a_quorum_and_told_to_the_others() -> None:
    leader = Paxos(TOPOLOGY, 0)
    (propose, to), *_ = sent(leader.handle(Request(Append("x")), 0))
    assert (propose, to) == (Propose(FIRST, 0, "x"), (0, 1, 2))
    receive(leader, propose, 0)
    assert receive(leader, Accepted(FIRST, 0), 0) == []
    effects = receive(leader, Accepted(FIRST, 0), 2)
    assert Reply(Entry(0, "x")) in effects
    assert sent(effects) == [(Chosen({0: "x"}), (1, 2))]


def test_acceptor_keeps_its_promise() -> None:
    acceptor = Paxos(TOPOLOGY, 2)
    receive(acceptor, Prepare(SECOND), 1)
    assert receive(acceptor, Propose(FIRST, 0, "x"), 0) == []
    assert sent(receive(acceptor, Propose(SECOND, 0, "y"), 1)) == [(Accepted(SECOND, 0), (1,))]


def candidate() -> Paxos:
    machine = Paxos(TOPOLOGY, 1)
    assert (Prepare(SECOND), (0, 1, 2)) in sent(machine.handle(Nominate(0, 1), 0))
    return machine


def test_new_leader_proposes_what_may_have_been_chosen_and_fills_gaps() -> None:
    machine = candidate()
    low, high = Ballot(1, 0), Ballot(1, 2)
    receive(machine, Promise(SECOND, {2: (low, "old")}, {0: "a"}), 1)
    effects = receive(machine, Promise(SECOND, {2: (high, "new")}, {}), 2)
    assert Reply(Entry(0, "a")) in effects
    assert (Propose(SECOND, 1, NOOP), (0, 1, 2)) in sent(effects)
    assert (Propose(SECOND, 2, "new"), (0, 1, 2)) in sent(effects)
    assert Reply(Leads(SECOND)) in effects


def test_candidate_that_finds_no_quorum_tries_a_higher_ballot() -> None:
    machine = candidate()
    effects = machine.handle(Timer("lead"), 50_000)
    (prepare, _), *_ = sent(effects)
    assert isinstance(prepare, Prepare) and prepare.b > SECOND
    assert any(isinstance(e, SetTimer) for e in effects), "and goes on trying"


def test_leader_that_is_not_answered_tries_a_higher_ballot() -> None:
    """Its quorum may have promised a ballot of which it never heard."""
    leader = Paxos(TOPOLOGY, 0)
    leader.handle(Request(Append("x")), 0)
    (prepare, _), *_ = sent(leader.handle(Timer("lead"), 50_000))
    assert isinstance(prepare, Prepare) and prepare.b > FIRST


def test_entries_are_handed_out_without_gaps() -> None:
    learner = Paxos(TOPOLOGY, 2)
    assert receive(learner, Chosen({1: "b"}), 0) == []
    assert receive(learner, Chosen({0: "a"}), 0) == [Reply(Entry(0, "a")), Reply(Entry(1, "b"))]


class LogUser:
    """Puts its multicasts into the log while it leads; gives up after some attempts."""

    def __init__(self, group: int) -> None:
        self.group = group
        self.wanted: dict[object, Message] = {}
        self.out: set[object] = set()
        self.attempts = 0

    def handle(self, event: Event, now: LocalTime) -> list[Effect]:
        match event:
            case Multicast(m):
                self.wanted[m.id] = m
                return [*self.append(), SetTimer("again", now + 20_000)]
            case Timer() if self.wanted and self.attempts < 3:
                self.attempts += 1
                return [*self.append(), SetTimer("again", now + 20_000)]
            case Replied(Entry(slot, Message() as m), _) if m.id not in self.out:
                self.out.add(m.id)
                self.wanted.pop(m.id, None)
                return [Deliver(m, Timestamp(slot, self.group))]
            case Replied(Leads(), _):
                return self.append()
        return []

    def append(self) -> list[Effect]:
        return [Ask("paxos", Request(Append(m))) for m in self.wanted.values()]


def build(process: ProcessId, topology: Topology, options: Options) -> Machine:
    return Stack.linear(("user", LogUser(0)), ("paxos", Paxos(topology, process)))


LOG = Spec(
    name="paxos-log",
    build=build,
    promises=("uniform-agreement", "uniform-integrity", "uniform-global-total", "timestamp-order"),
    tolerates=Tolerates(crashes_per_group=minority, partitions=True, nominations=True),
    shapes=(Topology.regular(1, 3), Topology.regular(1, 5)),
    invariants=lambda: [logs_agree()],
)


def test_logs_agree_under_crashes_partitions_and_rival_leaders() -> None:
    """logs_agree holds after every step; and all members deliver the same."""
    found = campaign(LOG, range(60))
    assert not found.failures, "\n".join(found.failures.values())
    assert found.faults["Crash"] > 10 and found.faults["WrongNomination"] > 10


def test_successor_of_a_crashed_leader_keeps_its_chosen_entries() -> None:
    run = simulate(
        LOG,
        topology=TOPOLOGY,
        inputs=[Submit(i * 1000, 0, (0,)) for i in range(5)],
        faults=[Crash(0, 3500)],
    )
    run.check()
    delivered = {
        p: [e.msg for e in run.trace if e.kind == "deliver" and e.proc == p] for p in (1, 2)
    }
    assert delivered[1] == delivered[2] != []
