"""WbCast over long runs: memory stays flat, also while a member is down, and that member comes
back. The last tests are what is known to break in another implementation of the protocol."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from shmcast.multicast.checks.streaming import Certificate
from shmcast.multicast.checks.trace import DELIVER, TraceEvent
from shmcast.multicast.protocols.core import Event, Machine, ProcessId, Suspect
from shmcast.multicast.protocols.registry import Options, lookup
from shmcast.multicast.protocols.topology import Topology
from shmcast.multicast.protocols.wbcast import WbCast
from shmcast.multicast.protocols.wbcast_member import Member
from shmcast.multicast.protocols.wbcast_session import Client
from shmcast.multicast.protocols.wbcast_specs import build_with
from shmcast.multicast.protocols.wbcast_wire import NewLeaderAck, Snapshot
from shmcast.multicast.sim.api import DELTA, run, simulate
from shmcast.multicast.sim.faults import Crash, Recover, WrongNomination
from shmcast.multicast.sim.left_behind import left_behind
from shmcast.multicast.sim.workload import Input, Submit, random_submissions

TOPOLOGY = Topology.regular(groups=2, replicas=3, clients=3)
INTERVAL = 500
VICTIM = 2


def kept(machine: Member) -> int:
    s = machine.state
    heaps = len(s.pending) + len(s.committed)
    return len(s.phase) + len(s.accepts) + len(s.acks) + heaps + machine.sessions.size


@dataclass
class Watched:
    """The most that any member held at the moment of a delivery."""

    kind: type[Member] = Member
    machines: dict[ProcessId, Member] = field(default_factory=dict)
    most: int = 0

    def build(self, process: ProcessId, topology: Topology, options: Options) -> Machine:
        machine = build_with(self.kind)(process, topology, options)
        if isinstance(machine, Member):
            self.machines[process] = machine
        return machine

    def __call__(self, event: TraceEvent) -> None:
        if event.kind == DELIVER:
            self.most = max(self.most, kept(self.machines[event.proc]))


def memory_max(messages: int, *faults: Crash | Recover, kind: type[Member] = Member) -> int:
    watched = Watched(kind)
    outcome = simulate(
        replace(lookup("wbcast"), build=watched.build),
        topology=TOPOLOGY,
        messages=messages,
        interval=INTERVAL,
        faults=faults,
        invariants=False,
        record=watched,
    )
    assert outcome.trace.closed
    return watched.most


def test_memory_does_not_grow_with_the_number_of_messages() -> None:
    assert memory_max(1600) <= 1.5 * memory_max(400)


def test_memory_does_not_grow_while_a_member_is_down() -> None:
    down = Crash(VICTIM, 5 * DELTA)
    assert memory_max(1600, down) <= 1.5 * memory_max(400, down)


class WaitsForTheDead(Member):
    def handle(self, event: Event, now: int) -> list:  # type: ignore[type-arg]
        return [] if isinstance(event, Suspect) else super().handle(event, now)


def test_memory_grows_if_the_dead_are_waited_for() -> None:
    """The test above can fail."""
    down = Crash(VICTIM, 5 * DELTA)
    few, many = (memory_max(n, down, kind=WaitsForTheDead) for n in (400, 1600))
    assert many > 3 * few


def test_member_that_was_down_for_long_comes_back_and_keeps_up() -> None:
    """It delivers everything that was multicast well after its return, in the order of all."""
    messages = 1200
    back = messages * INTERVAL // 2
    settled = back + 60 * DELTA
    outcome = simulate(
        "wbcast",
        topology=TOPOLOGY,
        messages=messages,
        interval=INTERVAL,
        faults=[Crash(VICTIM, 5 * DELTA), Recover(VICTIM, back)],
        invariants=False,
        record="parts",
    )
    assert not outcome.check().undetermined
    later = {
        e.msg for e in outcome.trace if e.kind == "multicast" and e.real_t > settled and 0 in e.dest
    }
    mine = {e.msg for e in outcome.trace if e.kind == DELIVER and e.participant == (VICTIM, 1)}
    assert len(later) > messages // 10 and later <= mine
    machine = outcome.machines[VICTIM]
    assert isinstance(machine, Member) and not machine.state.phase, "and it collects as all do"


def test_member_that_is_left_behind_says_so_and_breaks_no_promise() -> None:
    left = 0
    for seed in range(60):
        outcome = run(left_behind(lookup("wbcast"), seed))
        report = outcome.check()
        assert not report.undetermined, f"left behind, seed {seed}"
        left += any("Missed" in event.detail for event in outcome.trace)
    assert left >= 10, "the scenarios must show what they are made for"


class BringsBack(Member):
    """L51-L53 to the letter, although others have collected the message."""

    def merged(self, votes: list[NewLeaderAck], J: list[NewLeaderAck]) -> Snapshot:
        return WbCast.merged(self, votes, J)


def test_collected_message_that_comes_back_blocks_its_group() -> None:
    broken = replace(lookup("wbcast"), build=build_with(BringsBack), invariants=list)
    assert any(run(left_behind(broken, seed)).report().undetermined for seed in range(70, 120))


# What broke in another implementation ---------------------------------------------------------


def test_groups_that_share_no_traffic_collect_their_garbage() -> None:
    """There: "garbage collection never fires when groups share no traffic"."""

    def alone(messages: int) -> Iterator[Input]:
        for submit in random_submissions(TOPOLOGY, messages, seed=1, interval=INTERVAL):
            yield Submit(submit.at, submit.process, submit.dest[:1])

    def most(messages: int) -> int:
        watched = Watched()
        simulate(
            replace(lookup("wbcast"), build=watched.build),
            topology=TOPOLOGY,
            inputs=alone(messages),
            invariants=False,
            record=watched,
        )
        assert not any(machine.state.phase for machine in watched.machines.values())
        return watched.most

    assert most(1600) <= 1.5 * most(400)


def test_clients_outlast_leaders_that_never_stop_changing() -> None:
    """There: a leader that was killed left "clients hanging for ever in 9 of 11 trials"."""
    messages, period = 60, 12 * DELTA
    span = messages * 2000
    turns = [
        WrongNomination(0, (1, 2, 0)[turn % 3], at, at + period)
        for turn, at in enumerate(range(0, span, period))
    ]
    outcome = simulate(
        "wbcast", topology=TOPOLOGY, messages=messages, interval=2000, faults=turns, seed=3
    )
    assert not outcome.check().undetermined
    ballots = [m.state.cballot.n for m in outcome.machines.values() if isinstance(m, Member)]
    assert max(ballots) > len(turns) // 2, "leaders did change"
    clients = [m for m in outcome.machines.values() if isinstance(m, Client)]
    assert len(clients) == 3 and not any(client.sender.waiting for client in clients)


@pytest.mark.parametrize("guess", [1, 2])
def test_client_with_a_wrong_guess_is_told_at_once(guess: int) -> None:
    """There: "a non-leader drops a multicast silently". Two more delays than WbCast's three, and
    no timeout."""
    client = TOPOLOGY.clients[0]
    outcome = simulate(
        "wbcast",
        topology=TOPOLOGY,
        inputs=[Submit(100, client, (0,))],
        faults=[WrongNomination(0, guess, 0, 200 * DELTA, to=frozenset({client}))],
    )
    assert not outcome.check().undetermined
    (delay,) = outcome.delays()
    assert delay.first == 5 * DELTA


def test_certificate_of_order_holds_over_a_long_run_with_a_member_down() -> None:
    certificate = Certificate(TOPOLOGY.groups)
    outcome = simulate(
        "wbcast",
        topology=TOPOLOGY,
        messages=800,
        interval=INTERVAL,
        faults=[Crash(VICTIM, 5 * DELTA)],
        invariants=False,
        record=certificate,
    )
    verdict = certificate.verdict(closed=outcome.trace.closed)
    assert not verdict.violated and certificate.deliveries > 800
