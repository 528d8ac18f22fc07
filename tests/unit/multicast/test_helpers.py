"""Topology, quorums, delays, shrinking, diagrams."""

from dataclasses import replace
from random import Random
from xml.etree import ElementTree

from shmcast.multicast.protocols.core import Wire
from shmcast.multicast.protocols.quorum import Tally, majority
from shmcast.multicast.protocols.registry import names
from shmcast.multicast.protocols.topology import Topology, letters
from shmcast.multicast.sim.api import run, simulate
from shmcast.multicast.sim.campaign import scenario_of, spec_of
from shmcast.multicast.sim.delays import HeavyTailed, paper_000_wan
from shmcast.multicast.sim.faults import Crash, Disturbance, Recover
from shmcast.multicast.sim.run import Run
from shmcast.multicast.sim.shrink import minimise, shrink


def test_any_two_majorities_share_a_member() -> None:
    assert all(2 * majority(n) > n for n in range(1, 20))


def test_second_vote_of_a_process_counts_for_nothing() -> None:
    tally: Tally[str] = Tally((0, 1, 2))
    assert not tally.add(0, "yes")
    assert not tally.add(0, "yes")
    assert not tally.add(9, "yes"), "not a member"
    assert not tally.reached
    assert tally.add(2, "yes") and tally.reached
    assert not tally.add(1, "yes"), "the quorum was complete before"


def test_names_say_group_and_replica() -> None:
    topology = Topology.regular(groups=2, replicas=3, clients=1)
    assert [topology.name(p) for p in topology.processes] == [
        "g0.a",
        "g0.b",
        "g0.c",
        "g1.a",
        "g1.b",
        "g1.c",
        "c0",
    ]
    assert [letters(i) for i in (0, 25, 26, 27)] == ["a", "z", "aa", "ab"]


def test_members_of_overlapping_groups_come_once() -> None:
    assert Topology(groups=((0, 1), (1, 2))).members((0, 1)) == (0, 1, 2)


def test_wan_of_paper_000_has_its_round_trips() -> None:
    topology = Topology.regular(groups=10, replicas=3, clients=9)
    wan = paper_000_wan(topology)

    def round_trip_ms(a: int, b: int) -> float:
        there = wan.sample(a, b, Wire(), Random(0))
        return (there + wan.sample(b, a, Wire(), Random(0))) / 1000

    assert (round_trip_ms(0, 1), round_trip_ms(1, 2), round_trip_ms(0, 2)) == (60, 75, 130)
    assert round_trip_ms(0, 3) == 0.1, "first replicas of two groups share a data centre"


def test_heavy_tail_has_its_median() -> None:
    rng = Random(1)
    drawn = sorted(HeavyTailed(1000).sample(0, 1, Wire(), rng) for _ in range(4001))
    assert 900 < drawn[2000] < 1100 and drawn[-1] > 10_000


def test_minimise_keeps_what_is_needed_and_nothing_else() -> None:
    assert minimise(list(range(100)), lambda part: {3, 57, 58} <= set(part)) == [3, 57, 58]
    assert minimise(list(range(7)), lambda part: True) == []


def test_failing_run_shrinks_until_nothing_can_be_dropped() -> None:
    failing = scenario_of(spec_of("skeen~impatient"), 4)

    def fails(outcome: Run) -> bool:
        return "uniform-global-total" in outcome.report().violated

    short = shrink(failing, fails)
    inputs = tuple(short.inputs)
    assert len(tuple(failing.inputs)) == 30 and len(failing.faults) == 4
    assert len(inputs) <= 5 and len(short.faults) <= 1
    assert fails(run(short))
    for i in range(len(short.faults)):
        kept = short.faults[:i] + short.faults[i + 1 :]
        assert not fails(run(replace(short, faults=kept)))
    for i in range(len(inputs)):
        assert not fails(run(replace(short, inputs=inputs[:i] + inputs[i + 1 :])))


def test_diagram_shows_every_event_but_sends() -> None:
    outcome = simulate("skeen", groups=2, clients=1, messages=1, seed=1)
    lines = outcome.diagram().splitlines()
    assert lines[0].split() == ["t", "|", "g0", "g1", "c0"]
    assert len(lines) == 1 + sum(e.kind != "send" for e in outcome.trace)
    assert sum("D m2.1" in line for line in lines) == 2


def test_svg_is_well_formed_and_has_an_arrow_per_message_between_processes() -> None:
    outcome = simulate("skeen", groups=2, clients=1, messages=3, seed=1)
    root = ElementTree.fromstring(outcome.svg())
    arrows = [e for e in root.iter() if e.get("marker-end")]
    between = [e for e in outcome.trace if e.kind == "receive" and e.peer != e.proc]
    assert len(arrows) == len(between)


SVG = "{http://www.w3.org/2000/svg}"


def svg_of(outcome: Run) -> tuple[list[ElementTree.Element], list[ElementTree.Element], list[str]]:
    """Its circles, its lines, its texts."""
    root = ElementTree.fromstring(outcome.svg())
    texts = [e.text or "" for e in root.iter(f"{SVG}text")]
    return list(root.iter(f"{SVG}circle")), list(root.iter(f"{SVG}line")), texts


def test_svg_marks_a_restart_and_leaves_the_time_before_it_empty() -> None:
    faults = [Crash(0, 3000), Recover(0, 20_000)]
    outcome = simulate("wbcast", groups=1, replicas=3, clients=1, messages=2, faults=faults)
    circles, lines, texts = svg_of(outcome)
    (restart,) = [c for c in circles if c.get("fill") == "white"]
    assert "restart" in texts and "crash" in texts
    first = lines[0].get("y1")
    lives = [li for li in lines if li.get("y1") == li.get("y2") == first == restart.get("cy")]
    assert [life.get("x1") for life in lives[1:]] == [restart.get("cx")]


def test_svg_shows_where_messages_are_lost() -> None:
    outcome = simulate(
        "wbcast", groups=1, replicas=3, clients=1, messages=2, faults=[Disturbance(0, 900, 0.5)]
    )
    lost = [e for e in outcome.trace if e.kind == "link"]
    _, lines, texts = svg_of(outcome)
    assert len(lost) == len([line for line in lines if line.get("stroke-dasharray")]) > 0
    assert sum(text.endswith("is lost") for text in texts) == len(lost)


def test_svg_shows_what_is_proposed_and_decided() -> None:
    outcome = run(scenario_of(spec_of("consensus"), 3))
    _, _, texts = svg_of(outcome)
    for kind in ("propose", "decide"):
        rows = [f"{kind} {e.detail}" for e in outcome.trace if e.kind == kind]
        assert rows and sorted(t for t in texts if t.startswith(f"{kind} ")) == sorted(rows)


def test_every_protocol_of_the_folder_is_in_the_table() -> None:
    assert "skeen" in names()
